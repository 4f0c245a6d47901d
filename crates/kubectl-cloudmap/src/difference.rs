//! `diff`: two plans of the same scope, such as those with the settings before and after a pull request, as a comment in
//! Markdown with the lines that only one of them has.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::path::Path;

use super::Error;
use super::answer::{Code, read_saved, write};
use super::arguments::Diff;
use super::markdown::{Row, cell, lines_of_clusterset, of_cluster, of_deletion};
use cloud_map_sync::report::{
    ClusterReport, GuardReport, Mode, MultiClusterReport, OrphanReport, Report, ServiceReport,
    count,
};

/// Prints the comment. The exit code is 2 if the plans differ, and 1 if one of them is incomplete.
pub fn show(plans: &Diff) -> Result<Code, Error> {
    let difference = PlanDifference::between(plan(&plans.before)?, plan(&plans.after)?)?;
    write(&difference.to_string())?;
    Ok(difference.code())
}

fn plan(file: &Path) -> Result<Report, Error> {
    let report: Report = read_saved(file, "plan")?;
    match report.mode {
        Mode::Plan | Mode::DryRun => Ok(report),
        Mode::Sync => Err(format!(
            "{} is the answer of a sync: compare two outputs of `kubectl cloudmap plan -o json`",
            file.display()
        )
        .into()),
    }
}

/// Two plans, and the rows that only one of them has.
#[derive(Debug)]
pub struct PlanDifference {
    before: Report,
    after: Report,
    /// By cluster. A cluster that both see alike is absent.
    clusters: BTreeMap<String, Vec<(Side, Row)>>,
}

/// The plan that has a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Side {
    #[error("only before")]
    Before,
    #[error("only after")]
    After,
    /// Both, with different details.
    #[error("differs")]
    Both,
}

impl PlanDifference {
    /// Returns an error for two plans of different scopes.
    pub fn between(before: Report, after: Report) -> Result<Self, String> {
        let (of_before, of_after) = (scope(&before, &after), scope(&after, &before));
        if of_before != of_after {
            return Err(format!(
                "one of the plans is of {of_before}, and the other of {of_after}: plan the same scope twice"
            ));
        }
        let (mut old, mut new) = (rows_by_cluster(&before), rows_by_cluster(&after));
        let names: BTreeSet<String> = old.keys().chain(new.keys()).cloned().collect();
        let clusters = names.into_iter().filter_map(|name| {
            let rows = [old.remove(&name), new.remove(&name)].map(Option::unwrap_or_default);
            let different = compare(rows);
            (!different.is_empty()).then_some((name, different))
        });
        Ok(Self { clusters: clusters.collect(), before, after })
    }

    pub fn code(&self) -> Code {
        match [&self.before, &self.after].iter().all(|plan| plan.ok && plan.cut.is_none()) {
            false => Code::Error,
            true if self.clusters.is_empty() => Code::InStep,
            true => Code::Changes,
        }
    }
}

/// The scope of a plan. Earlier releases report only whether it was all.
fn scope(plan: &Report, other: &Report) -> String {
    match (&plan.scope, &other.scope) {
        (Some(scope), Some(_)) => scope.clone(),
        _ if plan.whole => "every cluster".to_owned(),
        _ => "a part of it".to_owned(),
    }
}

/// The rows that only one list has. A row that differs by its detail alone is one row with both details.
fn compare([before, after]: [Vec<Row>; 2]) -> Vec<(Side, Row)> {
    let mut lines: BTreeMap<_, [Vec<Row>; 2]> = BTreeMap::new();
    for (side, rows) in [before, after].into_iter().enumerate() {
        for row in rows {
            let key = (row.name.clone(), row.service.clone(), row.instance.clone(), row.verb);
            lines.entry(key).or_default()[side].push(row);
        }
    }
    lines.into_values().flat_map(of_one_key).collect()
}

fn of_one_key([mut before, mut after]: [Vec<Row>; 2]) -> Vec<(Side, Row)> {
    before.retain(|row| match after.iter().position(|it| it == row) {
        Some(same) => {
            after.swap_remove(same);
            false
        }
        None => true,
    });
    if let ([old], [new]) = (before.as_slice(), after.as_slice()) {
        let detail = format!("{} → {}", old.detail, new.detail);
        return vec![(Side::Both, Row { detail, ..new.clone() })];
    }
    let before = before.into_iter().map(|row| (Side::Before, row));
    before.chain(after.into_iter().map(|row| (Side::After, row))).collect()
}

/// The rows of a plan, by cluster.
fn rows_by_cluster(plan: &Report) -> BTreeMap<String, Vec<Row>> {
    let mut rows: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for cluster in &plan.clusters {
        rows.entry(cluster.cluster.clone()).or_default().extend(of_whole_cluster(cluster));
    }
    for OrphanReport { instances, reason, done, .. } in &plan.orphans {
        // Without its sentence, which has times.
        let detail = format!("{}: {reason}", count(*instances, "instance"));
        let row = Row::about("orphans", "", &detail);
        let rows = rows.entry(format!("Orphans of {}", done.cluster)).or_default();
        rows.extend(std::iter::once(row).chain(of_cluster(done)));
    }
    let deletions = plan.empty_services.deletions.iter().map(of_deletion);
    rows.entry("Cloud Map services without instances".to_owned()).or_default().extend(deletions);
    rows
}

/// The rows of a cluster, with those about all of it, and its names without a change: another plan may not have them.
fn of_whole_cluster(cluster: &ClusterReport) -> Vec<Row> {
    let mut rows = of_cluster(cluster);
    rows.push(Row::about("cluster", "", "planned"));
    rows.extend(cluster.services.iter().filter(|it| it.unchanged > 0).map(unchanged));
    let error = cluster.error.iter().map(|error| Row::about("not read", "", error));
    rows.extend(error.chain(cluster.guard.iter().map(of_guard)));
    rows.extend(cluster.warnings.iter().map(|text| Row::about("warning", "", text)));
    rows.extend(cluster.multi_cluster.iter().flat_map(of_clusterset));
    rows
}

fn unchanged(service: &ServiceReport) -> Row {
    Row::about("unchanged", &service.place(), &count(service.unchanged, "instance"))
}

/// Without its times, by which two plans of the same loss differ.
fn of_guard(guard: &GuardReport) -> Row {
    let GuardReport { state, loss, instances, .. } = guard;
    Row::about("guard", "", &format!("{state}: {loss} of {instances} instances"))
}

fn of_clusterset(report: &MultiClusterReport) -> Vec<Row> {
    let lines = lines_of_clusterset(report);
    let rows = lines.iter().map(|line| Row::about("clusterset", "", line));
    rows.chain(report.guard.iter().map(of_guard)).collect()
}

const HEADINGS: &str = "| Plan | | Cloud Map service | Instance | Kubernetes Service | Detail |\n\
                        |---|---|---|---|---|---|";

impl Display for PlanDifference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.clusters.is_empty() {
            writeln!(f, "Both plans have the same changes.\n")?;
        }
        for (cluster, rows) in &self.clusters {
            writeln!(f, "### {}\n\n{HEADINGS}", cell(cluster))?;
            rows.iter().try_for_each(|(side, row)| writeln!(f, "| {side} | {} |", row.cells()))?;
            writeln!(f)?;
        }
        for (side, plan) in [("Before", &self.before), ("After", &self.after)] {
            write!(f, "- {side}: **{}**", cell(&plan.summary()))?;
            plan.cut.iter().try_for_each(|cut| write!(f, "; {}", cell(cut)))?;
            writeln!(f)?;
        }
        Ok(())
    }
}
