//! A member whose function does not run any more: it is told, stays in the imports, and expires only if that is set.

use std::time::Duration;

use cloud_map_sync::report::Report;

use super::{Members, exported, imported, in_full, part, service, sources, web};
use crate::fleet::refs;
use crate::run::{metric, sync};

const OLD: &str = "2026-01-01T00:00:00Z";
const YOUNG: &str = "2026-02-01T00:00:00Z";

impl Members {
    /// Both export `web`, and green alone exports `cart`.
    async fn with_exports() -> Self {
        let members = Self::start().await;
        exported(&members.blue, web(), &["10.0.0.1"], YOUNG);
        exported(&members.green, web(), &["10.1.0.1"], OLD);
        let cart = service("cart");
        exported(&members.green, cart, &["10.1.0.2"], OLD);
        members.converge().await;
        members
    }
}

fn stale(report: &Report) -> Vec<(&str, bool)> {
    let stale = part(report, "blue").stale.iter();
    stale.map(|it| (it.cluster_id.as_str(), it.expired)).collect()
}

#[tokio::test]
async fn member_without_a_heartbeat_is_reported_and_stays_in_the_imports() {
    let members = Members::with_exports().await;
    members.amber("cart", &["10.2.0.1"]);
    let blue_alone = members.serving("blue", &[]).await;
    let report = sync(&blue_alone).await;
    assert_eq!((stale(&report), metric(&report, "StaleClusters")), (vec![], Some(0)));
    members.clock.advance(Duration::from_mins(16));

    let report = sync(&blue_alone).await;

    assert_eq!(stale(&report), [("green", false)], "{}", in_full(&report));
    assert_eq!(metric(&report, "StaleClusters"), Some(1));
    let text = report.to_string();
    assert!(text.contains("! stale      member green (arn:aws:eks:"), "{text}");
    let both = sources([("blue", &["10.0.0.1:8080"]), ("green", &["10.1.0.1:8080"])]);
    assert_eq!(imported(&members.blue, "web"), both);
    let about_web = members.sync_service("blue", "web").await;
    assert!(about_web.ok && stale(&about_web).is_empty(), "{}", in_full(&about_web));
    let later = members.serving("blue", &[("STALE_CLUSTERS_AFTER", "17m")]).await;
    assert_eq!(stale(&sync(&later).await), []);

    // Read in the same run, green is well, whatever its record said before.
    members.clock.advance(Duration::from_hours(1));
    let report = sync(&members.function).await;
    assert_eq!((stale(&report), metric(&report, "StaleClusters")), (vec![], Some(0)));
}

#[tokio::test]
async fn heartbeat_is_written_by_a_full_sync_when_it_is_five_minutes_old() {
    let members = Members::with_exports().await;
    let heartbeat = || {
        let records = members.fleet.instances("clusterset.shop-set", "green");
        records["cluster"]["cloud-map-sync/heartbeat"].clone()
    };
    let first = heartbeat();
    members.clock.advance(Duration::from_mins(5));
    members.assert_settled().await;
    members.clock.advance(Duration::from_secs(1));
    members.sync_service("green", "web").await;
    assert_eq!(heartbeat(), first, "a message is no heartbeat");
    sync(&members.function).await;
    assert_eq!(
        (first.as_str(), heartbeat().as_str()),
        ("2026-11-21T10:51:00Z", "2026-11-21T10:56:01Z")
    );
}

#[tokio::test]
async fn endpoints_of_an_expired_member_leave_only_the_imports_that_others_serve() {
    let members = Members::with_exports().await;
    let settings = [("EXPIRE_CLUSTERS_AFTER", "30m")];
    let blue_alone = members.serving("blue", &settings).await;
    members.clock.advance(Duration::from_mins(30));
    sync(&blue_alone).await;
    let both = sources([("blue", &["10.0.0.1:8080"]), ("green", &["10.1.0.1:8080"])]);
    assert_eq!(imported(&members.blue, "web"), both);
    members.clock.advance(Duration::from_mins(1));

    let report = sync(&blue_alone).await;

    assert_eq!(stale(&report), [("green", true)], "{}", in_full(&report));
    assert_eq!(imported(&members.blue, "web"), sources([("blue", &["10.0.0.1:8080"])]));
    assert_eq!(imported(&members.blue, "cart"), sources([("green", &["10.1.0.2:8080"])]));
    let import = members.blue.service_import("shop", "web").expect("an import");
    let exporters = import["status"]["clusters"].as_array().expect("a list");
    assert_eq!(exporters.len(), 2, "its export still counts: {import:#}");

    members.converge().await;
    assert_eq!(imported(&members.blue, "web"), both);
}

#[tokio::test]
async fn member_that_is_read_after_a_pause_does_not_expire_though_the_guard_holds_its_exports() {
    let members = Members::start().await;
    for (third, name) in ["api", "cart"].into_iter().enumerate() {
        let service = service(name);
        let addresses: Vec<String> = (1..=8).map(|last| format!("10.0.{third}.{last}")).collect();
        exported(&members.blue, service, &refs(&addresses), OLD);
    }
    let api = service("api");
    exported(&members.green, api, &["10.1.0.1"], YOUNG);
    members.converge().await;
    let before = imported(&members.green, "api");
    members.clock.advance(Duration::from_hours(1));
    assert!(members.blue.unexport("shop", "api") && members.blue.unexport("shop", "cart"));
    let function = members.serving("blue,green", &[("EXPIRE_CLUSTERS_AFTER", "30m")]).await;

    let held = sync(&function).await;

    let guard = held.clusters[0].guard.as_ref();
    assert!(guard.is_some_and(|guard| guard.state.holds()), "{}", in_full(&held));
    assert_eq!(stale(&held), []);
    assert_eq!(imported(&members.green, "api"), before);
}
