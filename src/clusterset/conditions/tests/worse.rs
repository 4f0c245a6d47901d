//! The conditions that become a Warning.

use super::{agreed, apply, export, exported, in_conflict, merged, written};
use crate::clusterset::conditions::{ExportOutcome, turned_bad};
use crate::clusterset::merge::Merged;
use crate::model::{Condition, NotExportable};

/// The Warnings of a run, as reason and note.
fn warnings(
    present: &[Condition],
    outcome: &ExportOutcome,
    merged: &Merged,
) -> Vec<(String, String)> {
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
        let warnings = warnings(&present, &after, &merged);
        let warnings: Vec<String> =
            warnings.iter().map(|(reason, note)| format!("{reason} {note}")).collect();
        assert_eq!(warnings, expected, "{before:?} {after:?}");
    }
}

#[test]
fn first_conditions_of_an_export_are_reported_if_they_are_bad() {
    assert_eq!(warnings(&[], &exported(), &agreed()), []);
    assert_eq!(warnings(&[], &exported(), &in_conflict()).len(), 1);
    assert_eq!(warnings(&[], &ExportOutcome::TimeRanOut, &agreed()), []);
}
