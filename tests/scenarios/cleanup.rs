//! The action `cleanup`: with `FAN_OUT` each run sees one cluster, and what needs the claims of all of them is done here.
//! No instance of a cluster that exists is touched.

use cloud_map_sync::function::Function;
use cloud_map_sync::report::Report;
use serde_json::json;

use crate::dead_clusters::{DAY, WEEK};
use crate::fleet::{Fleet, annotated, give_pods, web_of};
use crate::queue::{batch_of, take_bodies};
use crate::run::{converged, report, writes};
use testbed::function::{event, invoke};
use testbed::kubernetes::KubernetesServer;
use testbed::sqs::Queue;

const DELETING: (&str, &str) = ("DELETE_EMPTY_SERVICES", "true");

/// `blue` with `web` and `gone`, `green` with `api`, each with a pod, in step by `FAN_OUT`; then `gone` is deleted.
struct World {
    fleet: Fleet,
    green: KubernetesServer,
    queue: Queue,
}

impl World {
    async fn start() -> Self {
        let (fleet, green) = Fleet::with_green().await;
        fleet.web("web", "prod", &["10.0.1.1"]);
        fleet.web("gone", "prod", &["10.0.3.1"]);
        web_of(&green, "api", "prod", &["10.0.2.1"]);
        let queue = fleet.sandbox.own_queue();
        let world = Self { fleet, green, queue };
        world.round(&world.function(&[]).await).await;
        world.fleet.cluster.delete_service("shop", "gone");
        world
    }

    async fn function(&self, settings: &[(&str, &str)]) -> Function {
        let settings = [&[("FAN_OUT", self.queue.url())], settings].concat();
        self.fleet.function_with(&settings).await
    }

    /// The schedule with all that it queues.
    async fn round(&self, function: &Function) {
        invoke(function, &event("schedule-eventbridge-scheduler")).await;
        for body in take_bodies(&self.queue) {
            invoke(function, &batch_of(&[body])).await;
        }
        self.fleet.cloud_map.forget_calls();
    }

    fn exists(&self, service: &str) -> bool {
        self.fleet.cloud_map.find_service("prod", service).is_some()
    }

    fn addresses(&self) -> Vec<String> {
        ["web", "api"].into_iter().flat_map(|name| self.fleet.addresses("prod", name)).collect()
    }
}

async fn clean_up(function: &Function) -> Report {
    report(function, &event("direct-cleanup")).await
}

pub fn kept(report: &Report) -> String {
    report.empty_services.kept.join("\n")
}

#[tokio::test]
async fn empty_service_is_deleted_by_the_cleanup_alone_and_once() {
    let world = World::start().await;
    let function = world.function(&[DELETING]).await;
    for _ in 0..2 {
        world.round(&function).await;
    }
    assert!(world.exists("gone") && world.fleet.addresses("prod", "gone").is_empty());

    let report = clean_up(&function).await;
    assert!(report.ok && report.cleanup && report.whole, "{report}");
    assert_eq!(writes(&world.fleet).len(), 1, "{report}");
    assert_eq!(
        report.to_string(),
        "our Cloud Map services without instances and without a claim\n  - delete     prod/gone\ncleaned up: 1 deleted\n"
    );
    assert!(!world.exists("gone") && world.exists("web") && world.exists("api"));

    world.fleet.cloud_map.forget_calls();
    assert_eq!(clean_up(&function).await.to_string(), "cleaned up: nothing to do\n");
    assert_eq!(world.fleet.cloud_map.writes(), 0);
}

#[tokio::test]
async fn claim_of_any_cluster_keeps_its_service_without_an_endpoint() {
    let world = World::start().await;
    world.green.service(annotated("gone", "prod", "gone"));
    world.fleet.pods("web", &[]);
    let function = world.function(&[DELETING]).await;
    world.round(&function).await;
    let report = clean_up(&function).await;
    assert!(report.ok && report.counts.deleted == 0, "{report}");
    assert!(world.exists("gone") && world.exists("web"));
    assert_eq!(world.fleet.cloud_map.writes(), 0);
}

#[tokio::test]
async fn instances_and_claims_of_living_clusters_are_left_to_their_own_runs() {
    let world = World::start().await;
    world.fleet.pods("web", &["10.0.1.1", "10.0.1.2"]);
    world.fleet.web("new", "prod", &["10.0.5.1"]);
    give_pods(&world.green, "api", &[]);
    let events = world.fleet.cluster.events("shop").len();
    let report = clean_up(&world.function(&[DELETING, WEEK]).await).await;
    assert!(report.ok && report.counts.changes() == 0, "{report}");
    assert_eq!(world.fleet.cloud_map.writes(), 0, "gone is not empty yet: {report}");
    assert_eq!(world.addresses(), ["10.0.1.1", "10.0.2.1"]);
    assert_eq!(world.fleet.cluster.events("shop").len(), events);
}

