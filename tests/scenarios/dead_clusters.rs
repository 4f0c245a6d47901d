//! What clusters leave behind that EKS knows no more, that are not configured any more, or that are kept in another
//! Cloud Map now: it is reported, and stays, until a person or a setting asks for its removal.

use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::report::{OrphanReport, Report};
use cloud_map_sync::time::Deadline;
use serde_json::{Value, json};

use crate::fleet::{Fleet, OWNER, web_of};
use crate::queue::batch_of;
use crate::run::{converged, report, sync, sync_service, writes};
use testbed::cloud_map::CloudMap;
use testbed::function::{event, invoke, invoke_until};
use testbed::kubernetes::KubernetesServer;
use testbed::{ACCOUNT, REGION};

const NOTE: &str = "cloud-map-sync/orphaned-since";
pub const WEEK: (&str, &str) = ("PURGE_DEAD_CLUSTERS_AFTER", "7d");
pub const DAY: Duration = Duration::from_hours(24);

/// Clusters `blue` and `green` under one name, beside a task of ECS and an instance of another owner for
/// `green`; converged.
struct World {
    fleet: Fleet,
    green: KubernetesServer,
    arn: String,
}

impl World {
    async fn start() -> Self {
        let (fleet, green) = Fleet::with_green().await;
        let arn = fleet.sandbox.cluster_arn("green");
        let service = fleet.ecs_service("web", "10.0.9.1");
        let mut theirs = fleet.ours("web", "10.0.9.2");
        theirs.insert("cloud-map-sync/owner".into(), "team-a".into());
        theirs.insert("cloud-map-sync/cluster".into(), arn.clone());
        fleet.put(&service, "of-team-a", &theirs);
        fleet.web("web", "prod.local", &["10.0.1.1"]);
        web_of(&green, "web", "prod.local", &["10.0.2.1", "10.0.2.2"]);
        web_of(&green, "cart", "prod", &["10.0.2.3", "10.0.2.4"]);
        Box::pin(converged(&fleet)).await;
        Self { fleet, green, arn }
    }

    /// A full sync of a function that has just been started.
    async fn sync(&self, settings: &[(&str, &str)]) -> Report {
        sync(&self.fleet.function_with(settings).await).await
    }

    fn delete_green(&self) {
        self.fleet.sandbox.aws().eks.delete(&self.arn);
    }

    fn values(&self, key: &str) -> Vec<String> {
        let places = [("prod.local", "web"), ("prod", "cart")];
        places.map(|(namespace, name)| self.fleet.values(namespace, name, key)).concat()
    }

    fn notes(&self) -> usize {
        self.values(NOTE).len()
    }

    fn all_addresses(&self) -> Vec<String> {
        self.values("AWS_INSTANCE_IPV4")
    }

    /// How often EKS was asked about a cluster.
    fn questions(&self) -> usize {
        let requests = self.fleet.sandbox.aws().requests().into_iter();
        requests.filter(|request| request.operation == "DescribeCluster").count()
    }
}

const EVERYTHING: [&str; 7] =
    ["10.0.1.1", "10.0.2.1", "10.0.2.2", "10.0.9.1", "10.0.9.2", "10.0.2.3", "10.0.2.4"];
const WITHOUT_GREEN: [&str; 3] = ["10.0.1.1", "10.0.9.1", "10.0.9.2"];

fn orphans(report: &Report) -> &OrphanReport {
    assert_eq!(report.orphans.len(), 1, "{report}");
    &report.orphans[0]
}

#[tokio::test]
async fn time_is_noted_on_a_service_of_ours_if_no_instance_has_room() {
    let world = World::start().await;
    world.fleet.fill("prod.local", "web");
    world.fleet.fill("prod", "cart");
    let note = format!("{NOTE}/{}", world.arn);
    let noted = || world.fleet.view("prod", "cart").attributes.get(&note).cloned();
    world.delete_green();
    world.sync(&[WEEK]).await;
    let first = noted().expect("noted in the service that we created");
    // It is back, and then gone for good.
    world.fleet.sandbox.aws().eks.register(&world.green);
    world.sync(&[WEEK]).await;
    assert_eq!(noted(), None);
    world.fleet.clock.advance(DAY);
    world.delete_green();
    world.sync(&[WEEK]).await;
    assert!(noted().is_some_and(|it| it > first));
    world.fleet.clock.advance(8 * DAY);
    let report = world.sync(&[WEEK]).await;
    assert_eq!(world.all_addresses(), WITHOUT_GREEN, "{report}");
    assert_eq!(noted(), None, "{report}");
}

