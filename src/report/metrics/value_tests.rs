//! Tests of the metrics' values.

use super::{CLUSTER_METRICS, INVOCATION_METRICS, Metric};
use crate::model::{GuardState, Line, Outcome, STALE, ServiceRef, Verb};
use crate::report::{ClusterReport, GuardReport, Mode, MultiClusterReport, Report, ServiceReport};

fn line(code: &'static str, outcome: Outcome) -> Line {
    Line::new('!', code, "", outcome).about(ServiceRef::new("shop", "web"))
}

fn change(change: Verb, outcome: Outcome) -> Line {
    line(change.as_str(), outcome)
}

fn cluster() -> ClusterReport {
    let failed = || Outcome::failed("");
    let undone = || Outcome::not_attempted("");
    let service = ServiceReport {
        lines: vec![
            change(Verb::Register, failed()),
            change(Verb::Register, undone()),
            change(Verb::Register, Outcome::Applied),
            change(Verb::Deregister, failed()),
            change(Verb::Rewrite, failed()),
            line("DomainConflict", Outcome::KeptOut),
            line("TtlStays", Outcome::Remark),
        ],
        ..ServiceReport::default()
    };
    let lines = vec![line("NamespaceMissing", Outcome::KeptOut)];
    ClusterReport { services: vec![service], lines, ..ClusterReport::default() }
}

fn guard(state: GuardState, needs_operator: bool) -> GuardReport {
    GuardReport {
        state,
        loss: 20,
        instances: 30,
        share: 50,
        minimum: 10,
        first_seen: None,
        needs_operator,
        lifts_from: None,
        services: Vec::new(),
        detail: String::new(),
    }
}

fn counted<T>(subject: &T, metrics: &[Metric<T>], name: &str) -> usize {
    let metric = metrics.iter().find(|metric| metric.name == name).expect(name);
    (metric.count)(subject).expect(name)
}

#[test]
fn drift_is_counted_for_a_cluster_and_for_all() {
    let cluster = cluster();
    let count = |name| counted(&cluster, &CLUSTER_METRICS, name);
    assert_eq!((count("Missing"), count("Leftover")), (2, 1));
    assert_eq!(count("HeldBack"), 2);
    let report = Report::new(Mode::Sync, vec![cluster.clone(), cluster]);
    let count = |name| counted(&report, &INVOCATION_METRICS, name);
    assert_eq!((count("OutOfStep"), count("HeldBack"), count("Conflicts")), (6, 4, 2));
}

#[test]
fn only_the_loss_that_a_full_sync_holds_counts_as_guarded() {
    for (state, needs_operator, expected) in [
        (GuardState::Held, false, (20, 0)),
        (GuardState::Held, true, (20, 1)),
        (GuardState::Lifted, true, (0, 0)),
        (GuardState::HeldByFullSync, true, (0, 0)),
    ] {
        let guard = Some(guard(state, needs_operator));
        let cluster = ClusterReport { guard, ..ClusterReport::default() };
        let held = counted(&cluster, &CLUSTER_METRICS, "GuardHeld");
        let report = Report::new(Mode::Sync, vec![cluster]);
        assert_eq!((held, counted(&report, &INVOCATION_METRICS, "GuardHeldAgain")), expected);
    }
}

#[test]
fn loss_of_imports_that_is_held_again_counts_as_one_of_instances_does() {
    let guard = Some(guard(GuardState::Held, true));
    let multi_cluster = Some(MultiClusterReport { guard, ..MultiClusterReport::default() });
    let cluster = ClusterReport { multi_cluster, ..ClusterReport::default() };
    let held = |name| counted(&cluster, &CLUSTER_METRICS, name);
    assert_eq!((held("ImportGuardHeld"), held("GuardHeld")), (20, 0));
    let report = Report::new(Mode::Sync, vec![cluster.clone()]);
    assert_eq!(counted(&report, &INVOCATION_METRICS, "GuardHeldAgain"), 1);
}

#[test]
fn stale_member_counts_once_in_each_clusterset() {
    let stale =
        |cluster_id: &str| Line::new('!', STALE, format!("member {cluster_id}"), Outcome::Remark);
    let member = |clusterset: &str, ids: &[&str]| {
        let lines = ids.iter().map(|id| stale(id)).collect();
        let clusterset = Some(clusterset.to_owned());
        let member = MultiClusterReport { clusterset, lines, ..MultiClusterReport::default() };
        ClusterReport { multi_cluster: Some(member), whole: true, ..ClusterReport::default() }
    };
    let clusters = vec![
        member("shop", &["green", "red"]),
        member("shop", &["green"]),
        member("pay", &["green"]),
    ];
    let report = Report::new(Mode::Sync, clusters);
    assert_eq!(counted(&report, &INVOCATION_METRICS, "StaleClusters"), 3);
}

#[test]
fn the_most_services_that_a_full_sync_left_unread_are_reported_and_none_are_not() {
    let metric =
        INVOCATION_METRICS.iter().find(|metric| metric.name == "Unread").expect("the metric");
    for (whole, unread, expected) in [
        ([true, true], [3, 5], Some(5)),
        ([true, true], [0, 0], None),
        ([true, false], [3, 5], Some(3)),
        ([false, false], [3, 5], None),
    ] {
        let clusters = whole.into_iter().zip(unread);
        let clusters = clusters.map(|(whole, unread)| ClusterReport {
            unread,
            whole,
            ..ClusterReport::default()
        });
        let report = Report::new(Mode::Sync, clusters.collect());
        assert_eq!((metric.count)(&report), expected, "{whole:?} {unread:?}");
    }
}
