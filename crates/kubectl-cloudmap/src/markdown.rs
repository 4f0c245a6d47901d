//! Reports as Markdown, for a pull request or a ticket. A report has a heading for each cluster, a table with a row for
//! each change, each held-back request and each name that was not read, and the lines of its exports and imports. The
//! verb `diff` compares two plans of the same scope, such as plans with the settings before and after a pull request,
//! and shows the rows that only one of them has.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

use super::{Code, Error, Output, answer, arguments, escape, write};
use cloud_map_sync::model::{Line, Outcome};
use cloud_map_sync::report::{
    ClusterReport, GuardReport, Mode, MultiClusterReport, OrphanReport, Report, ServiceReport,
    count,
};

const HEADINGS: &str =
    "| | Cloud Map service | Instance | Kubernetes Service | Detail |\n|---|---|---|---|---|";

pub struct MarkdownPage<'a>(pub &'a Report);

impl Display for MarkdownPage<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for cluster in &self.0.clusters {
            writeln!(f, "### {}\n", cell(&cluster.cluster))?;
            if self.0.cut.is_none() {
                write_cluster(f, cluster)?;
            } else {
                writeln!(f, "{}\n", cell(&cluster.counts.sentence(self.0.mode != Mode::Sync)))?;
            }
        }
        for orphans in &self.0.orphans {
            writeln!(f, "### Orphans of {}\n", cell(&orphans.cluster))?;
            writeln!(f, "{}\n", cell(&orphans.detail))?;
        }
        self.0.cut.iter().try_for_each(|cut| writeln!(f, "{}\n", cell(cut)))?;
        writeln!(f, "**{}**", cell(&self.0.summary()))
    }
}

fn write_cluster(f: &mut Formatter<'_>, cluster: &ClusterReport) -> fmt::Result {
    let clusterset = cluster.multi_cluster.as_ref();
    let problem = cluster.described_error();
    problem.iter().try_for_each(|problem| writeln!(f, "Cluster {}\n", cell(problem)))?;
    let rows = rows_of_cluster(cluster);
    if problem.is_none() && rows.is_empty() && clusterset.is_none_or(MultiClusterReport::is_quiet) {
        writeln!(f, "In sync.\n")?;
    }
    write_rows(f, &rows)?;
    clusterset.map_or(Ok(()), |clusterset| write_multi_cluster(f, clusterset))?;
    cluster.guards().try_for_each(|guard| writeln!(f, "> {}\n", cell(&guard.detail)))
}

/// Writes the exports and imports of a cluster in a code block, since Markdown would interpret the signs of their
/// lines.
fn write_multi_cluster(f: &mut Formatter<'_>, report: &MultiClusterReport) -> fmt::Result {
    let clusterset = report.clusterset.as_deref();
    let member = report.cluster_id.as_deref();
    let of = clusterset.zip(member).map_or_else(
        || "Clusterset".to_owned(),
        |(clusterset, member)| format!("Clusterset {clusterset}, member {member}"),
    );
    writeln!(f, "{}: {} exports, {} imports\n", cell(&of), report.exports, report.imports)?;
    let lines = clusterset_lines(report);
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(f, "{}", escape::code_block(&lines.join("\n")))
}

fn write_rows(f: &mut Formatter<'_>, rows: &[Row]) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(f, "{HEADINGS}")?;
    rows.iter().try_for_each(|row| writeln!(f, "| {} |", row.cells()))?;
    writeln!(f)
}

/// Escapes text for a cell, heading or paragraph.
pub fn cell(text: &str) -> String {
    escape(text, Output::Markdown)
}

/// A row of a table, about one name, instance or Service. A column without a value is empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    /// The kind of change, or another word for what the row is about, such as `unchanged` or `guard`.
    verb: String,
    /// The namespace and name in Cloud Map.
    name: String,
    instance: String,
    /// The Kubernetes Service.
    service: String,
    detail: String,
}

impl Row {
    /// Returns a row without an instance and a Kubernetes Service.
    fn about(verb: &str, name: &str, detail: &str) -> Self {
        Self {
            verb: verb.to_owned(),
            name: name.to_owned(),
            instance: String::new(),
            service: String::new(),
            detail: detail.to_owned(),
        }
    }

    /// Returns the columns of the row, separated by pipes.
    fn cells(&self) -> String {
        let Self { verb, name, instance, service, detail } = self;
        [verb, name, instance, service, detail].map(|text| cell(text)).join(" | ")
    }

    fn of(name: &str, line: &Line) -> Self {
        let detail = if line.has_reason() {
            format!("{}: {}", line.code, line.text)
        } else {
            format!("{}{}", line.text, outcome(&line.outcome))
        };
        Self {
            instance: line.object.clone().unwrap_or_default(),
            service: line.service.as_ref().map(ToString::to_string).unwrap_or_default(),
            ..Self::about(line.label(), name, &detail)
        }
    }
}

/// Returns the rows of a cluster's Cloud Map services, and of the lines that belong to no Cloud Map service.
fn rows_of_cluster(cluster: &ClusterReport) -> Vec<Row> {
    let without_service = cluster.lines.iter().map(|line| Row::of("", line));
    cluster.services.iter().flat_map(rows_of_service).chain(without_service).collect()
}

fn rows_of_service(service: &ServiceReport) -> Vec<Row> {
    service.lines.iter().map(|line| Row::of(&service.place(), line)).collect()
}

