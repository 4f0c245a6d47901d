//! Who has instances in each Cloud Map service.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;

use super::answer::{self, Code};
use super::arguments;
use super::command::Command;
use super::markdown::Cell;
use super::{Error, ask, format, place};
use crate::report::status::Status;

/// What the function told.
struct Told {
    value: Value,
    status: Status,
}

/// Asks for it and shows it.
pub async fn show(arguments: arguments::Status) -> Result<Code, Error> {
    let arguments::Status { clusters, aws, output } = arguments;
    let place = place::of(&clusters.into())?;
    let value = ask(&aws, &Command::new("status", place)).await?;
    let status = Status::deserialize(&value).map_err(answer::Error)?;
    let told = Told { value, status };
    format::print(&told, output.format)?;
    Ok(Code::of_success(told.status.ok))
}

impl format::Shown for Told {
    fn value(&self) -> &Value {
        &self.value
    }

    fn table(&self, wide: bool) -> String {
        if wide { format!("{:#}", self.status) } else { self.status.to_string() }
    }

    fn markdown(&self) -> String {
        let mut page =
            format!("| {} |\n|---|---|--:|--:|--:|--:|--:|\n", self.status.headings().join(" | "));
        let mut problems = String::new();
        for registry in &self.status.registries {
            for service in &registry.services {
                let row = self.status.row(service).map(|cell| Cell(&cell).to_string());
                let _ = writeln!(page, "| {} |", row.join(" | "));
            }
            if let Some(problem) = &registry.error {
                let _ = writeln!(problems, "\nNot read: {}", Cell(problem));
            }
        }
        if let Some(cut) = &self.status.cut {
            let _ = writeln!(problems, "\n{}", Cell(cut));
        }
        format!("{page}{problems}\n**{}**\n", Cell(&self.status.summary()))
    }
}
