//! The tables of docs/multi-cluster-reference.md about clustersets that grow: formulas that scenarios and benchmarks hold, with
//! values for up to a hundred members.

#[path = "../../../../tests/scenarios/multi_cluster/growth/figures.rs"]
#[allow(dead_code, reason = "shared with the scenarios and the benchmarks, which use other parts")]
mod figures;

use std::fmt::Write as _;

use crate::scale::page::number;
use figures::{Calls, Clusterset, OF_A_NAMESPACE, OF_A_SERVICE, forced};

const MEMBERS: [usize; 4] = [3, 8, 20, 100];
/// The same hundred Services of each member.
const SIZE: Clusterset = Clusterset { members: 1, exports: 100, endpoints: 10, namespaces: 4 };
/// The default of `QUOTA_SHARE`.
const SHARE: f64 = 0.5;
/// Between two runs of the schedule, in seconds.
const SCHEDULE: f64 = 60.0;

/// A row: its name, and its value for a number of members.
type Row = (&'static str, fn(&Clusterset) -> String);

const ROWS: [Row; 6] = [
    ("Endpoints in the imports of each member", |it| number(it.instances())),
    ("Instances in `clusterset.<id>`", |it| number(it.records())),
    ("Full sync in step: calls to Cloud Map", |it| calls(&it.in_step())),
    ("The same: least time with half of the rates", |it| time(&it.in_step())),
    ("One new pod: calls to Cloud Map", |it| calls(&it.changed_pod())),
    ("First sync: least time with half of the rates", |it| time(&it.first_sync())),
];

/// The cost by number of members.
pub fn cost() -> String {
    let heads: Vec<String> = MEMBERS.iter().map(|it| format!(" {it} members |")).collect();
    let mut table = format!("| |{}\n|---|{}\n", heads.concat(), "---|".repeat(MEMBERS.len()));
    for (name, value) in ROWS {
        let values =
            MEMBERS.map(|members| format!(" {} |", value(&Clusterset { members, ..SIZE })));
        writeln!(table, "| {name} |{}", values.concat()).expect("a string");
    }
    table
}

/// The quotas that end the growth, the first one first.
pub fn ends() -> String {
    let in_time = |it: &Clusterset| forced(&it.in_step(), SHARE).0 <= SCHEDULE;
    let mut ends = [
        (
            SIZE.most_members(|it| it.of_a_namespace() <= OF_A_NAMESPACE),
            "2,000 instances in a namespace with a quarter of the exports; AWS raises it",
        ),
        (
            SIZE.most_members(|it| it.records() <= OF_A_NAMESPACE),
            "2,000 instances in `clusterset.<id>`; AWS raises it",
        ),
        (
            SIZE.most_members(|it| it.of_a_name() <= OF_A_SERVICE),
            "1,000 instances under one name; **AWS does not raise it**",
        ),
        (
            SIZE.most_members(in_time),
            "the rate of `ListInstances`, for a full sync each minute with half of it; `QUOTA_SHARE`, or a longer schedule",
        ),
    ];
    ends.sort_unstable();
    let mut table = String::from("| Most members | Quota |\n|---|---|\n");
    for (members, quota) in ends {
        writeln!(table, "| {members} | {quota} |").expect("a string");
    }
    table
}

fn calls(calls: &Calls) -> String {
    number(calls.values().sum())
}

fn time(calls: &Calls) -> String {
    let (seconds, _) = forced(calls, SHARE);
    if seconds < 120.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", seconds / 60.0) }
}
