//! `kubectl cloudmap`: the function's actions on the command line, in a separate binary.
//!
//! ```text
//! arguments ─> scope (kubeconfig) ─> request ─> answer ─> exit code
//!                                    │ by Lambda's Invoke, or by the same handler in this process
//!                                    └ wait: repeats the action plan
//! ```
//!
//! Every verb runs actions of the function, except four that need no function: `diff`, `validate`, `admission` and
//! `completion`. This crate decides no rule. The function is built without it.

mod answer;
pub mod arguments;
mod escape;
#[cfg(test)]
mod hostile;
mod html;
mod manifests;
mod markdown;
mod request;
mod scope;
#[cfg(test)]
mod tests;
mod wait;

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use serde::de::DeserializeOwned;
use serde_json::Value;

use cloud_map_sync::actions;
use cloud_map_sync::error::chain;
use cloud_map_sync::report::Report;

use answer::{Code, FunctionAnswer, Shown, print, print_error, write};
use arguments::{
    Adopt, Approved, Arguments, Aws, Completion, FailOn, OutputArguments, Purge, RunArguments,
    ShownArguments, StatusArguments, Targeted, Verb,
};
use escape::{Output, escape};
use request::{FunctionRequest, request};
use scope::RequestedScope;

/// The error of a verb that has no answer. Each module of this crate has its own error type.
type Error = Box<dyn std::error::Error>;

/// Runs the command line.
pub async fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(refusal) => {
            let shown = refusal.print();
            // clap's own exit code 2 means changes to make here, so a mistake on the command line is 1.
            let fine = !refusal.use_stderr() && shown.is_ok();
            return Code::from_success(fine).into();
        }
    };
    match Box::pin(run(arguments)).await {
        Ok(code) => code.into(),
        Err(error) => {
            print_error(&format!("error: {}", chain(&*error)));
            Code::Error.into()
        }
    }
}

