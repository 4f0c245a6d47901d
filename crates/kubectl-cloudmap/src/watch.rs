//! `--watch`: asks again and again, and prints each answer that differs from the one before, until the command is ended.

use std::time::Duration;

use tokio::time::sleep;

use super::answer::{Answer, Code};
use super::arguments::{Format, Run, Shown, Targeted};
use super::command::Command;
use super::{Error, format, narrow, place, request};
use cloud_map_sync::error::chain;
use cloud_map_sync::report::Report;

/// The time between an answer and the next question. Each reads all of Cloud Map, or the cluster.
const EVERY: Duration = Duration::from_secs(10);

/// Watches the changes that a sync would make.
pub async fn plan(run: Run) -> Result<Code, Error> {
    let Targeted { place, aws, output } = run.targeted;
    let command = Command::new("plan", place::resolve(&place)?);
    watch(output.format, async || {
        let answer: Answer<Report> = Answer::read(request(&aws, &command).await?)?;
        Ok(format::text(&answer, output.format)?)
    })
    .await
}

/// Watches the owners of instances.
pub async fn status(shown: Shown) -> Result<Code, Error> {
    let format = shown.status.output.format;
    watch(format, async || Ok(format::text(&narrow::read(&shown).await?, format)?)).await
}

/// The first question must be answered; a later error is printed, and the next answer may be there again.
async fn watch(
    format: Format,
    ask: impl AsyncFn() -> Result<String, Error>,
) -> Result<Code, Error> {
    let mut shown = ask().await?;
    let mut is_read = format::write_if_open(&shown)?;
    while is_read {
        sleep(EVERY).await;
        match ask().await {
            Ok(text) if text == shown => {}
            Ok(text) => {
                is_read = format::write_if_open(&format!("{}{text}", between(format)))?;
                shown = text;
            }
            Err(error) => format::complain(&format!("error: {}", chain(&error))),
        }
    }
    Ok(Code::InStep)
}

/// What separates two answers.
fn between(format: Format) -> &'static str {
    match format {
        Format::Table | Format::Wide | Format::Md | Format::Name => "\n",
        Format::Yaml => "---\n",
        Format::Json => "",
    }
}
