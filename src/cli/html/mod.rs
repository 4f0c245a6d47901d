//! `report --html`: one self-contained page without a script, about the move of services from ECS to EKS. It shows the
//! answers of `status` and `plan`, the exports and imports of members of clustersets among them, and with an earlier status
//! the changes since then.

mod clusterset;
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
use super::{Error, format, place, request};
use crate::actions::status::Status;
use crate::report;
use crate::time::Clock;
use page::Page;

#[derive(Debug, thiserror::Error)]
pub enum Before {
    #[error("cannot read the earlier status {file}")]
    Unreadable {
        file: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{file} is not an output of `kubectl cloudmap status -o json`")]
    NoStatus {
        file: String,
        #[source]
        source: serde_json::Error,
    },
}

/// Requests status and plan, and writes the page to standard output.
pub async fn show(arguments: Report) -> Result<Code, Error> {
    let Report { since, clusters, aws, html: _ } = arguments;
    let before = since.as_deref().map(read_before).transpose()?;
    let place = place::resolve(&clusters.into())?;
    let status: Value = request(&aws, &Command::new("status", place.clone())).await?;
    let status = Status::deserialize(&status).map_err(answer::Error)?;
    let plan: Answer<report::Report> =
        Answer::read(request(&aws, &Command::new("plan", place)).await?)?;
    let now = Clock::system().now();
    let page = Page { status: &status, before: before.as_ref(), plan: &plan.parsed, now };
    format::write(&page.to_string())?;
    Ok(Code::from_success(status.ok && plan.code() != Code::Error))
}

fn read_before(file: &Path) -> Result<Status, Before> {
    let name = || file.display().to_string();
    let text = std::fs::read_to_string(file)
        .map_err(|source| Before::Unreadable { file: name(), source })?;
    serde_json::from_str(&text).map_err(|source| Before::NoStatus { file: name(), source })
}
