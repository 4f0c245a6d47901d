//! A story as it happens: changes, runs and a look at the registry every few milliseconds, side by side. Time stands
//! still but for waiting, so that the same story takes the same course.

use std::time::Duration;

use cloud_map_sync::function::Function;
use futures_util::future::join_all;
use tokio::time::{Instant, sleep, sleep_until};

use super::outcome;
use super::story::{Plot, SERVICES, Service, Story};
use super::trouble::{PROCESSES, take_runs};
use crate::fleet::{Fleet, annotated, attributes, give_pods};
use crate::run::sync;
use testbed::cloud_map::Behaviour;
use testbed::kubernetes::KubernetesServer;

/// How often it is looked whether a ready pod is gone.
const GLANCE: Duration = Duration::from_millis(25);
/// After so long nothing that was begun is under way any more.
const REST: Duration = Duration::from_mins(2);

/// Plays a story on a runtime of its own.
pub fn play(story: &Story) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().start_paused(true).build().expect("a runtime");
    runtime.block_on(tell(story));
}

/// The world of a story, and the processes of the function.
pub struct Stage {
    pub fleet: Fleet,
    green: KubernetesServer,
    processes: Vec<Function>,
}

async fn tell(story: &Story) {
    let stage = Stage::set(story).await;
    if story.is_converged {
        let report = sync(&stage.processes[0]).await;
        assert!(report.ok, "before any trouble: {report}");
    }
    let kept = outcome::kept(&stage, story);
    story.trouble.begin(&stage.fleet.cloud_map, |cluster| stage.cluster(cluster));
    let start = Instant::now();
    let troubles = async {
        tokio::join!(
            stage.changes(story, start),
            take_runs(&story.runs, &stage.processes, &SERVICES, start)
        );
    };
    tokio::select! {
        () = troubles => {}
        () = async { loop { outcome::assert_kept(&stage, &kept); sleep(GLANCE).await } } => {}
    }
    stage.calm().await;
    outcome::assert_kept(&stage, &kept);
    outcome::assert_rest(&stage, story, &stage.processes[story.last], &kept).await;
    let violations = stage.fleet.cloud_map.take_violations();
    assert_eq!(violations, [""; 0], "something foreign was touched");
}

impl Stage {
    async fn set(story: &Story) -> Self {
        let fleet = Fleet::start().await;
        let green = fleet.green().await;
        fleet.ecs_service("web", "10.0.9.1");
        let by_hand = attributes(&[("AWS_INSTANCE_IPV4", "10.0.9.2"), ("colour", "red")]);
        let cart =
            fleet.cloud_map.service(&fleet.http, "cart", testbed::cloud_map::ServiceKind::Http);
        fleet.put(&cart, "by-hand", &by_hand);
        let stage = Self { processes: Vec::new(), green, fleet };
        for (number, plot) in story.services.iter().enumerate() {
            stage.put(number, plot.before.as_ref());
        }
        let sandbox = stage.fleet.sandbox.clone();
        let clusters = [("CLUSTERS", "blue,green")];
        let functions = (0..PROCESSES).map(|_| sandbox.function(&clusters));
        Self { processes: join_all(functions).await, ..stage }
    }

    /// All processes, the last one too.
    pub fn processes(&self) -> &[Function] {
        &self.processes
    }

    fn cluster(&self, name: &str) -> &KubernetesServer {
        if name == "blue" { &self.fleet.cluster } else { &self.green }
    }

    /// Makes a Service what it is from now on.
    fn put(&self, number: usize, service: Option<&Service>) {
        let (cluster, name) = SERVICES[number];
        let server = self.cluster(cluster);
        match service {
            Some(service) => {
                server.service(annotated(name, service.place.0, service.place.1));
                let addresses = service.pods.iter().map(|pod| outcome::address(cluster, *pod));
                let addresses: Vec<String> = addresses.collect();
                let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
                give_pods(server, name, &addresses);
            }
            None => _ = server.delete_service("shop", name),
        }
    }

    async fn changes(&self, story: &Story, start: Instant) {
        let change = |(number, plot): (usize, &Plot)| {
            let changes = plot.changes.clone();
            async move {
                for (at, service) in changes {
                    sleep_until(start + Duration::from_millis(at)).await;
                    self.put(number, service.as_ref());
                }
            }
        };
        join_all(story.services.iter().enumerate().map(change)).await;
    }

    /// All trouble ends, and what is under way comes to its end.
    async fn calm(&self) {
        sleep(REST).await;
        self.fleet.cloud_map.heal();
        self.fleet.cloud_map.behave(Behaviour::default());
        for cluster in [&self.fleet.cluster, &self.green] {
            cluster.clear_faults();
        }
    }
}
