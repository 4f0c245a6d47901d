//! When a condition becomes a Warning.

use super::{agreed, apply, export, exported, in_conflict, merged, written};
use crate::clusterset::conditions::{ExportOutcome, turned_bad};
use crate::clusterset::merge::Merged;
use crate::model::{Condition, NotExportable};

/// The Warnings of a run, as reason and note.
fn told(present: &[Condition], outcome: &ExportOutcome, merged: &Merged) -> Vec<(String, String)> {
    let wanted = apply(present, outcome, Some(merged)).unwrap_or_default();
    turned_bad(&export(present), &wanted)
}

#[test]
fn condition_that_turns_bad_is_reported_once() {
    let failed = ExportOutcome::Failed("AccessDenied".into());
    let held_back = ExportOutcome::HeldBack("Namespace: it is missing".into());
    let invalid = ExportOutcome::Invalid(NotExportable::ExternalName);
    let none = ExportOutcome::Invalid(NotExportable::NoService);
    let two = merged(&["PortConflict", "TypeConflict"]);
    let cases: [(_, _, &[&str]); 11] = [
        ((exported(), agreed()), (exported(), agreed()), &[]),
        ((exported(), agreed()), (exported(), in_conflict()), &["TypeConflict A TypeConflict."]),
        ((exported(), in_conflict()), (exported(), in_conflict()), &[]),
        (
            (exported(), in_conflict()),
            (exported(), two.clone()),
            &["Conflict PortConflict,TypeConflict: A PortConflict. A TypeConflict."],
        ),
        ((exported(), two), (exported(), agreed()), &[]),
        ((exported(), agreed()), (failed.clone(), agreed()), &["Failed AccessDenied"]),
        // Another message of the same condition is in the condition alone.
        ((failed.clone(), agreed()), (held_back, agreed()), &[]),
        ((failed, agreed()), (exported(), agreed()), &[]),
        // Ready follows from Valid.
        (
            (exported(), agreed()),
            (none.clone(), agreed()),
            &["NoService There is no Service of this name."],
        ),
        (
            (none, agreed()),
            (invalid, agreed()),
            &["InvalidServiceType A Service of type ExternalName has no endpoints to export."],
        ),
        ((exported(), agreed()), (ExportOutcome::TimeRanOut, agreed()), &[]),
    ];
    for ((before, agreement), (after, merged), expected) in cases {
        let present = written(&before, &agreement);
        let told = told(&present, &after, &merged);
        let told: Vec<String> =
            told.iter().map(|(reason, note)| format!("{reason} {note}")).collect();
        assert_eq!(told, expected, "{before:?} {after:?}");
    }
}

#[test]
fn first_conditions_of_an_export_are_reported_if_they_are_bad() {
    assert_eq!(told(&[], &exported(), &agreed()), []);
    assert_eq!(told(&[], &exported(), &in_conflict()).len(), 1);
    assert_eq!(told(&[], &ExportOutcome::TimeRanOut, &agreed()), []);
}
