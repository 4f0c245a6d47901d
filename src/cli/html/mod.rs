//! `report --html`: one page for people who move services from ECS to EKS, without a script and with
//! nothing to load. What it shows is the answers of `status` and `plan`, and where a status from before is
//! given, what has changed since.

mod page;
mod row;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::answer::{self, Answer, Code};
use super::arguments::Report;
use super::command::Command;
use super::{Error, ask, format, place};
use crate::actions::status::Status;
use crate::report;
use crate::time::Clock;
use page::Page;

/// Why the status from before cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Before {
    /// The file cannot be read.
    #[error("cannot read {file}, the status from before")]
    Unreadable {
        /// Its path.
        file: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It is no status.
    #[error("{file} is no output of `kubectl cloudmap status -o json`")]
    NoStatus {
        /// Its path.
        file: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
}

/// Asks for status and plan, and writes the page to standard output.
pub async fn show(arguments: Report) -> Result<Code, Error> {
    let Report { since, clusters, aws, html: _ } = arguments;
    let before = since.as_deref().map(before).transpose()?;
    let place = place::of(&clusters.into())?;
    let status: Value = ask(&aws, &Command::new("status", place.clone())).await?;
    let status = Status::deserialize(&status).map_err(answer::Error)?;
    let plan: Answer<report::Report> =
        Answer::read(ask(&aws, &Command::new("plan", place)).await?)?;
    let now = Clock::system().now();
    let page = Page { status: &status, before: before.as_ref(), plan: &plan.read, now };
    format::write(&page.to_string())?;
    Ok(Code::of_success(status.ok && plan.code() != Code::Error))
}

fn before(file: &Path) -> Result<Status, Before> {
    let name = || file.display().to_string();
    let text = std::fs::read_to_string(file)
        .map_err(|source| Before::Unreadable { file: name(), source })?;
    serde_json::from_str(&text).map_err(|source| Before::NoStatus { file: name(), source })
}
