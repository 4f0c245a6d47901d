//! `report --html`: one self-contained page without a script, about the move of services from ECS to EKS. It shows the
//! answers of `status` and `plan`, the exports and imports of members of clustersets among them, and with an earlier status
//! the changes since then.

mod clusterset;
mod page;
mod row;
#[cfg(test)]
mod tests;

use super::answer::{Answer, Code};
use super::arguments::Report;
use super::command::Command;
use super::{Error, format, place, request, saved};
use cloud_map_sync::actions::status::Status;
use cloud_map_sync::report;
use cloud_map_sync::time::Clock;
pub use page::Page;

/// Requests status and plan, and writes the page to standard output.
pub async fn show(arguments: Report) -> Result<Code, Error> {
    let Report { since, clusters, aws, html: _ } = arguments;
    let before = since.as_deref().map(|file| saved::read(file, "status")).transpose()?;
    let place = place::resolve(&clusters.into())?;
    let status: Answer<Status> =
        Answer::read(request(&aws, &Command::new("status", place.clone())).await?)?;
    let plan: Answer<report::Report> =
        Answer::read(request(&aws, &Command::new("plan", place)).await?)?;
    let now = Clock::system().now();
    let (status, code) = (&status.parsed, plan.code());
    let page = Page { status, before: before.as_ref(), plan: &plan.parsed, now };
    format::write(&page.to_string())?;
    Ok(Code::from_success(status.ok && code != Code::Error))
}
