//! The table of conditions, and the cases in which a status is written. The exports here are those of two clusters;
//! conditions are texts such as `Ready=True Exported #3 @1000 message`, with the generation and the time.

mod table;
mod worse;
mod writes;

use super::{ExportOutcome, conditions_to_apply};
use crate::clusterset::merge::{Conflict, Merged, merge};
use crate::model::{
    ClusterId, Condition, Export, ImportType, ServiceExport, ServiceRef, Timestamp,
};

/// The time of an earlier run, and of this one.
const EARLIER: Timestamp = Timestamp::constant(1_000, 0);
const NOW: Timestamp = Timestamp::constant(2_000, 0);

fn cluster(id: &str) -> ClusterId {
    ClusterId::parse(id).expect("a cluster id")
}

/// A merged service with these conflicts.
fn merged(reasons: &[&'static str]) -> Merged {
    let export = Export {
        cluster: cluster("blue"),
        created: EARLIER,
        kind: ImportType::ClusterSetIp,
        ports: Vec::new(),
        families: Vec::new(),
        properties: None,
    };
    let conflicts = reasons.iter().map(|reason| Conflict {
        reason,
        decided_by: cluster("blue"),
        disagreeing: vec![cluster("green")],
        message: format!("A {reason}."),
    });
    let merged = merge(&ServiceRef::new("shop", "web"), &[export]).expect("an export");
    Merged { conflicts: conflicts.collect(), ..merged }
}

fn agreed() -> Merged {
    merged(&[])
}

fn in_conflict() -> Merged {
    merged(&["TypeConflict"])
}

fn exported() -> ExportOutcome {
    ExportOutcome::Exported(String::new())
}

/// A ServiceExport with these conditions.
fn export(conditions: &[Condition]) -> ServiceExport {
    ServiceExport {
        uid: String::new(),
        generation: 3,
        conditions: conditions.to_vec(),
        obstacle: None,
    }
}

/// The conditions to apply in this run.
fn apply(
    present: &[Condition],
    outcome: &ExportOutcome,
    merged: Option<&Merged>,
) -> Option<Vec<Condition>> {
    conditions_to_apply(&export(present), outcome, merged, NOW)
}

/// The conditions that an earlier run applied.
fn written(outcome: &ExportOutcome, merged: &Merged) -> Vec<Condition> {
    conditions_to_apply(&export(&[]), outcome, Some(merged), EARLIER).expect("a write")
}

/// The conditions to apply in this run, as text.
fn applied(present: &[Condition], outcome: &ExportOutcome, merged: Option<&Merged>) -> String {
    let conditions = apply(present, outcome, merged).expect("a write");
    conditions.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn text(condition: &Condition) -> String {
    let Condition { type_, status, reason, message, .. } = condition;
    let generation = condition.observed_generation.map(|it| it.to_string()).unwrap_or_default();
    let time = condition.last_transition_time.0.as_second();
    let text = format!("{type_}={status} {reason} #{generation} @{time} {message}");
    text.trim_end().to_owned()
}