#[tokio::test]
async fn cluster_whose_death_can_be_noted_nowhere_stays_and_the_line_says_so() {
    let world = World::start().await;
    world.fleet.fill("prod.local", "web");
    let cart = world.fleet.cloud_map.service_id("prod", "cart");
    world.fleet.cloud_map.tag(&cart, "cloud-map-sync/owner", "team-a");
    world.fleet.fill("prod", "cart");
    world.delete_green();
    for _ in 0..2 {
        let report = world.sync(&[WEEK]).await;
        let found = orphans(&report);
        assert_eq!((&found.since, &found.purged_from), (&None, &None), "{report}");
        assert!(found.detail.contains("has room"), "{}", found.detail);
        assert!(found.detail.ends_with("they stay until they are purged"), "{}", found.detail);
        world.fleet.clock.advance(8 * DAY);
    }
    assert_eq!(world.all_addresses(), EVERYTHING);
}

#[tokio::test]
async fn schedule_counts_what_a_dropped_cluster_left_and_a_direct_answer_names_it() {
    let world = World::start().await;
    let function = world.fleet.function_with(&[("CLUSTERS", "blue")]).await;
    world.fleet.sandbox.aws().forget_requests();

    let answer = invoke(&function, &event("schedule-eventbridge-rule")).await;
    assert_eq!((world.questions(), world.fleet.cloud_map.writes()), (1, 0), "blue alone");
    assert_eq!(answer.response.expect("all checks passed")["counts"]["orphaned"], 4);
    let answer = invoke(&function, &json!({ "action": "plan" })).await.response.expect("a report");
    let found = &answer["orphans"][0];
    assert_eq!((&found["cluster"], &found["instances"]), (&json!(world.arn), &json!(4)));
    assert_eq!(found["reason"], "ClusterNotConfigured");
}

#[tokio::test]
async fn dead_cluster_is_purged_when_the_time_has_passed_since_it_was_first_seen_dead() {
    let world = World::start().await;
    world.delete_green();
    let report = world.sync(&[WEEK]).await;
    assert_eq!(orphans(&report).purged_from.as_deref(), Some("2026-11-28T10:51:00Z"), "{report}");
    assert_eq!(writes(&world.fleet), ["RegisterInstance web"], "the time is noted");
    assert_eq!(world.notes(), 1);

    for _ in 0..6 {
        world.fleet.clock.advance(DAY);
        world.fleet.cloud_map.forget_calls();
        let report = world.sync(&[WEEK]).await;
        let writes = world.fleet.cloud_map.writes();
        assert_eq!((orphans(&report).instances, writes), (4, 0), "{report}");
    }
    assert_eq!(world.all_addresses(), EVERYTHING);

    world.fleet.clock.advance(DAY);
    let report = world.sync(&[WEEK]).await;
    assert_eq!((report.counts.orphaned, report.counts.deregistered), (4, 4), "{report}");
    let said = "its cluster is gone, first noticed at 2026-11-21";
    assert!(report.to_string().contains(said), "{report}");
    assert_eq!(world.all_addresses(), WITHOUT_GREEN);
    let report = world.sync(&[WEEK]).await;
    assert_eq!((report.orphans.len(), report.counts.orphaned), (0, 0), "{report}");
}

#[tokio::test]
async fn refusals_and_failures_to_answer_are_no_death() {
    let world = World::start().await;
    world.delete_green();
    world.sync(&[WEEK]).await;
    world.fleet.sandbox.aws().eks.register(&world.green);
    world.fleet.sandbox.aws().eks.deny(&world.arn, true);
    world.fleet.clock.advance(8 * DAY);
    world.fleet.cloud_map.forget_calls();
    let report = world.sync(&[WEEK]).await;
    assert_eq!((report.orphans.len(), world.fleet.cloud_map.writes()), (0, 0), "{report}");
    let dropped = world.sync(&[WEEK, ("CLUSTERS", "blue")]).await;
    let unknown = orphans(&dropped);
    let said = "it is unknown whether it exists in EKS (cannot describe";
    assert!(unknown.detail.contains(said), "{dropped}");
    assert_eq!(unknown.reason, "ClusterUnknown");

    world.fleet.sandbox.aws().eks.deny(&world.arn, false);
    world.green.stop();
    let report = world.sync(&[WEEK]).await;
    assert_eq!((report.orphans.len(), world.fleet.cloud_map.writes()), (0, 0), "{report}");
    assert_eq!(world.all_addresses(), EVERYTHING);
}

