//! `kubectl cloudmap`: the function's actions on the command line, in a separate binary.
//!
//! ```text
//! arguments ─> place (kubeconfig) ─> request ─> answer ─> exit code
//!                                    │ by Lambda's Invoke, or by the same handler in this process
//!                                    └ status, wait, approval: what a verb does beside
//! ```
//!
//! Every verb is an action of the function, but for four that need none: `diff`, `validate`, `admission` and `completion`. No
//! rule is decided here. The function is built without this module.

mod answer;
mod approval;
pub mod arguments;
mod difference;
#[cfg(test)]
mod hostile;
mod html;
mod manifests;
mod markdown;
mod outside;
mod place;
mod request;
mod status;
#[cfg(test)]
mod tests;
mod wait;

use std::process::ExitCode;

use clap::Parser;
use serde::de::DeserializeOwned;

use cloud_map_sync::actions::doctor::Checkup;
use cloud_map_sync::actions::explain::Explanation;
use cloud_map_sync::error::chain;
use cloud_map_sync::report::Report;

use answer::{Code, FunctionAnswer, Shown, complain, print, write};
use arguments::{
    Arguments, Aws, Completion, FailOn, OutputArguments, PlanArguments, RunArguments,
    StatusArguments, Targeted, Verb,
};
use place::RequestedScope;
use request::{FunctionRequest, request};

/// The error of a verb without an answer: one of this crate's modules.
type Error = Box<dyn std::error::Error>;

/// Runs the command line.
pub async fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(refusal) => {
            let shown = refusal.print();
            // 2 means changes to make, so a mistake on the command line is 1.
            let fine = !refusal.use_stderr() && shown.is_ok();
            return Code::from_success(fine).into();
        }
    };
    match Box::pin(run(arguments)).await {
        Ok(code) => code.into(),
        Err(error) => {
            complain(&format!("error: {}", chain(&*error)));
            Code::Error.into()
        }
    }
}

async fn run(arguments: Arguments) -> Result<Code, Error> {
    match arguments.verb {
        Verb::Plan(PlanArguments { watch: true, run }) => wait::watch_plan(run).await,
        Verb::Plan(PlanArguments { run, .. }) => run_report("plan", run).await,
        Verb::Sync(targeted) => run_report("sync", targeted).await,
        Verb::Adopt(adopt) => approval::adopt(adopt).await,
        Verb::Confirm(confirm) => approval::confirm(confirm).await,
        Verb::Purge(purge) => approval::purge(purge).await,
        Verb::Cleanup(output) => {
            let command = FunctionRequest::new("cleanup", RequestedScope::default());
            Ok(run_and_print::<Report>(&output, &command).await?.code())
        }
        Verb::Report(report) => html::show(report).await,
        Verb::Diff(plans) => difference::show(&plans),
        Verb::Doctor(clusters) => doctor(clusters).await,
        Verb::Explain(targeted) => explain(targeted).await,
        Verb::Status(shown) if shown.watch => wait::watch_status(shown).await,
        Verb::Status(shown) => status::show(shown).await,
        Verb::Wait(wait) => wait::wait(wait).await,
        Verb::Validate(validate) => {
            let judged = manifests::judge(&validate)?;
            write(&judged.to_string())?;
            Ok(Code::from_success(judged.is_valid()))
        }
        Verb::Completion(Completion { words }) => show(&arguments::choices(&words)),
        Verb::Admission(admission) => show(&manifests::policy(&admission)),
    }
}

fn show(text: &str) -> Result<Code, Error> {
    write(text)?;
    Ok(Code::from_success(true))
}

/// Runs a verb that returns a report.
async fn run_report(action: &'static str, run: RunArguments) -> Result<Code, Error> {
    let RunArguments { fail_on, targeted: Targeted { place, output } } = run;
    let command = FunctionRequest::new(action, place::resolve(&place)?);
    let answer = run_and_print::<Report>(&output, &command).await?;
    let held_back = answer.held_back();
    if held_back > 0 && fail_on.contains(&FailOn::HeldBack) {
        eprintln!("error: {held_back} held back (--fail-on held-back)");
        return Ok(Code::Error);
    }
    Ok(answer.code())
}

/// Explains one Service. The exit code shows whether it has problems.
async fn explain(targeted: Targeted) -> Result<Code, Error> {
    let Targeted { place, output } = targeted;
    let place = place::resolve(&place)?;
    if place.service.is_none() {
        return Err(place::Error::NoService.into());
    }
    let command = FunctionRequest::new("explain", place);
    let answer = run_and_print::<Explanation>(&output, &command).await?;
    Ok(Code::from_success(answer.parsed.ok))
}

/// Checks clusters. The exit code shows whether a check failed.
async fn doctor(arguments: StatusArguments) -> Result<Code, Error> {
    let StatusArguments { clusters, output } = arguments;
    let command = FunctionRequest::new("doctor", place::resolve(&clusters.into())?);
    let checkup = run_and_print::<Checkup>(&output, &command).await?;
    Ok(Code::from_success(checkup.parsed.ok))
}

/// Runs a command, and reads its answer.
async fn ask<T: DeserializeOwned>(
    aws: &Aws,
    command: &FunctionRequest,
) -> Result<FunctionAnswer<T>, Error> {
    Ok(FunctionAnswer::read(request(aws, command).await?)?)
}

/// The same, and prints the answer to standard output.
async fn run_and_print<T: DeserializeOwned + Shown>(
    output: &OutputArguments,
    command: &FunctionRequest,
) -> Result<FunctionAnswer<T>, Error> {
    let answer = ask(&output.aws, command).await?;
    print(&answer, output.format)?;
    Ok(answer)
}
