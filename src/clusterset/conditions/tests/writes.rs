//! The cases in which a status is written, and the times in it.

use insta::assert_snapshot;

use super::{agreed, applied, apply, exported, in_conflict, written};
use crate::clusterset::conditions::ExportOutcome;
use crate::model::{Condition, NotExportable, Time, Timestamp, UNKNOWN};

#[test]
fn equal_status_is_not_written() {
    for outcome in [
        exported(),
        ExportOutcome::HeldBack("no".into()),
        ExportOutcome::Invalid(NotExportable::NoService),
    ] {
        for merged in [agreed(), in_conflict()] {
            let mut present = written(&outcome, &merged);
            assert_eq!(apply(&present, &outcome, Some(&merged)), None, "{outcome:?}");
            // Another controller's condition does not matter, wherever it is.
            let foreign = Condition { type_: "Synced".into(), ..present[0].clone() };
            present.insert(0, foreign);
            present.reverse();
            assert_eq!(apply(&present, &outcome, Some(&merged)), None, "{outcome:?}");
        }
    }
}

#[test]
fn time_moves_with_the_status_alone() {
    let mut present = written(&exported(), &agreed());
    let other_message = ExportOutcome::Exported("999 of 1000 endpoints are registered.".into());
    assert_snapshot!(applied(&present, &other_message, Some(&agreed())), @r"
    Valid=True Valid #3 @1000
    Ready=True Exported #3 @1000 999 of 1000 endpoints are registered.
    Conflict=False NoConflicts #3 @1000
    ");
    assert_snapshot!(applied(&present, &exported(), Some(&in_conflict())), @r"
    Valid=True Valid #3 @1000
    Ready=True Exported #3 @1000
    Conflict=True TypeConflict #3 @2000 A TypeConflict.
    ");
    let refused = ExportOutcome::Failed("AccessDenied".into());
    assert_snapshot!(applied(&present, &refused, Some(&agreed())), @r"
    Valid=True Valid #3 @1000
    Ready=False Failed #3 @2000 AccessDenied
    Conflict=False NoConflicts #3 @1000
    ");
    present[0].observed_generation = Some(2);
    assert_snapshot!(applied(&present, &exported(), Some(&agreed())), @r"
    Valid=True Valid #3 @1000
    Ready=True Exported #3 @1000
    Conflict=False NoConflicts #3 @1000
    ");
}

#[test]
fn any_difference_but_the_time_is_written() {
    let present = written(&exported(), &in_conflict());
    for index in 0..present.len() {
        let changes: [fn(&mut Condition); 4] = [
            |it| it.status = UNKNOWN.into(),
            |it| it.reason = "Other".into(),
            |it| it.message = "Other.".into(),
            |it| it.observed_generation = None,
        ];
        for change in changes {
            let mut present = present.clone();
            change(&mut present[index]);
            assert!(apply(&present, &exported(), Some(&in_conflict())).is_some(), "{present:?}");
        }
        let mut older = present.clone();
        older[index].last_transition_time = Time(Timestamp::UNIX_EPOCH);
        assert_eq!(apply(&older, &exported(), Some(&in_conflict())), None);
        let mut fewer = present.clone();
        fewer.remove(index);
        assert!(apply(&fewer, &exported(), Some(&in_conflict())).is_some(), "{fewer:?}");
    }
}

#[test]
fn conflict_goes_if_the_export_is_not_valid() {
    let present = written(&exported(), &in_conflict());
    let invalid = ExportOutcome::Invalid(NotExportable::NoService);
    assert_snapshot!(applied(&present, &invalid, Some(&in_conflict())), @r"
    Valid=False NoService #3 @2000 There is no Service of this name.
    Ready=False Pending #3 @2000 There is no Service of this name.
    ");
    let mut rest = written(&invalid, &in_conflict());
    assert_eq!(apply(&rest, &invalid, Some(&in_conflict())), None);
    rest.extend(present.last().cloned());
    assert!(apply(&rest, &invalid, Some(&in_conflict())).is_some(), "{rest:?}");
}

#[test]
fn unknown_conflicts_leave_the_condition_as_it_is() {
    let mut present = written(&exported(), &in_conflict());
    assert_eq!(apply(&present, &exported(), None), None);
    present[2].observed_generation = Some(1);
    let failed = ExportOutcome::Failed("AccessDenied".into());
    assert_snapshot!(applied(&present, &failed, None), @r"
    Valid=True Valid #3 @1000
    Ready=False Failed #3 @2000 AccessDenied
    Conflict=True TypeConflict #1 @1000 A TypeConflict.
    ");
    assert_snapshot!(applied(&[], &exported(), None), @r"
    Valid=True Valid #3 @2000
    Ready=True Exported #3 @2000
    ");
}

#[test]
fn earlier_outcome_outlasts_a_run_without_time() {
    let late = ExportOutcome::TimeRanOut;
    for outcome in [exported(), ExportOutcome::Failed("AccessDenied".into())] {
        assert_eq!(apply(&written(&outcome, &agreed()), &late, Some(&agreed())), None);
    }
    for reason in [NotExportable::NoService, NotExportable::ExternalName] {
        let outcome = ExportOutcome::Invalid(reason);
        let status = apply(&written(&outcome, &agreed()), &late, Some(&agreed()));
        assert_eq!(status.expect("a write")[1].status, UNKNOWN, "{outcome:?}");
    }
    assert_eq!(apply(&written(&late, &agreed()), &late, Some(&agreed())), None);
}