#[tokio::test]
async fn while_a_cluster_or_cloud_map_cannot_be_read_or_a_claim_is_unclear_nothing_is_deleted() {
    type Change = fn(&World);
    let unread: Change = |world| world.green.refuse("/api/v1/services", 500);
    let unclear: Change = |world| world.fleet.annotate("web", "hostname", "w b");
    let unlisted: Change = |world| world.fleet.cloud_map.deny("ListServices");
    for (payload, change, unreadable, said) in [
        ("direct-cleanup", unread, 1, "green could not be read"),
        ("direct-sync", unread, 1, "green could not be read"),
        ("direct-cleanup", unclear, 0, "shop/web of cluster blue"),
        ("direct-cleanup", unlisted, 2, ""),
    ] {
        let world = World::start().await;
        world.round(&world.function(&[DELETING, WEEK]).await).await;
        change(&world);
        let report = report(&world.function(&[DELETING, WEEK]).await, &event(payload)).await;
        assert_eq!(
            (report.ok, report.counts.unreadable),
            (unreadable == 0, unreadable),
            "{report}"
        );
        assert_eq!(report.to_string().contains("! not read"), unreadable > 0, "{report}");
        assert!(kept(&report).contains(said), "{report}");
        assert_eq!((world.fleet.cloud_map.writes(), world.exists("gone")), (0, true), "{report}");
    }
}

#[tokio::test]
async fn dead_cluster_is_noted_and_purged_after_its_time() {
    let world = World::start().await;
    let arn = world.fleet.sandbox.cluster_arn("green");
    world.fleet.sandbox.aws().eks.delete(&arn);
    let settings = [WEEK, ("CLUSTERS", "blue")];
    let report = clean_up(&world.function(&settings).await).await;
    assert_eq!((report.orphans.len(), report.counts.orphaned), (1, 1), "{report}");
    assert_eq!(writes(&world.fleet), ["RegisterInstance api"], "the time is noted");

    world.fleet.clock.advance(6 * DAY);
    world.fleet.cloud_map.forget_calls();
    clean_up(&world.function(&settings).await).await;
    assert_eq!(world.fleet.cloud_map.writes(), 0);

    world.fleet.clock.advance(DAY);
    let report = clean_up(&world.function(&settings).await).await;
    assert!(report.ok && report.counts.deregistered == 1, "{report}");
    assert_eq!(world.addresses(), ["10.0.1.1"]);
}

#[tokio::test]
async fn shared_ttl_is_raised_once_all_clusters_are_read() {
    let (fleet, green) = Fleet::with_green().await;
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    web_of(&green, "web", "prod.local", &["10.0.2.1"]);
    let function = converged(&fleet).await;
    fleet.annotate("web", "ttl", "300");
    green.edit_service("shop", "web", |object| {
        object["metadata"]["annotations"]["cloudmap.controller/ttl"] = "120".into();
    });
    let ttl = || fleet.view("prod.local", "web").dns.expect("records").records[0].1;
    let before = ttl();
    for cluster in ["blue", "green", "blue"] {
        report(&function, &json!({ "action": "sync", "cluster": cluster })).await;
    }
    assert_eq!(ttl(), before, "a run of one cluster only lowers it");

    let cleanup = clean_up(&function).await;
    assert_eq!((ttl(), cleanup.counts.updated), (120, 1), "{cleanup}");
    fleet.cloud_map.forget_calls();
    for cluster in ["blue", "green"] {
        report(&function, &json!({ "action": "sync", "cluster": cluster })).await;
    }
    clean_up(&function).await;
    assert_eq!((ttl(), fleet.cloud_map.writes()), (120, 0));
}

#[tokio::test]
async fn dry_run_and_other_policies_only_plan_it() {
    let world = World::start().await;
    world.round(&world.function(&[]).await).await;
    let report = clean_up(&world.function(&[DELETING, ("DRY_RUN", "true")]).await).await;
    assert_eq!(report.counts.deleted, 1, "{report}");
    assert!(report.to_string().ends_with("dry run: 1 to delete\n"), "{report}");
    for policy in ["upsert-only", "create-only"] {
        clean_up(&world.function(&[DELETING, WEEK, ("POLICY", policy)]).await).await;
    }
    clean_up(&world.function(&[]).await).await;
    assert!(world.exists("gone"));
    assert_eq!(world.fleet.cloud_map.writes(), 0);
}
