//! The conditions of every outcome.

use insta::assert_snapshot;

use super::{agreed, applied, apply, exported, in_conflict, merged};
use crate::clusterset::conditions::ExportOutcome;
use crate::model::NotExportable;

#[test]
fn every_outcome_has_its_conditions() {
    let outcomes = [
        exported(),
        ExportOutcome::Exported("1000 of 1200 endpoints are registered.".into()),
        ExportOutcome::HeldBack("ExportTooLarge".into()),
        ExportOutcome::Failed("AccessDenied".into()),
        ExportOutcome::TimeRanOut,
        ExportOutcome::AsBefore(Box::new(ExportOutcome::Failed("AccessDenied".into()))),
        ExportOutcome::Invalid(NotExportable::NoService),
        ExportOutcome::Invalid(NotExportable::ExternalName),
        ExportOutcome::Invalid(NotExportable::Derived),
    ];
    let texts = outcomes.map(|it| applied(&[], &it, Some(&agreed())));
    assert_snapshot!(texts.join("\n\n"), @r"
    Valid=True Valid #3 @2000
    Ready=True Exported #3 @2000
    Conflict=False NoConflicts #3 @2000

    Valid=True Valid #3 @2000
    Ready=True Exported #3 @2000 1000 of 1200 endpoints are registered.
    Conflict=False NoConflicts #3 @2000

    Valid=True Valid #3 @2000
    Ready=False Failed #3 @2000 ExportTooLarge
    Conflict=False NoConflicts #3 @2000

    Valid=True Valid #3 @2000
    Ready=False Failed #3 @2000 AccessDenied
    Conflict=False NoConflicts #3 @2000

    Valid=True Valid #3 @2000
    Ready=Unknown Pending #3 @2000 The time of the run was over before the export was complete.
    Conflict=False NoConflicts #3 @2000

    Valid=True Valid #3 @2000
    Ready=True Exported #3 @2000 Other clusters import it as it was before: AccessDenied
    Conflict=False NoConflicts #3 @2000

    Valid=False NoService #3 @2000 There is no Service of this name.
    Ready=False Pending #3 @2000 There is no Service of this name.

    Valid=False InvalidServiceType #3 @2000 A Service of type ExternalName has no endpoints to export.
    Ready=False Failed #3 @2000 A Service of type ExternalName has no endpoints to export.

    Valid=False InvalidServiceType #3 @2000 The Service is part of an import and cannot be exported again.
    Ready=False Failed #3 @2000 The Service is part of an import and cannot be exported again.
    ");
}

#[test]
fn conflict_changes_nothing_about_ready() {
    assert_snapshot!(applied(&[], &exported(), Some(&in_conflict())), @r"
    Valid=True Valid #3 @2000
    Ready=True Exported #3 @2000
    Conflict=True TypeConflict #3 @2000 A TypeConflict.
    ");
}

#[test]
fn several_conflicts_are_joined() {
    let several = merged(&["PortConflict", "TypeConflict", "LabelsConflict"]);
    assert_snapshot!(applied(&[], &exported(), Some(&several)), @r"
    Valid=True Valid #3 @2000
    Ready=True Exported #3 @2000
    Conflict=True PortConflict,TypeConflict,LabelsConflict #3 @2000 A PortConflict. A TypeConflict. A LabelsConflict.
    ");
}

#[test]
fn long_message_is_cut_at_a_character() {
    for (message, length, last) in [
        ("ä".repeat(32_768), 32_768, 'ä'),
        ("ä".repeat(32_769), 32_768, '…'),
        ("a".repeat(100_000), 32_768, '…'),
    ] {
        let status = apply(&[], &ExportOutcome::HeldBack(message), None).expect("a write");
        let found = &status[1].message;
        assert_eq!((found.chars().count(), found.chars().last()), (length, Some(last)));
    }
}
