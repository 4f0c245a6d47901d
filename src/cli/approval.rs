//! Verbs that a person approves: the plan is shown first, and on a terminal a word is asked for. Without
//! a terminal only `--yes` does it.

use std::io::{self, BufRead, IsTerminal, Write};

use super::answer::{Answer, Code};
use super::arguments::{Adopt, Approved, Aws, Format, Purge, Targeted};
use super::command::Command;
use super::{Error, format, place, shown};
use crate::report::Report;

/// Makes instances of others the function's.
pub async fn adopt(adopt: Adopt) -> Result<Code, Error> {
    let Targeted { place, aws, output } = adopt.targeted;
    let plan = Command { owner: adopt.owner, ..Command::new("adopt", place::of(&place)?) };
    let command = Command { confirm: true, ..plan.clone() };
    if adopt.approval.yes {
        return carry_out(&aws, &command, output.format).await;
    }
    let planned: Answer<Report> = shown(&aws, &plan, output.format).await?;
    if planned.code() != Code::Changes || !approved("make these instances its own", "yes")? {
        return Ok(planned.code());
    }
    carry_out(&aws, &command, output.format).await
}

/// Takes out all of a cluster.
pub async fn purge(Purge { registry, approved: purge }: Purge) -> Result<Code, Error> {
    let place = place::of(&purge.whole.into())?;
    let plan = Command { registry, ..Command::new("purge", place) };
    let command = Command { confirm: true, ..plan.clone() };
    let (aws, format) = (purge.aws, purge.output.format);
    if purge.approval.yes {
        return carry_out(&aws, &command, format).await;
    }
    let planned: Answer<Report> = shown(&aws, &plan, format).await?;
    let name = plan.place.cluster_name();
    if planned.code() != Code::Changes || !approved("take all of this out", name)? {
        return Ok(planned.code());
    }
    carry_out(&aws, &command, format).await
}

/// Lets pass what the guard holds.
pub async fn confirm(confirm: Approved) -> Result<Code, Error> {
    let place = place::of(&confirm.whole.into())?;
    let command = Command::new("confirm", place.clone());
    let (aws, format) = (confirm.aws, confirm.output.format);
    if confirm.approval.yes {
        return carry_out(&aws, &command, format).await;
    }
    let planned: Answer<Report> = shown(&aws, &Command::new("plan", place), format).await?;
    if !planned.is_held() {
        eprintln!("the guard holds nothing here, so there is nothing to confirm");
        return Ok(planned.code());
    }
    if !approved("sync this cluster, and let the loss pass", "yes")? {
        // What is held is no change of the plan, and yet there is something to do.
        return Ok(if planned.code() == Code::Error { Code::Error } else { Code::Changes });
    }
    carry_out(&aws, &command, format).await
}

async fn carry_out(aws: &Aws, command: &Command, format: Format) -> Result<Code, Error> {
    let answer: Answer<Report> = shown(aws, command, format).await?;
    Ok(answer.code())
}

/// Asks for a word on the terminal. Where there is none, or another word comes, nothing is done.
fn approved(what: &str, word: &str) -> Result<bool, Error> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        eprintln!("nothing was changed; --yes does it");
        return Ok(false);
    }
    let word = format::printable(word);
    eprint!("Shall the function {what}? Type {word:?} to let it: ");
    let _ = io::stderr().flush();
    let mut typed = String::new();
    io::stdin().lock().read_line(&mut typed).map_err(Error::Terminal)?;
    if typed.trim() == word {
        return Ok(true);
    }
    eprintln!("nothing was changed");
    Ok(false)
}
