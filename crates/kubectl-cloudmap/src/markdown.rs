//! A report as Markdown, for a pull request or a ticket: a heading for each cluster, a table with a row for each change,
//! each held-back request and each name that was not read, and the lines of its exports and imports. `difference` compares
//! the rows of two reports.

use std::fmt::{self, Display, Formatter};

use super::outside::{Output, code_block, escape};
use cloud_map_sync::model::Outcome;
use cloud_map_sync::report::{
    ChangeLine, ClusterReport, Deletion, EmptyServices, HeldBackLine, ImportLine,
    MultiClusterReport, Report, ServiceReport,
};

const HEADINGS: &str =
    "| | Cloud Map service | Instance | Kubernetes Service | Detail |\n|---|---|---|---|---|";

pub struct MarkdownPage<'a>(pub &'a Report);

impl Display for MarkdownPage<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for cluster in self.0.shown() {
            writeln!(f, "### {}\n", cell(&cluster.cluster))?;
            write_cluster(f, cluster)?;
        }
        for orphans in &self.0.orphans {
            writeln!(f, "### Orphans of {}\n", cell(&orphans.done.cluster))?;
            writeln!(f, "{}\n", cell(&orphans.detail))?;
            write_rows(f, &of_cluster(&orphans.done))?;
        }
        write_empty_services(f, &self.0.empty_services)?;
        self.0.cut.iter().try_for_each(|cut| writeln!(f, "{}\n", cell(cut)))?;
        writeln!(f, "**{}**", cell(&self.0.summary()))
    }
}

fn write_cluster(f: &mut Formatter<'_>, cluster: &ClusterReport) -> fmt::Result {
    let clusterset = cluster.multi_cluster.as_ref();
    if let Some(error) = &cluster.error {
        writeln!(f, "Not read, so nothing was changed in Cloud Map: {}\n", cell(error))?;
        return clusterset.map_or(Ok(()), |it| write_multi_cluster(f, it));
    }
    let rows = of_cluster(cluster);
    if rows.is_empty() && clusterset.is_none_or(MultiClusterReport::is_quiet) {
        writeln!(f, "In sync.\n")?;
    }
    write_rows(f, &rows)?;
    clusterset.map_or(Ok(()), |it| write_multi_cluster(f, it))?;
    let guard = cluster.guard.iter().map(|guard| &guard.detail);
    guard.chain(&cluster.warnings).try_for_each(|text| writeln!(f, "> {}\n", cell(text)))
}

/// The exports and imports of a cluster. In a code block, since Markdown would take the signs for marks of its own.
fn write_multi_cluster(f: &mut Formatter<'_>, report: &MultiClusterReport) -> fmt::Result {
    let (clusterset, member) = (report.clusterset.as_deref(), report.cluster_id.as_deref());
    let of = clusterset.zip(member).map_or_else(
        || "Clusterset".to_owned(),
        |(clusterset, member)| format!("Clusterset {clusterset}, member {member}"),
    );
    writeln!(f, "{}: {} exports, {} imports\n", cell(&of), report.exports, report.imports)?;
    let lines = lines_of_clusterset(report);
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(f, "{}", code_block(&lines.join("\n")))
}

fn write_empty_services(f: &mut Formatter<'_>, empty: &EmptyServices) -> fmt::Result {
    for deletion in &empty.deletions {
        let Row { verb, name, detail, .. } = of_deletion(deletion);
        writeln!(f, "- {}", cell(&format!("{verb} {name}, {detail}")))?;
    }
    empty.kept.iter().try_for_each(|kept| writeln!(f, "- kept: {}", cell(kept)))?;
    if empty.is_empty() { Ok(()) } else { writeln!(f) }
}

fn write_rows(f: &mut Formatter<'_>, rows: &[Row]) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(f, "{HEADINGS}")?;
    rows.iter().try_for_each(|row| writeln!(f, "| {} |", row.cells()))?;
    writeln!(f)
}

/// Text in a cell, heading or paragraph.
pub fn cell(text: &str) -> String {
    escape(text, Output::Markdown)
}

/// A line about one name, instance or Service. A part that it does not have is empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// The kind of change, `held back` or `not read`.
    pub verb: &'static str,
    /// The namespace and name in Cloud Map.
    pub name: String,
    pub instance: String,
    /// The Kubernetes Service.
    pub service: String,
    pub detail: String,
}

impl Row {
    /// A row about no instance and no Kubernetes Service.
    pub fn about(verb: &'static str, name: &str, detail: &str) -> Self {
        let (instance, service) = (String::new(), String::new());
        Self { verb, name: name.to_owned(), instance, service, detail: detail.to_owned() }
    }

    /// The columns of a table.
    pub fn cells(&self) -> String {
        let texts = [&self.name, &self.instance, &self.service, &self.detail].map(|it| cell(it));
        format!("{} | {}", self.verb, texts.join(" | "))
    }

    fn held_back(name: &str, line: &HeldBackLine) -> Self {
        let detail = format!("{}: {}", line.reason, line.detail);
        Self { service: line.service.to_string(), ..Self::about("held back", name, &detail) }
    }

    fn change(name: &str, line: &ChangeLine) -> Self {
        let detail = format!("{}{}", line.detail, outcome(&line.result));
        Self {
            instance: line.instance.clone().unwrap_or_default(),
            service: line.service.to_string(),
            ..Self::about(line.change.as_str(), name, &detail)
        }
    }
}

/// The rows of a cluster's Cloud Map services, and of the held-back requests that belong to none.
pub fn of_cluster(cluster: &ClusterReport) -> Vec<Row> {
    let held_back = cluster.held_back.iter().map(|line| Row::held_back("", line));
    cluster.services.iter().flat_map(of_service).chain(held_back).collect()
}

fn of_service(service: &ServiceReport) -> Vec<Row> {
    let name = service.place();
    let unread = service.unreadable.iter().map(|problem| Row::about("not read", &name, problem));
    let changes = service.changes.iter().map(|line| Row::change(&name, line));
    let held_back = service.held_back.iter().map(|line| Row::held_back(&name, line));
    unread.chain(changes).chain(held_back).collect()
}

/// The row of a deletion of a Cloud Map service without instances.
pub fn of_deletion(Deletion { namespace, name, result }: &Deletion) -> Row {
    let detail = format!("without instances{}", outcome(result));
    Row::about("delete", &format!("{namespace}/{name}"), &detail)
}

/// The exports and imports of a cluster, a line each: they are about objects of Kubernetes, not about names.
pub fn lines_of_clusterset(report: &MultiClusterReport) -> Vec<String> {
    let obstacles = report.obstacles.iter().map(|it| format!("! {}: {}", it.reason, it.detail));
    let changes = report.export_changes.iter().chain(&report.changes).map(ImportLine::to_string);
    let held_back = report.held_back.iter().map(|line| format!("! held back {line}"));
    let conflicts = report.conflicts.iter().map(|line| format!("! Conflict {line}"));
    obstacles.chain(changes).chain(held_back).chain(conflicts).collect()
}

/// The reason for which a change was not made, behind its detail.
fn outcome(result: &Outcome) -> String {
    match result {
        Outcome::Planned | Outcome::Applied => String::new(),
        Outcome::Failed { error } => format!("; failed: {error}"),
        Outcome::Undone { why } => format!("; not done: {why}"),
    }
}
