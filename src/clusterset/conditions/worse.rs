//! The conditions that turned bad in a run: each becomes a Warning on its `ServiceExport`.

use super::ObservedExport;
use super::table::{CONFLICT, READY, VALID};
use crate::model::{Condition, ConditionStatus};

/// A condition that turned bad.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worse {
    /// The reason of the condition; `Conflict` if it has several.
    pub reason: String,
    /// Its message, after its reasons if there are several.
    pub note: String,
}

/// The conditions to apply that are bad, and were not, or for another reason. While `Valid` is bad, the others follow
/// from it.
pub fn turned_bad(export: ObservedExport<'_>, wanted: &[Condition]) -> Vec<Worse> {
    let bad = wanted.iter().filter(|condition| is_bad(condition));
    let mut bad: Vec<&Condition> = bad.collect();
    if let Some(valid) = bad.iter().position(|it| it.kind == VALID) {
        bad = vec![bad[valid]];
    }
    let is_new = |condition: &&Condition| {
        let present = export.find(&condition.kind);
        present.is_none_or(|it| (it.status, &it.reason) != (condition.status, &condition.reason))
    };
    bad.into_iter().filter(is_new).map(worse).collect()
}

/// Whether a condition of ours says that something is wrong. `Unknown` is followed by an outcome.
pub fn is_bad(condition: &Condition) -> bool {
    match condition.kind.as_str() {
        VALID | READY => condition.status == ConditionStatus::False,
        CONFLICT => condition.status == ConditionStatus::True,
        _ => false,
    }
}

fn worse(condition: &Condition) -> Worse {
    let Condition { reason, message, .. } = condition;
    if reason.contains(',') {
        let note = format!("{reason}: {message}");
        return Worse { reason: CONFLICT.to_owned(), note };
    }
    Worse { reason: reason.clone(), note: message.clone() }
}
