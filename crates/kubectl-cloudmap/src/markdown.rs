//! A report as Markdown, for a pull request or a ticket: a heading for each cluster, a table with a row for each change
//! and each held-back request, and the lines of its exports and imports.

use std::fmt::{self, Display, Formatter};

use super::outside::{Output, code_block, escape};
use super::rows::{self, Row};
use cloud_map_sync::report::{ClusterReport, EmptyServices, MultiClusterReport, Report};

const HEADINGS: &str =
    "| | Cloud Map service | Instance | Kubernetes Service | Detail |\n|---|---|---|---|---|";

pub struct Page<'a>(pub &'a Report);

impl Display for Page<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for cluster in self.0.shown() {
            writeln!(f, "### {}\n", Cell(&cluster.cluster))?;
            write_cluster(f, cluster)?;
        }
        for orphans in &self.0.orphans {
            writeln!(f, "### Orphans of {}\n", Cell(&orphans.done.cluster))?;
            writeln!(f, "{}\n", Cell(&orphans.detail))?;
            write_rows(f, &rows::of_cluster(&orphans.done))?;
        }
        write_empty_services(f, &self.0.empty_services)?;
        self.0.cut.iter().try_for_each(|cut| writeln!(f, "{}\n", Cell(cut)))?;
        writeln!(f, "**{}**", Cell(&self.0.summary()))
    }
}

fn write_cluster(f: &mut Formatter<'_>, cluster: &ClusterReport) -> fmt::Result {
    let clusterset = cluster.multi_cluster.as_ref();
    if let Some(error) = &cluster.error {
        writeln!(f, "Not read, so nothing was changed in Cloud Map: {}\n", Cell(error))?;
        return clusterset.map_or(Ok(()), |it| write_multi_cluster(f, it));
    }
    let rows = rows::of_cluster(cluster);
    if rows.is_empty() && clusterset.is_none_or(MultiClusterReport::is_quiet) {
        writeln!(f, "In sync.\n")?;
    }
    write_rows(f, &rows)?;
    clusterset.map_or(Ok(()), |it| write_multi_cluster(f, it))?;
    let guard = cluster.guard.iter().map(|guard| &guard.detail);
    guard.chain(&cluster.warnings).try_for_each(|text| writeln!(f, "> {}\n", Cell(text)))
}

/// The exports and imports of a cluster. In a code block, since Markdown would take the signs for marks of its own.
fn write_multi_cluster(f: &mut Formatter<'_>, report: &MultiClusterReport) -> fmt::Result {
    let (clusterset, member) = (report.clusterset.as_deref(), report.cluster_id.as_deref());
    let of = clusterset.zip(member).map_or_else(
        || "Clusterset".to_owned(),
        |(clusterset, member)| format!("Clusterset {clusterset}, member {member}"),
    );
    writeln!(f, "{}: {} exports, {} imports\n", Cell(&of), report.exports, report.imports)?;
    let lines = rows::lines_of_clusterset(report);
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(f, "{}", code_block(&lines.join("\n")))
}

fn write_empty_services(f: &mut Formatter<'_>, empty: &EmptyServices) -> fmt::Result {
    for deletion in &empty.deletions {
        let Row { verb, name, detail, .. } = rows::of_deletion(deletion);
        writeln!(f, "- {}", Cell(&format!("{verb} {name}, {detail}")))?;
    }
    empty.kept.iter().try_for_each(|kept| writeln!(f, "- kept: {}", Cell(kept)))?;
    if empty.is_empty() { Ok(()) } else { writeln!(f) }
}

fn write_rows(f: &mut Formatter<'_>, rows: &[Row]) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(f, "{HEADINGS}")?;
    for Row { verb, name, instance, service, detail } in rows {
        let [name, instance, service, detail] =
            [name, instance, service, detail].map(|it| Cell(it));
        writeln!(f, "| {verb} | {name} | {instance} | {service} | {detail} |")?;
    }
    writeln!(f)
}

/// Text in a cell, heading or paragraph.
pub struct Cell<'a>(pub &'a str);

impl Display for Cell<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&escape(self.0, Output::Markdown))
    }
}
