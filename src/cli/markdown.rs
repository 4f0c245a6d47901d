//! A report as Markdown, for a pull request or a ticket: a heading for each cluster, and a table with a
//! row for each change and each thing held back.

use std::fmt::{self, Display, Formatter};

use crate::report::{
    ChangeLine, ChangeResult, ClusterReport, Deletion, EmptyServices, HeldBackLine, Report,
    ServiceReport,
};

const HEADINGS: &str =
    "| | Cloud Map service | Instance | Kubernetes Service | Detail |\n|---|---|---|---|---|";

/// A report as a page.
pub struct Page<'a>(pub &'a Report);

impl Display for Page<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for cluster in &self.0.clusters {
            writeln!(f, "### {}\n", Cell(&cluster.cluster))?;
            of_cluster(f, cluster)?;
        }
        empty_services(f, &self.0.empty_services)?;
        self.0.cut.iter().try_for_each(|cut| writeln!(f, "{}\n", Cell(cut)))?;
        writeln!(f, "**{}**", Cell(&self.0.summary()))
    }
}

fn of_cluster(f: &mut Formatter<'_>, cluster: &ClusterReport) -> fmt::Result {
    if let Some(error) = &cluster.error {
        return writeln!(f, "Not read, so nothing was changed: {}\n", Cell(error));
    }
    let quiet = |service: &ServiceReport| {
        service.changes.is_empty() && service.held_back.is_empty() && service.unreadable.is_none()
    };
    if cluster.held_back.is_empty() && cluster.services.iter().all(quiet) {
        writeln!(f, "In step.\n")?;
    } else {
        writeln!(f, "{HEADINGS}")?;
        cluster.services.iter().try_for_each(|service| of_service(f, service))?;
        cluster.held_back.iter().try_for_each(|line| held_back(f, "", line))?;
        writeln!(f)?;
    }
    let guard = cluster.guard.iter().map(|guard| &guard.detail);
    guard.chain(&cluster.warnings).try_for_each(|said| writeln!(f, "> {}\n", Cell(said)))
}

fn empty_services(f: &mut Formatter<'_>, empty: &EmptyServices) -> fmt::Result {
    for Deletion { namespace, name, result } in &empty.deletions {
        let outcome = match result {
            ChangeResult::Planned | ChangeResult::Applied => String::new(),
            ChangeResult::Failed { error } => format!("; failed: {error}"),
            ChangeResult::Undone { why } => format!("; not done: {why}"),
        };
        let what = format!("delete {namespace}/{name}, which holds nothing{outcome}");
        writeln!(f, "- {}", Cell(&what))?;
    }
    empty.kept.iter().try_for_each(|kept| writeln!(f, "- kept: {}", Cell(kept)))?;
    if empty.is_empty() { Ok(()) } else { writeln!(f) }
}

fn of_service(f: &mut Formatter<'_>, service: &ServiceReport) -> fmt::Result {
    let place = format!("{}/{}", service.namespace, service.name);
    if let Some(problem) = &service.unreadable {
        row(f, ["not read", &place, "", "", problem])?;
    }
    service.changes.iter().try_for_each(|line| change(f, &place, line))?;
    service.held_back.iter().try_for_each(|line| held_back(f, &place, line))
}

fn change(f: &mut Formatter<'_>, place: &str, line: &ChangeLine) -> fmt::Result {
    let detail = match &line.result {
        ChangeResult::Planned | ChangeResult::Applied => line.detail.clone(),
        ChangeResult::Failed { error } => format!("{}; failed: {error}", line.detail),
        ChangeResult::Undone { why } => format!("{}; not done: {why}", line.detail),
    };
    let instance = line.instance.as_deref().unwrap_or_default();
    row(f, [line.change.as_str(), place, instance, &line.service.to_string(), &detail])
}

fn held_back(f: &mut Formatter<'_>, place: &str, line: &HeldBackLine) -> fmt::Result {
    let detail = format!("{}: {}", line.reason, line.detail);
    row(f, ["held back", place, "", &line.service.to_string(), &detail])
}

fn row(f: &mut Formatter<'_>, cells: [&str; 5]) -> fmt::Result {
    let [what, place, instance, service, detail] = cells.map(Cell);
    writeln!(f, "| {what} | {place} | {instance} | {service} | {detail} |")
}

/// Text that makes no table, link or tag of its own.
pub struct Cell<'a>(pub &'a str);

impl Display for Cell<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character {
            '\n' => f.write_str(" "),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' => {
                write!(f, "\\{character}")
            }
            other => write!(f, "{other}"),
        })
    }
}