/// Without the role that its account asks for, EKS is asked in the wrong account, and knows no such name.
#[tokio::test]
async fn cluster_of_another_account_is_not_dead_because_ours_does_not_know_it() {
    let world = World::start().await;
    let far = "arn:aws:eks:eu-central-1:444455556666:cluster/far";
    let blue = world.fleet.sandbox.cluster_arn("blue");
    world.fleet.cloud_map.watch_over(OWNER, &[&*blue, &world.arn, far]);
    let mut of_far = world.fleet.ours("web", "10.0.4.1");
    of_far.insert("cloud-map-sync/cluster".into(), far.into());
    of_far.insert(NOTE.into(), "2026-01-01T00:00:00Z".into());
    world.fleet.put(&world.fleet.cloud_map.service_id("prod", "cart"), "of-far", &of_far);

    let both = [&blue, far, &world.arn].map(String::from).join(",");
    let report = world.sync(&[WEEK, ("CLUSTERS", &both)]).await;
    assert_eq!(report.orphans.len(), 0, "{report}");
    let dropped = world.sync(&[WEEK]).await;
    let said = format!("called in the account {ACCOUNT}, not in its own");
    assert!(orphans(&dropped).detail.contains(&said), "{dropped}");
    assert_eq!(world.fleet.cloud_map.writes(), 0);
}

/// An instance with the marks of another cluster of the function's account.
fn leave_behind(world: &World, cluster: &str, address: &str) -> String {
    let arn = world.arn.replace("/green", &format!("/{cluster}"));
    let mut left = world.fleet.ours("web", address);
    left.insert("cloud-map-sync/cluster".into(), arn.clone());
    let cart = world.fleet.cloud_map.service_id("prod", "cart");
    world.fleet.put(&cart, &format!("of-{cluster}"), &left);
    arn
}

fn watch_over(world: &World, others: &[String]) {
    let blue = world.fleet.sandbox.cluster_arn("blue");
    let all: Vec<&String> = [&blue, &world.arn].into_iter().chain(others).collect();
    world.fleet.cloud_map.watch_over(OWNER, &all);
}

#[tokio::test]
async fn cluster_about_which_eks_does_not_answer_is_asked_once_and_keeps_no_other_from_its_purge() {
    let world = World::start().await;
    let settings = [WEEK, ("CLUSTERS", "blue")];
    world.delete_green();
    world.sync(&settings).await;
    world.fleet.clock.advance(7 * DAY);
    let silent = leave_behind(&world, "a-silent", "10.0.4.1");
    watch_over(&world, std::slice::from_ref(&silent));
    let eks = &world.fleet.sandbox.aws().eks;
    eks.silence(&silent);
    let function = world.fleet.function_with(&settings).await;

    let deadline = Deadline::after(Duration::from_secs(20));
    let answer = invoke_until(&function, &json!({ "action": "sync" }), deadline).await;

    let report = answer.report.expect("a report");
    assert_eq!((report.ok, report.counts.deregistered), (true, 4), "{report}");
    let unknown = &report.orphans[0];
    assert_eq!((unknown.done.cluster.as_str(), &*unknown.reason), (&*silent, "ClusterUnknown"));
    assert!(unknown.detail.contains("EKS did not answer"), "{report}");
    assert_eq!(orphans(&sync(&function).await).reason, "ClusterUnknown");
    assert_eq!(eks.unanswered(&silent), 1, "one attempt, and the answer is remembered");
}

