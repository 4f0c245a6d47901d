//! The section about services across clusters: for each member the lines that the plan's table has about its exports,
//! imports and conflicts. A page without members has no such section.

use std::fmt::{self, Display, Formatter};

use super::page::Text;
use cloud_map_sync::report::Report;

/// The members of clustersets among the clusters of a plan.
pub struct Members<'a>(pub &'a Report);

impl Members<'_> {
    /// The number of exports and imports that are held back.
    pub fn held_back(&self) -> usize {
        let members = self.0.clusters.iter().filter_map(|it| it.multi_cluster.as_ref());
        members.map(|member| member.held_back.len()).sum()
    }
}

impl Display for Members<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut members =
            self.0.clusters.iter().filter_map(|it| Some((it, it.multi_cluster.as_ref()?)));
        let Some(first) = members.next() else { return Ok(()) };
        writeln!(f, "<h2>Services across clusters</h2>")?;
        for (cluster, member) in std::iter::once(first).chain(members) {
            let lines = member.to_string();
            let (about, changes): (Vec<&str>, Vec<&str>) =
                lines.lines().map(str::trim).partition(|line| line.starts_with("clusterset "));
            let name = Text(&cluster.cluster);
            writeln!(f, "<table>\n<tr><th>{name}<br>{}</th></tr>", Text(&about.concat()))?;
            for line in &changes {
                let class = if line.contains("! ") { " class=\"bad\"" } else { "" };
                writeln!(f, "<tr><td><code{class}>{}</code></td></tr>", Text(line))?;
            }
            if changes.is_empty() {
                writeln!(f, "<tr><td class=\"good\">Nothing to do.</td></tr>")?;
            }
            writeln!(f, "</table>")?;
        }
        Ok(())
    }
}
