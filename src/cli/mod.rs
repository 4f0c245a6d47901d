//! `kubectl cloudmap`: the function for a person at a terminal, in a binary of its own.
//!
//! ```text
//! arguments ─> place (kubeconfig) ─> command ─> runner ─> answer ─> show ─> exit code
//!                                               │ function: Lambda's Invoke
//!                                               └ local: the same handler in this process
//! ```
//!
//! Every verb is an action of the function; nothing is decided here. The function is built without
//! this module.

mod answer;
mod approval;
pub mod arguments;
mod colour;
mod command;
mod format;
mod function;
mod html;
mod kubeconfig;
mod local;
mod markdown;
mod place;
mod progress;
mod runner;
mod status;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use aws_config::Region;
use clap::Parser;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::actions::doctor::Checkup;
use crate::actions::explain::Explanation;
use crate::actions::status::Status;
use crate::error::chain;
use crate::report::Report;

use answer::{Answer, Code, Shown};
use arguments::{Arguments, Aws, Format, Targeted, Verb};
use command::Command;
use runner::Runner;

/// Why a verb ended without an answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster or the namespace is not known.
    #[error(transparent)]
    Place(#[from] place::Error),
    /// The function did not answer.
    #[error(transparent)]
    Function(#[from] function::Error),
    /// It did not run in this process.
    #[error(transparent)]
    Local(#[from] local::Error),
    /// It answered something else than this release of the plugin can show.
    #[error(transparent)]
    Answer(#[from] answer::Error),
    /// The status from before cannot be used.
    #[error(transparent)]
    Before(#[from] html::Before),
    /// Nobody could be asked.
    #[error("cannot read from the terminal")]
    Terminal(#[source] std::io::Error),
    /// The answer could not be written out.
    #[error(transparent)]
    Format(#[from] format::Error),
}

/// Does what the command line says.
pub async fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(refusal) => {
            let shown = refusal.print();
            // 2 says that there are changes, so a mistake is 1 as any other.
            let fine = !refusal.use_stderr() && shown.is_ok();
            return Code::of_success(fine).into();
        }
    };
    match Box::pin(run(arguments)).await {
        Ok(code) => code.into(),
        Err(error) => {
            eprintln!("error: {}", format::printable(&chain(&error)));
            Code::Error.into()
        }
    }
}

async fn run(arguments: Arguments) -> Result<Code, Error> {
    match arguments.verb {
        Verb::Plan(targeted) => report("plan", targeted).await,
        Verb::Sync(targeted) => report("sync", targeted).await,
        Verb::Adopt(adopt) => approval::adopt(adopt).await,
        Verb::Confirm(confirm) => approval::confirm(confirm).await,
        Verb::Purge(purge) => approval::purge(purge).await,
        Verb::Report(report) => html::show(report).await,
        Verb::Doctor(clusters) => {
            let checkup: Checkup = question("doctor", clusters).await?;
            Ok(Code::of_success(checkup.ok))
        }
        Verb::Explain(targeted) => explain(targeted).await,
        Verb::Status(clusters) => {
            let status: Status = question("status", clusters).await?;
            Ok(Code::of_success(status.ok))
        }
    }
}

/// A verb whose answer is a report.
async fn report(action: &'static str, targeted: Targeted) -> Result<Code, Error> {
    let Targeted { place, aws, output } = targeted;
    let command = Command::new(action, place::of(&place)?);
    let answer: Answer<Report> = shown(&aws, &command, output.format).await?;
    Ok(answer.code())
}

/// Explains one Service. The exit code says whether it is found as it should be.
async fn explain(targeted: Targeted) -> Result<Code, Error> {
    let Targeted { place, aws, output } = targeted;
    let place = place::of(&place)?;
    if place.service.is_none() {
        return Err(place::Error::NoService.into());
    }
    let command = Command::new("explain", place);
    let answer: Answer<Explanation> = shown(&aws, &command, output.format).await?;
    Ok(Code::of_success(answer.read.ok))
}

/// A question about whole clusters.
async fn question<T: DeserializeOwned + Shown>(
    action: &'static str,
    clusters: arguments::Status,
) -> Result<T, Error> {
    let arguments::Status { clusters, aws, output } = clusters;
    let command = Command::new(action, place::of(&clusters.into())?);
    Ok(shown::<T>(&aws, &command, output.format).await?.read)
}

/// The answer to a command, which is written to standard output, too.
async fn shown<T: DeserializeOwned + Shown>(
    aws: &Aws,
    command: &Command,
    format: Format,
) -> Result<Answer<T>, Error> {
    let answer = Answer::read(ask(aws, command).await?)?;
    format::print(&answer, format)?;
    Ok(answer)
}

/// Has the command carried out, and says so meanwhile.
async fn ask(aws: &Aws, command: &Command) -> Result<Value, Error> {
    let runner = Runner::new(aws).await;
    progress::during(&format!("{command} {runner}"), runner.run(&command.payload())).await
}

/// The SDK's configuration of this terminal.
async fn sdk_config(aws: &Aws) -> aws_config::SdkConfig {
    let mut loader = crate::clients::sdk_config();
    if let Some(profile) = &aws.profile {
        loader = loader.profile_name(profile);
    }
    if let Some(region) = &aws.region {
        loader = loader.region(Region::new(region.clone()));
    }
    loader.load().await
}