async fn run(arguments: Arguments) -> Result<Code, Error> {
    match arguments.verb {
        Verb::Plan(run) => run_report("plan", run).await,
        Verb::Sync(targeted) => run_report("sync", targeted).await,
        Verb::Adopt(adoption) => adopt(adoption).await,
        Verb::Confirm(confirmed) => confirm(confirmed).await,
        Verb::Purge(purged) => purge(purged).await,
        Verb::Report(report) => html::show(report).await,
        Verb::Diff(plans) => markdown::show_difference(&plans),
        Verb::Doctor(clusters) => doctor(clusters).await,
        Verb::Explain(targeted) => explain(targeted).await,
        Verb::Status(shown) => status(shown).await,
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
    let RunArguments { fail_on, targeted: Targeted { scope, output } } = run;
    let command = FunctionRequest::new(action, scope::resolve(&scope)?);
    let answer = run_and_print::<Report>(&output, &command).await?;
    let held_back = answer.parsed.counts.held_back;
    if held_back > 0 && fail_on.contains(&FailOn::HeldBack) {
        eprintln!("error: {held_back} held back (--fail-on held-back)");
        return Ok(Code::Error);
    }
    Ok(answer.code())
}

/// Explains one Service. The exit code shows whether it has problems.
async fn explain(targeted: Targeted) -> Result<Code, Error> {
    let Targeted { scope, output } = targeted;
    let scope = scope::resolve(&scope)?;
    if scope.service.is_none() {
        return Err(scope::Error::NoService.into());
    }
    let command = FunctionRequest::new("explain", scope);
    let answer = run_and_print::<actions::explain::Explanation>(&output, &command).await?;
    Ok(Code::from_success(answer.parsed.ok))
}

/// Checks clusters. The exit code shows whether a check failed.
async fn doctor(arguments: StatusArguments) -> Result<Code, Error> {
    let StatusArguments { clusters, output } = arguments;
    let command = FunctionRequest::new("doctor", scope::resolve(&clusters.into())?);
    let checkup = run_and_print::<actions::doctor::Checkup>(&output, &command).await?;
    Ok(Code::from_success(checkup.parsed.ok))
}

// The verb `status`: of all Cloud Map services, of one, or of all in one Cloud Map namespace. The function always reads
// all services, since the list of services has those of all namespaces. The other services are removed from its answer
// here.

/// Shows the status of the requested Cloud Map services. A requested name that does not exist is an error.
async fn status(shown: ShownArguments) -> Result<Code, Error> {
    let StatusArguments { clusters, output } = shown.status;
    let scope = scope::resolve(&clusters.into())?;
    let command =
        FunctionRequest { created: shown.created, ..FunctionRequest::new("status", scope) };
    let mut value = request(&output.aws, &command).await?;
    narrow(&mut value, shown.name.as_deref(), shown.namespace.as_deref());
    let answer: FunctionAnswer<actions::status::Status> = FunctionAnswer::read(value)?;
    let status = &answer.parsed;
    let is_empty = status.registries.iter().all(|registry| registry.services.is_empty());
    // An answer that was cut has no services, so the name may exist.
    let is_complete = status.ok && status.cut.is_none();
    if let Some(name) = shown.name.filter(|_| is_empty && is_complete) {
        return Err(format!(
            "no Cloud Map service is named {name}; without a name, status lists all of them"
        )
        .into());
    }
    print(&answer, output.format)?;
    Ok(Code::from_success(status.ok))
}

/// Removes all Cloud Map services that do not match from an answer of `status`. If there is a filter, it also removes
/// the members of clustersets, which have no name. `name` may begin with its namespace. If `namespace` is also given,
/// both must match.
fn narrow(status: &mut Value, name: Option<&str>, namespace: Option<&str>) {
    if name.is_none() && namespace.is_none() {
        return;
    }
    let (before, name) = match name.and_then(|name| name.split_once('/')) {
        Some((before, name)) => (Some(before), Some(name)),
        None => (None, name),
    };
    let wanted = [("namespace", before), ("namespace", namespace), ("name", name)];
    let wanted: Vec<_> =
        wanted.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    let is_wanted = |service: &Value| {
        let is = |text: &str, wanted: &str| text.eq_ignore_ascii_case(wanted);
        wanted.iter().all(|(key, value)| service[*key].as_str().is_some_and(|text| is(text, value)))
    };
    for registry in status["registries"].as_array_mut().into_iter().flatten() {
        if let Some(services) = registry["services"].as_array_mut() {
            services.retain(is_wanted);
        }
        if let Some(registry) = registry.as_object_mut() {
            registry.remove("clustersets");
        }
    }
}

// The verbs that need an approval: `adopt`, `purge` and `confirm`. Each prints its plan, reads a word from the
// terminal, and carries the plan out if the word matches. Without a terminal only `--yes` approves.

/// The error of an approval that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read from the terminal")]
struct Terminal(#[source] io::Error);

async fn adopt(adopt: Adopt) -> Result<Code, Error> {
    let Targeted { scope, output } = adopt.targeted;
    let scope = scope::resolve(&scope)?;
    let plan = FunctionRequest { owner: adopt.owner, ..FunctionRequest::new("adopt", scope) };
    if adopt.yes {
        return carry_out(&output, plan).await;
    }
    let planned = run_and_print::<Report>(&output, &plan).await?;
    let action = "adopt these instances";
    if !planned.has_changes() || !read_approval(&planned.parsed, action, "yes")? {
        return Ok(planned.code());
    }
    carry_out(&output, plan).await
}

async fn purge(Purge { registry, clusterset, approved: purge }: Purge) -> Result<Code, Error> {
    let context = purge.whole.context.clone();
    let scope = scope::resolve(&purge.whole.into())?;
    if let Some(context) = context.filter(|_| !scope.is_one_cluster()) {
        return Err(scope::Error::NoRegion(context).into());
    }
    let mut plan = FunctionRequest { registry, clusterset, ..FunctionRequest::new("purge", scope) };
    if purge.yes {
        return carry_out(&purge.output, plan).await;
    }
    let planned = run_and_print::<Report>(&purge.output, &plan).await?;
    // Another cluster may have the same name, so the word to type is the ARN of the planned cluster.
    let arn =
        planned.parsed.clusters.first().map(|cluster| cluster.cluster.clone()).unwrap_or_default();
    let action = "deregister these instances";
    if !planned.has_changes() || !read_approval(&planned.parsed, action, &arn)? {
        return Ok(planned.code());
    }
    plan.scope.cluster = Some(arn);
    carry_out(&purge.output, plan).await
}

/// Carries out the loss that the guard holds, takes an unfamiliar Cloud Map for that of the imports, and takes over the
/// records of the cluster from another `OWNER_ID`.
async fn confirm(confirm: Approved) -> Result<Code, Error> {
    let scope = scope::resolve(&confirm.whole.into())?;
    let command = FunctionRequest::new("confirm", scope.clone());
    if confirm.yes {
        return carry_out(&confirm.output, command).await;
    }
    let plan = FunctionRequest::new("plan", scope);
    let planned = run_and_print::<Report>(&confirm.output, &plan).await?;
    let to_confirm = planned.clusters_to_confirm();
    if !to_confirm.iter().any(|cluster| plan.scope.includes(cluster)) {
        eprintln!("{NOTHING_TO_CONFIRM}");
        for cluster in to_confirm {
            eprintln!("another cluster has: confirm it with --cluster {cluster}");
        }
        return Ok(planned.code());
    }
    let action = "sync this cluster and carry out what is held";
    if !read_approval(&planned.parsed, action, "yes")? {
        // The plan does not count what is held as changes, but a confirmation would make them.
        return Ok(if planned.code() == Code::Error { Code::Error } else { Code::Changes });
    }
    carry_out(&confirm.output, command).await
}

const NOTHING_TO_CONFIRM: &str = "this cluster has no held loss, no unfamiliar Cloud Map and no records of another OWNER_ID, so there is nothing to confirm";

/// Carries out a plan by the field `confirm`. The action `confirm` does not have this field: it always carries out.
async fn carry_out(output: &OutputArguments, plan: FunctionRequest) -> Result<Code, Error> {
    let command = &FunctionRequest { confirm: plan.action != "confirm", ..plan };
    Ok(run_and_print::<Report>(output, command).await?.code())
}

/// Reads a word from the terminal, and returns whether it approves the plan, which it does if it is `word`. An
/// incomplete plan can be approved, too.
fn read_approval(planned: &Report, action: &str, word: &str) -> Result<bool, Error> {
    if !planned.ok {
        eprintln!("the plan is incomplete: see the lines with !");
    }
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        eprintln!("nothing was changed; approve with --yes");
        return Ok(false);
    }
    let word = escape(word, Output::Terminal);
    eprint!("Type {word:?} to {action}: ");
    let _ = io::stderr().flush();
    let mut typed = String::new();
    io::stdin().lock().read_line(&mut typed).map_err(Terminal)?;
    if typed.trim() == word {
        return Ok(true);
    }
    eprintln!("nothing was changed");
    Ok(false)
}

/// Runs a command, and reads its answer.
async fn ask<T: DeserializeOwned>(
    aws: &Aws,
    command: &FunctionRequest,
) -> Result<FunctionAnswer<T>, Error> {
    Ok(FunctionAnswer::read(request(aws, command).await?)?)
}

/// Runs a command, reads its answer, and prints it to standard output.
async fn run_and_print<T: DeserializeOwned + Shown>(
    output: &OutputArguments,
    command: &FunctionRequest,
) -> Result<FunctionAnswer<T>, Error> {
    let answer = ask(&output.aws, command).await?;
    print(&answer, output.format)?;
    Ok(answer)
}