#[tokio::test]
async fn eks_is_asked_about_twenty_clusters_in_a_run_by_turns() {
    let world = World::start().await;
    let function = world.fleet.function_with(&[WEEK]).await;
    sync(&function).await;
    let leave = |it| leave_behind(&world, &format!("gone-{it:02}"), &format!("10.0.4.{it}"));
    watch_over(&world, &(0..30).map(leave).collect::<Vec<_>>());
    for (run, noted) in [("first", 20), ("second", 30)] {
        world.fleet.sandbox.aws().forget_requests();
        let report = sync(&function).await;
        let orphans = report.orphans.len();
        assert_eq!((report.ok, orphans, world.questions()), (true, 30, 20), "{run}: {report}");
        let left = report.orphans.iter().filter(|it| it.reason == "ClusterUnknown");
        assert!(left.clone().all(|it| it.detail.contains("by turns")), "{run}: {report}");
        assert_eq!((left.count(), world.notes()), (10, noted), "{run}: {report}");
    }
}

#[tokio::test]
async fn targeted_syncs_and_other_commands_do_not_look_for_orphans() {
    let world = World::start().await;
    world.delete_green();
    let function = world.fleet.function_with(&[WEEK]).await;
    let one = sync_service(&function, "web").await;
    let blue = report(&function, &json!({ "action": "sync", "cluster": "blue" })).await;
    let adopted = report(&function, &json!({ "action": "adopt" })).await;
    let body = json!({ "cluster": "green", "namespace": "shop" });
    let queued = invoke(&function, &batch_of(&[body])).await.report.expect("a report");
    for report in [one, blue, adopted, queued] {
        assert_eq!(report.orphans.len(), 0, "{report}");
    }
    assert_eq!(world.fleet.cloud_map.writes(), 0);
}

const WEST: &str = "eu-west-1";

/// `green` was kept where `blue` is, and is kept in `eu-west-1` now.
async fn moved() -> (Fleet, CloudMap, Value) {
    let (fleet, green) = Fleet::with_green().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    web_of(&green, "web", "prod", &["10.0.2.1", "10.0.2.2"]);
    converged(&fleet).await;
    let west = fleet.registry(WEST, ACCOUNT, &fleet.sandbox.cluster_arn("green"));
    (fleet, west, json!(["blue", { "cluster": "green", "registryRegion": WEST }]))
}

fn count(cloud_map: &CloudMap) -> usize {
    let service = cloud_map.find_service("prod", "web");
    service.map_or(0, |service| cloud_map.instances(&service).len())
}

async fn function(fleet: &Fleet, clusters: &Value) -> Function {
    fleet.function_with(&[("CLUSTERS", &clusters.to_string()), WEEK]).await
}

#[tokio::test]
async fn nothing_is_judged_while_the_new_cloud_map_cannot_be_read() {
    let (fleet, west, clusters) = moved().await;
    west.deny("ListServices");
    let report = sync(&function(&fleet, &clusters).await).await;
    assert_eq!((report.ok, report.orphans.len()), (false, 0), "{report}");
    assert_eq!(count(&fleet.cloud_map), 3);
}

/// The same account and Region by another role.
#[tokio::test]
async fn what_the_new_cloud_map_shows_too_is_no_orphan() {
    let (fleet, _, _) = moved().await;
    let role = format!("arn:aws:iam::{ACCOUNT}:role/registry-writer");
    fleet.sandbox.role(&role, None);
    let clusters = json!(["blue", { "cluster": "green", "registryRoleArn": role }]);
    let report = sync(&function(&fleet, &clusters).await).await;
    assert_eq!((report.ok, report.orphans.len()), (true, 0), "{report}");
}

#[tokio::test]
async fn purge_of_one_cloud_map_leaves_the_other_alone() {
    let (fleet, west, clusters) = moved().await;
    let function = function(&fleet, &clusters).await;
    sync(&function).await;
    let purge = |registry: &str| json!({ "action": "purge", "cluster": "green", "registry": registry, "confirm": true });

    let answer = invoke(&function, &purge("444455556666/eu-west-1")).await;
    let error = answer.response.expect_err("no such Cloud Map").to_string();
    assert!(error.contains(&format!("{ACCOUNT}/{REGION}, {ACCOUNT}/{WEST}")), "{error}");
    assert_eq!((count(&fleet.cloud_map), count(&west)), (3, 2));

    let report = report(&function, &purge(&format!("{ACCOUNT}/{REGION}"))).await;
    assert_eq!((report.ok, report.counts.deregistered), (true, 2), "{report}");
    assert_eq!(report.clusters[0].warnings, [""; 0], "nothing comes back: {report}");
    assert_eq!((count(&fleet.cloud_map), count(&west)), (1, 2));
}
