//! Whether the function can do its work.

use serde::Deserialize;
use serde_json::Value;

use super::answer::{self, Code};
use super::arguments;
use super::command::Command;
use super::{Error, ask, format, place};
use crate::report::checkup::Checkup;

/// What the function told.
struct Told {
    value: Value,
    checkup: Checkup,
}

/// Asks for it and shows it. The exit code says whether a check failed.
pub async fn show(arguments: arguments::Status) -> Result<Code, Error> {
    let arguments::Status { clusters, aws, output } = arguments;
    let place = place::of(&clusters.into())?;
    let value = ask(&aws, &Command::new("doctor", place)).await?;
    let checkup = Checkup::deserialize(&value).map_err(answer::Error)?;
    let told = Told { value, checkup };
    format::print(&told, output.format)?;
    Ok(Code::of_success(told.checkup.ok))
}

impl format::Shown for Told {
    fn value(&self) -> &Value {
        &self.value
    }

    fn table(&self, _: bool) -> String {
        self.checkup.to_string()
    }

    fn markdown(&self) -> String {
        format!("```text\n{}```\n", self.checkup)
    }
}
