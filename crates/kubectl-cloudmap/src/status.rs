//! The status as tables, which the action prints itself, or as Markdown: a row for each Cloud Map service, and one for
//! each member of a clusterset.

use std::fmt::Write as _;

use super::answer::Shown;
use super::markdown::Cell;
use cloud_map_sync::actions::status::{ClustersetStatus, MemberStatus, Status};

impl Shown for Status {
    fn table(&self, wide: bool) -> String {
        if wide { format!("{self:#}") } else { self.to_string() }
    }

    fn markdown(&self) -> String {
        let mut page =
            format!("| {} |\n|---|---|--:|--:|--:|--:|--:|\n", self.headings().join(" | "));
        let mut problems = String::new();
        for registry in &self.registries {
            for service in &registry.services {
                let row = self.row(service).map(|cell| Cell(&cell).to_string());
                let _ = writeln!(page, "| {} |", row.join(" | "));
            }
            if let Some(problem) = &registry.error {
                let _ = writeln!(problems, "\nNot read: {}", Cell(problem));
            }
        }
        let clustersets = self.registries.iter().flat_map(|registry| &registry.clustersets);
        let clustersets: String = clustersets.map(members).collect();
        if let Some(cut) = &self.cut {
            let _ = writeln!(problems, "\n{}", Cell(cut));
        }
        format!("{page}{clustersets}{problems}\n**{}**\n", Cell(&self.summary()))
    }

    fn names(&self) -> Vec<String> {
        let services = self.registries.iter().flat_map(|registry| &registry.services);
        services.map(|service| format!("{}/{}", service.namespace, service.name)).collect()
    }
}

/// The members of a clusterset as a table of their own.
fn members(clusterset: &ClustersetStatus) -> String {
    let headings = MemberStatus::HEADINGS.join(" | ");
    let mut table = format!(
        "\nClusterset {}\n\n| {headings} |\n|---|---|---|--:|--:|\n",
        Cell(&clusterset.clusterset)
    );
    for member in &clusterset.members {
        let row = member.row().map(|cell| Cell(&cell).to_string());
        let _ = writeln!(table, "| {} |", row.join(" | "));
        for problem in &member.problems {
            let _ = writeln!(table, "| | {} | | | |", Cell(problem));
        }
    }
    table
}
