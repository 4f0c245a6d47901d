//! The status as a table, which the action prints itself, or as Markdown: a row for each Cloud Map service.

use std::fmt::Write as _;

use super::answer::Shown;
use super::markdown::Cell;
use crate::actions::status::Status;

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
        if let Some(cut) = &self.cut {
            let _ = writeln!(problems, "\n{}", Cell(cut));
        }
        format!("{page}{problems}\n**{}**\n", Cell(&self.summary()))
    }
}
