//! Tests of the metrics' values.

use super::{Metric, OF_CLUSTER, OF_INVOCATION};
use crate::model::{GuardState, ServiceRef, Verb};
use crate::report::{
    ChangeLine, ChangeResult, ClusterReport, GuardReport, HeldBackLine, Mode, Report, ServiceReport,
};

fn change(change: Verb, result: ChangeResult) -> ChangeLine {
    let service = ServiceRef::new("shop", "web");
    ChangeLine { change, instance: None, service, detail: String::new(), result }
}

fn held(reason: &'static str, keeps_out: bool) -> HeldBackLine {
    let service = ServiceRef::new("shop", "web");
    HeldBackLine { service, reason: reason.into(), detail: String::new(), failed: false, keeps_out }
}

fn cluster() -> ClusterReport {
    let failed = || ChangeResult::Failed { error: String::new() };
    let undone = || ChangeResult::Undone { why: String::new() };
    let service = ServiceReport {
        changes: vec![
            change(Verb::Register, failed()),
            change(Verb::Register, undone()),
            change(Verb::Register, ChangeResult::Applied),
            change(Verb::Deregister, failed()),
            change(Verb::Rewrite, failed()),
        ],
        held_back: vec![held("DomainConflict", true), held("TtlNotOurs", false)],
        ..ServiceReport::default()
    };
    let held_back = vec![held("NamespaceMissing", true)];
    ClusterReport { services: vec![service], held_back, ..ClusterReport::default() }
}

fn guard(state: GuardState, later_look: bool) -> GuardReport {
    GuardReport {
        state,
        loss: 20,
        instances: 30,
        share: 50,
        minimum: 10,
        first_seen: None,
        later_look,
        lifts_from: None,
        services: Vec::new(),
        detail: String::new(),
    }
}

fn counted<T>(subject: &T, metrics: &[Metric<T>], name: &str) -> usize {
    let metric = metrics.iter().find(|metric| metric.name == name).expect(name);
    (metric.count)(subject)
}

#[test]
fn drift_is_counted_for_a_cluster_and_for_all() {
    let cluster = cluster();
    let count = |name| counted(&cluster, &OF_CLUSTER, name);
    assert_eq!((count("Missing"), count("Leftover")), (2, 1));
    assert_eq!((count("HeldBack"), count("Conflicts")), (2, 1));
    let report = Report::new(Mode::Sync, vec![cluster.clone(), cluster]);
    let count = |name| counted(&report, &OF_INVOCATION, name);
    assert_eq!((count("OutOfStep"), count("HeldBack"), count("Conflicts")), (6, 4, 2));
}

#[test]
fn only_the_loss_that_a_full_sync_holds_counts_as_guarded() {
    for (state, later_look, expected) in [
        (GuardState::Held, false, (20, 0)),
        (GuardState::Held, true, (20, 1)),
        (GuardState::Lifted, true, (0, 0)),
        (GuardState::HeldByFullSync, true, (0, 0)),
    ] {
        let guard = Some(guard(state, later_look));
        let cluster = ClusterReport { guard, ..ClusterReport::default() };
        let held = counted(&cluster, &OF_CLUSTER, "GuardHeld");
        let report = Report::new(Mode::Sync, vec![cluster]);
        assert_eq!((held, counted(&report, &OF_INVOCATION, "GuardHeldAgain")), expected);
    }
}
