//! The verbs that need an approval: `adopt`, `purge` and `confirm`. Each prints its plan, reads a word from the
//! terminal, and carries the plan out if the word matches. Without a terminal only `--yes` approves.

use std::io::{self, BufRead, IsTerminal, Write};

use super::answer::{Answer, Code};
use super::arguments::{Adopt, Approved, Aws, Format, Purge, Targeted};
use super::command::Command;
use super::outside::{Output, escape};
use super::{Error, place, run_and_print};
use cloud_map_sync::report::Report;

pub async fn adopt(adopt: Adopt) -> Result<Code, Error> {
    let Targeted { place, aws, output } = adopt.targeted;
    let plan = Command { owner: adopt.owner, ..Command::new("adopt", place::resolve(&place)?) };
    let command = Command { confirm: true, ..plan.clone() };
    if adopt.approval.yes {
        return carry_out(&aws, &command, output.format).await;
    }
    let planned: Answer<Report> = run_and_print(&aws, &plan, output.format).await?;
    if planned.code() != Code::Changes || !read_approval("adopt these instances", "yes")? {
        return Ok(planned.code());
    }
    carry_out(&aws, &command, output.format).await
}

pub async fn purge(Purge { registry, approved: purge }: Purge) -> Result<Code, Error> {
    let place = place::resolve(&purge.whole.into())?;
    let plan = Command { registry, ..Command::new("purge", place) };
    let command = Command { confirm: true, ..plan.clone() };
    let (aws, format) = (purge.aws, purge.output.format);
    if purge.approval.yes {
        return carry_out(&aws, &command, format).await;
    }
    let planned: Answer<Report> = run_and_print(&aws, &plan, format).await?;
    let name = plan.place.cluster_name();
    if planned.code() != Code::Changes || !read_approval("deregister these instances", name)? {
        return Ok(planned.code());
    }
    carry_out(&aws, &command, format).await
}

/// Carries out the loss that the guard holds.
pub async fn confirm(confirm: Approved) -> Result<Code, Error> {
    let place = place::resolve(&confirm.whole.into())?;
    let command = Command::new("confirm", place.clone());
    let (aws, format) = (confirm.aws, confirm.output.format);
    if confirm.approval.yes {
        return carry_out(&aws, &command, format).await;
    }
    let planned: Answer<Report> = run_and_print(&aws, &Command::new("plan", place), format).await?;
    if !planned.is_held() {
        eprintln!("the guard holds no loss in this cluster, so there is nothing to confirm");
        return Ok(planned.code());
    }
    if !read_approval("sync this cluster and carry out the loss", "yes")? {
        // The plan does not count the held removals as changes, but a confirmation would make them.
        return Ok(if planned.code() == Code::Error { Code::Error } else { Code::Changes });
    }
    carry_out(&aws, &command, format).await
}

async fn carry_out(aws: &Aws, command: &Command, format: Format) -> Result<Code, Error> {
    let answer: Answer<Report> = run_and_print(aws, command, format).await?;
    Ok(answer.code())
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
    io::stdin().lock().read_line(&mut typed).map_err(Error::Terminal)?;
    if typed.trim() == word {
        return Ok(true);
    }
    eprintln!("nothing was changed");
    Ok(false)
}
