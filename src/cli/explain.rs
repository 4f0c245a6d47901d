//! One Service, explained.

use serde::Deserialize;
use serde_json::Value;

use super::answer::{self, Code};
use super::arguments::Targeted;
use super::command::Command;
use super::{Error, ask, format, place};
use crate::report::explanation::Explanation;

/// What the function told.
struct Told {
    value: Value,
    explanation: Explanation,
}

/// Asks for it and shows it. The exit code says whether the Service is found as it should be.
pub async fn show(targeted: Targeted) -> Result<Code, Error> {
    let Targeted { place, aws, output } = targeted;
    let place = place::of(&place)?;
    if place.service.is_none() {
        return Err(place::Error::NoService.into());
    }
    let value = ask(&aws, &Command::new("explain", place)).await?;
    let explanation = Explanation::deserialize(&value).map_err(answer::Error)?;
    let told = Told { value, explanation };
    format::print(&told, output.format)?;
    Ok(Code::of_success(told.explanation.ok))
}

impl format::Shown for Told {
    fn value(&self) -> &Value {
        &self.value
    }

    fn table(&self, _: bool) -> String {
        self.explanation.to_string()
    }

    fn markdown(&self) -> String {
        format!("```text\n{}```\n", self.explanation)
    }
}
