//! The answers of the function to a command, and the exit codes that they make, as `terraform plan -detailed-exitcode`
//! has them.

use std::process::ExitCode;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::format;
use super::markdown::Page;
use crate::actions::doctor::Checkup;
use crate::actions::explain::Explanation;
use crate::model::GuardState;
use crate::report::{Mode, Report};

/// What a script learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Nothing is to be done.
    InStep,
    /// Something went wrong.
    Error,
    /// There are changes to make.
    Changes,
}

impl Code {
    /// Whether something that makes no plan went well.
    pub fn of_success(success: bool) -> Self {
        if success { Self::InStep } else { Self::Error }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(match code {
            Code::InStep => 0,
            Code::Error => 1,
            Code::Changes => 2,
        })
    }
}

/// Why an answer cannot be shown.
#[derive(Debug, thiserror::Error)]
#[error(
    "the answer is not one that this release understands; is the function of another? -o json shows it"
)]
pub struct Error(#[source] pub serde_json::Error);

/// An answer of the function: as it was written, and as this release reads it.
#[derive(Debug)]
pub struct Answer<T> {
    value: Value,
    /// What it says.
    pub read: T,
}

impl<T: DeserializeOwned> Answer<T> {
    /// Reads an answer.
    pub fn read(value: Value) -> Result<Self, Error> {
        let read = T::deserialize(&value).map_err(Error)?;
        Ok(Self { value, read })
    }
}

impl Answer<Report> {
    /// Whether the guard holds a loss that a confirmation lets pass.
    pub fn is_held(&self) -> bool {
        use GuardState::{Held, HeldByFullSync, HeldUntilRead};
        let mut guards = self.read.clusters.iter().filter_map(|cluster| cluster.guard.as_ref());
        guards.any(|guard| matches!(guard.state, Held | HeldByFullSync | HeldUntilRead))
    }

    /// The exit code: a plan reports whether there are changes, a sync whether they were made.
    pub fn code(&self) -> Code {
        let Report { mode, ok, counts, .. } = self.read;
        match mode {
            _ if !ok => Code::Error,
            Mode::Plan | Mode::DryRun if counts.changes() > 0 => Code::Changes,
            Mode::Sync | Mode::Plan | Mode::DryRun => Code::InStep,
        }
    }
}

/// The forms in which a person reads an answer.
pub trait Shown {
    /// A table; `wide` has more columns.
    fn table(&self, wide: bool) -> String;
    /// Markdown for a page.
    fn markdown(&self) -> String;
}

impl<T: Shown> format::Shown for Answer<T> {
    fn value(&self) -> &Value {
        &self.value
    }

    fn table(&self, wide: bool) -> String {
        self.read.table(wide)
    }

    fn markdown(&self) -> String {
        self.read.markdown()
    }
}

impl Shown for Report {
    fn table(&self, wide: bool) -> String {
        if wide { format!("{self:#}") } else { self.to_string() }
    }

    fn markdown(&self) -> String {
        Page(self).to_string()
    }
}

impl Shown for Explanation {
    fn table(&self, _: bool) -> String {
        self.to_string()
    }

    fn markdown(&self) -> String {
        format!("```text\n{self}```\n")
    }
}

impl Shown for Checkup {
    fn table(&self, _: bool) -> String {
        self.to_string()
    }

    fn markdown(&self) -> String {
        format!("```text\n{self}```\n")
    }
}
