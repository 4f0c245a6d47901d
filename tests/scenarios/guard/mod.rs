//! The guard against mass deletion: what it holds (`holds`), again between the passes (`between`), and what it
//! remembers, where and for how long (`remembers`).

mod between;
mod holds;
mod remembers;

use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::report::{GuardReport, Report};

use crate::fleet::Fleet;
use crate::run::{converge, held_back};
use testbed::clock::StandInClock;

/// `GUARD_WAIT`, unless it is set.
const WAIT: Duration = Duration::from_mins(10);

/// Four Services of `shop` with three pods each, all registered.
struct Shops {
    fleet: Fleet,
    clock: StandInClock,
    function: Function,
}

const SHOPS: [&str; 4] = ["cart", "mail", "pay", "web"];

impl Shops {
    async fn start() -> Self {
        let fleet = Fleet::start().await;
        Self::open(&fleet);
        let clock = StandInClock::new();
        let function = fleet.function().await.with_clock(clock.clock());
        converge(&fleet, &function).await;
        Self { fleet, clock, function }
    }

    /// The same world, registered into services that somebody else made.
    async fn start_in_services_of_others() -> Self {
        let fleet = Fleet::start().await;
        for name in SHOPS {
            let kind = testbed::cloud_map::ServiceKind::Http;
            fleet.cloud_map.service(&fleet.http, name, kind);
        }
        Self::open(&fleet);
        let clock = StandInClock::new();
        let function = fleet.function().await.with_clock(clock.clock());
        converge(&fleet, &function).await;
        Self { fleet, clock, function }
    }

    fn open(fleet: &Fleet) {
        for (index, name) in SHOPS.into_iter().enumerate() {
            let addresses = addresses(index);
            fleet.web(name, "prod", &addresses.each_ref().map(String::as_str));
        }
    }

    /// Somebody deletes all of them.
    fn delete_all(&self) {
        for name in SHOPS {
            self.fleet.cluster.delete_service("shop", name);
        }
    }

    /// No pod is ready any more.
    fn fail_all(&self) {
        for name in SHOPS {
            self.fleet.pods(name, &[]);
        }
    }

    /// Another party adds attributes to all instances, as many as there is room for.
    fn fill(&self) {
        for name in SHOPS {
            self.fleet.fill("prod", name);
        }
    }

    /// How many instances of ours there are in all.
    fn registered(&self) -> usize {
        SHOPS.iter().map(|name| self.fleet.addresses("prod", name).len()).sum()
    }

    /// Another process of the function, which knows nothing of this one.
    async fn restart(&mut self) {
        self.function = self.fleet.function().await.with_clock(self.clock.clock());
    }
}

fn addresses(index: usize) -> [String; 3] {
    [1, 2, 3].map(|last| format!("10.0.{index}.{last}"))
}

/// What the guard says of the first cluster.
fn guard(report: &Report) -> &GuardReport {
    let guard = report.clusters[0].guard.as_ref();
    guard.unwrap_or_else(|| panic!("the guard says nothing: {report}"))
}

/// The run is complete, and takes nothing out.
fn holds(report: &Report) {
    assert!(report.ok && report.counts.failed == 0, "{report}");
    assert_eq!(report.counts.deregistered, 0, "{report}");
    assert!(held_back(report).contains(&"Guard"), "{report}");
}
