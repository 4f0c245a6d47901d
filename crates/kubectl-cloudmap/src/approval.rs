//! The verbs that need an approval: `adopt`, `purge` and `confirm`. Each prints its plan, reads a word from the
//! terminal, and carries the plan out if the word matches. Without a terminal only `--yes` approves.

use std::io::{self, BufRead, IsTerminal, Write};

use super::answer::Code;
use super::arguments::{Adopt, Approved, OutputArguments, Purge, Targeted};
use super::outside::{Output, escape};
use super::place;
use super::request::FunctionRequest;
use super::{Error, run_and_print};
use cloud_map_sync::report::Report;

/// The approval could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read from the terminal")]
struct Terminal(#[source] io::Error);

pub async fn adopt(adopt: Adopt) -> Result<Code, Error> {
    let Targeted { place, output } = adopt.targeted;
    let place = place::resolve(&place)?;
    let plan = FunctionRequest { owner: adopt.owner, ..FunctionRequest::new("adopt", place) };
    if adopt.yes {
        return carry_out(&output, plan).await;
    }
    let planned = run_and_print::<Report>(&output, &plan).await?;
    if planned.code() != Code::Changes || !read_approval("adopt these instances", "yes")? {
        return Ok(planned.code());
    }
    carry_out(&output, plan).await
}

pub async fn purge(Purge { registry, approved: purge }: Purge) -> Result<Code, Error> {
    let context = purge.whole.context.clone();
    let place = place::resolve(&purge.whole.into())?;
    if let Some(context) = context.filter(|_| !place.is_one_cluster()) {
        return Err(place::Error::NoRegion(context).into());
    }
    let mut plan = FunctionRequest { registry, ..FunctionRequest::new("purge", place) };
    if purge.yes {
        return carry_out(&purge.output, plan).await;
    }
    let planned = run_and_print::<Report>(&purge.output, &plan).await?;
    // Another cluster may have the same name, so the word to type is the ARN of the one that the plan is about.
    let arn = planned.parsed.clusters.first().map(|it| it.cluster.clone()).unwrap_or_default();
    if planned.code() != Code::Changes || !read_approval("deregister these instances", &arn)? {
        return Ok(planned.code());
    }
    plan.place.cluster = Some(arn);
    carry_out(&purge.output, plan).await
}

/// Carries out the loss that the guard holds.
pub async fn confirm(confirm: Approved) -> Result<Code, Error> {
    let place = place::resolve(&confirm.whole.into())?;
    let command = FunctionRequest::new("confirm", place.clone());
    if confirm.yes {
        return carry_out(&confirm.output, command).await;
    }
    let plan = FunctionRequest::new("plan", place);
    let planned = run_and_print::<Report>(&confirm.output, &plan).await?;
    if !planned.is_held() {
        eprintln!("the guard holds no loss in this cluster, so there is nothing to confirm");
        return Ok(planned.code());
    }
    if !read_approval("sync this cluster and carry out the loss", "yes")? {
        // The plan does not count the held removals as changes, but a confirmation would make them.
        return Ok(if planned.code() == Code::Error { Code::Error } else { Code::Changes });
    }
    carry_out(&confirm.output, command).await
}

/// Carries out a plan. The action `confirm` is no plan without the field, and does not have it.
async fn carry_out(output: &OutputArguments, plan: FunctionRequest) -> Result<Code, Error> {
    let command = &FunctionRequest { confirm: plan.action != "confirm", ..plan };
    Ok(run_and_print::<Report>(output, command).await?.code())
}

/// Reads a word from the terminal. The action is approved if the word matches.
fn read_approval(action: &str, word: &str) -> Result<bool, Error> {
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
