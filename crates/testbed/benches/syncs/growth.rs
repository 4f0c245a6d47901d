//! Clustersets that grow: a full sync in step by a new process, for more and more members with the same exports. The
//! number of calls must be that of the formulas from which docs/multi-cluster-reference.md has its figures. Time, processor and
//! memory for a hundred members are those of the parabola through the three largest clustersets.

#[path = "../../../../tests/scenarios/multi_cluster/growth/figures.rs"]
#[allow(
    dead_code,
    reason = "shared with the scenarios and the documentation, which use other parts"
)]
mod figures;

use std::fmt;

use crate::clustersets::GROWING;
use crate::report::Report;
use crate::table::{Row, count};
use figures::{Clusterset, OTHER_REQUESTS, forced};

/// The members of the clusterset that is too large to measure.
const MANY: usize = 100;

/// Full syncs in step, by the number of members.
pub struct Growth<'a>(Vec<(Clusterset, &'a Row, usize)>);

impl<'a> Growth<'a> {
    /// `None` unless all of them were measured.
    pub fn of(report: &'a Report) -> Option<Self> {
        let measured = GROWING.iter().filter_map(|world| {
            let table = report.table(world.name)?;
            let requests = table.imports.as_ref()?.requests;
            let size = Clusterset {
                members: world.clusters,
                exports: world.exports,
                endpoints: 10,
                namespaces: 4,
            };
            Some((size, table.row("in step, cold")?, requests))
        });
        let measured: Vec<_> = measured.collect();
        (measured.len() == GROWING.len()).then_some(Self(measured))
    }

    /// A figure of a larger clusterset, and of the smallest one.
    fn beyond(&self, figure: impl Fn(&Row) -> f64) -> (f64, f64) {
        let points: Vec<(f64, f64)> =
            self.0.iter().map(|(size, row, _)| (count(size.members), figure(row))).collect();
        let known: [(f64, f64); 3] =
            points[points.len() - 3..].try_into().expect("three clustersets");
        (parabola(known, count(MANY)), parabola(known, points[0].0))
    }
}

/// The value at `x` of the parabola through three points.
fn parabola(points: [(f64, f64); 3], x: f64) -> f64 {
    let factor = |(at, _): (f64, f64)| {
        let others = points.iter().filter(|(other, _)| (other - at).abs() > f64::EPSILON);
        others.map(|(other, _)| (x - other) / (at - other)).product::<f64>()
    };
    points.into_iter().map(|point| point.1 * factor(point)).sum()
}

impl fmt::Display for Growth<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## Growing clustersets, in step, cold\n")?;
        writeln!(
            f,
            "| members | time | forced by quotas | processor | peak memory | calls to Cloud Map | requests to a member |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|")?;
        for (size, row, requests) in &self.0 {
            let calls: usize = size.in_step().values().sum();
            assert_eq!(row.number_of_calls(), calls, "the formula of {size:?}");
            let (quotas, _) = forced(&size.in_step(), 1.0);
            let processor = row.used.processor_time;
            let memory = row.used.peak_memory;
            write!(f, "| {} | {:.2} s | {quotas:.1} s ", size.members, row.seconds())?;
            writeln!(f, "| {processor:.2} s | {memory:.0} MB | {calls} | {requests} |")?;
        }
        let many = Clusterset { members: MANY, ..self.0[0].0 };
        let (seconds, smallest) = self.beyond(Row::seconds);
        let (processor, _) = self.beyond(|row| row.used.processor_time);
        let (memory, smallest_memory) = self.beyond(|row| row.used.peak_memory);
        let (quotas, _) = forced(&many.in_step(), 1.0);
        let calls: usize = many.in_step().values().sum();
        write!(f, "| {MANY}, by formula | {seconds:.0} s | {quotas:.1} s | {processor:.0} s ")?;
        writeln!(f, "| {memory:.0} MB | {calls} | {} |", many.requests() + OTHER_REQUESTS)?;
        let (first, row, _) = &self.0[0];
        writeln!(
            f,
            "\nThe parabolas of the last row go through the three largest clustersets. For {} members they say \
             {smallest:.2} s and {smallest_memory:.0} MB, where {:.2} s and {:.0} MB were measured.",
            first.members,
            row.seconds(),
            row.used.peak_memory
        )
    }
}