/// Returns a line for each export and import of a cluster. They have no rows, since they are about objects of
/// Kubernetes and not about names.
fn clusterset_lines(report: &MultiClusterReport) -> Vec<String> {
    report.lines_in_order().into_iter().map(Line::to_string).collect()
}

/// Returns the reason why a change was not made, to follow the detail of the change. Empty for any other outcome.
fn outcome(result: &Outcome) -> String {
    match result {
        Outcome::Failed { error } => format!("; failed: {error}"),
        Outcome::NotAttempted { why } => format!("; not done: {why}"),
        _ => String::new(),
    }
}

/// Prints the difference of two plans. The exit code is 2 if the plans differ, and 1 if one of them is incomplete.
pub fn show_difference(plans: &arguments::Diff) -> Result<Code, Error> {
    let difference = PlanDifference::between(read_plan(&plans.before)?, read_plan(&plans.after)?)?;
    write(&difference.to_string())?;
    Ok(difference.code())
}

fn read_plan(file: &std::path::Path) -> Result<Report, Error> {
    let report: Report = answer::read_saved(file, "plan")?;
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
    /// The different rows by cluster. A cluster without a difference is absent.
    clusters: BTreeMap<String, Vec<(Side, Row)>>,
}

/// The plan that has a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Side {
    #[error("only before")]
    Before,
    #[error("only after")]
    After,
    /// Both plans, with different details.
    #[error("differs")]
    Both,
}

impl PlanDifference {
    /// Compares two plans. Returns an error if their scopes differ.
    pub fn between(before: Report, after: Report) -> Result<Self, String> {
        if before.scope != after.scope {
            return Err(format!(
                "one of the plans is of {}, and the other of {}: plan the same scope twice",
                scope(&before),
                scope(&after)
            ));
        }
        let mut old = rows_by_cluster(&before);
        let mut new = rows_by_cluster(&after);
        let names: BTreeSet<String> = old.keys().chain(new.keys()).cloned().collect();
        let clusters = names.into_iter().filter_map(|name| {
            let rows = [old.remove(&name), new.remove(&name)].map(Option::unwrap_or_default);
            let different = different_rows(rows);
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

/// Returns the scope of a plan, for people.
fn scope(plan: &Report) -> &str {
    plan.scope.as_deref().unwrap_or("no scope")
}

/// Returns the rows that only one list has. Two rows that differ only in their details become one row with both
/// details.
fn different_rows([before, after]: [Vec<Row>; 2]) -> Vec<(Side, Row)> {
    let mut lines: BTreeMap<_, [Vec<Row>; 2]> = BTreeMap::new();
    for (side, rows) in [before, after].into_iter().enumerate() {
        for row in rows {
            let key =
                (row.name.clone(), row.service.clone(), row.instance.clone(), row.verb.clone());
            lines.entry(key).or_default()[side].push(row);
        }
    }
    lines.into_values().flat_map(compare_rows).collect()
}

/// Compares the rows of both plans with the same key. Equal rows are omitted.
fn compare_rows([mut before, mut after]: [Vec<Row>; 2]) -> Vec<(Side, Row)> {
    before.retain(|row| match after.iter().position(|other| other == row) {
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

/// Returns the rows of a plan by cluster.
fn rows_by_cluster(plan: &Report) -> BTreeMap<String, Vec<Row>> {
    let mut rows: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for cluster in &plan.clusters {
        rows.entry(cluster.cluster.clone()).or_default().extend(all_rows_of_cluster(cluster));
    }
    for OrphanReport { cluster, detail, .. } in &plan.orphans {
        let rows = rows.entry(format!("Orphans of {cluster}")).or_default();
        rows.push(Row::about("orphans", "", detail));
    }
    rows
}

/// Returns all rows of a cluster: also the rows about the whole cluster, and a row for each name with unchanged
/// instances, which the other plan may lack.
fn all_rows_of_cluster(cluster: &ClusterReport) -> Vec<Row> {
    let mut rows = rows_of_cluster(cluster);
    rows.push(Row::about("cluster", "", "planned"));
    rows.extend(cluster.services.iter().filter(|service| service.unchanged > 0).map(unchanged_row));
    let error = cluster.error.iter().map(|error| Row::about("not read", "", error));
    rows.extend(error.chain(cluster.guard.iter().map(guard_row)));
    rows.extend(cluster.multi_cluster.iter().flat_map(clusterset_rows));
    rows
}

fn unchanged_row(service: &ServiceReport) -> Row {
    Row::about("unchanged", &service.place(), &count(service.unchanged, "instance"))
}

/// Returns the row of a guard, without its times, in which two plans of the same loss differ.
fn guard_row(guard: &GuardReport) -> Row {
    let GuardReport { state, loss, instances, .. } = guard;
    Row::about("guard", "", &format!("{state}: {loss} of {instances} instances"))
}

fn clusterset_rows(report: &MultiClusterReport) -> Vec<Row> {
    let lines = clusterset_lines(report);
    let rows = lines.iter().map(|line| Row::about("clusterset", "", line));
    rows.chain(report.guard.iter().map(guard_row)).collect()
}

const DIFF_HEADINGS: &str = "| Plan | | Cloud Map service | Instance | Kubernetes Service | Detail |\n\
                             |---|---|---|---|---|---|";

impl Display for PlanDifference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.clusters.is_empty() {
            writeln!(f, "Both plans have the same changes.\n")?;
        }
        for (cluster, rows) in &self.clusters {
            writeln!(f, "### {}\n\n{DIFF_HEADINGS}", cell(cluster))?;
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
