//! The actions other than a sync. Each reads the cluster or Cloud Map and returns an answer that is data with a text
//! form; `purge` also writes. A [`Check`] is one line of an answer. In `doctor` it is a test, with a fix if the test
//! failed. In `explain` it is a fact about a Service.

pub mod doctor;
pub mod explain;
pub mod purge;
pub mod status;

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::report::Word;

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The subject.
    pub name: Word,
    /// Its outcome.
    pub outcome: CheckOutcome,
    /// The finding.
    pub detail: String,
    /// The remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckOutcome {
    /// The check passed.
    Ok,
    /// Worth knowing, but not a fault: an optional check that did not pass, or a remark.
    Note,
    /// The check did not pass. In `doctor` the function cannot work; in `explain` clients may not find the Service in
    /// the way that its annotations or its ServiceExport ask for.
    Failed,
}

impl CheckOutcome {
    pub fn of(passed: bool) -> Self {
        if passed { Self::Ok } else { Self::Failed }
    }
}

impl Check {
    /// A check without a remedy.
    pub fn new(outcome: CheckOutcome, name: &'static str, detail: impl Into<String>) -> Self {
        Self { name: name.into(), outcome, detail: detail.into(), fix: None }
    }

    /// A check that passed.
    pub fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(CheckOutcome::Ok, name, detail)
    }

    /// An optional check that did not pass. The function works without it.
    pub fn note(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..Self::new(CheckOutcome::Note, name, detail) }
    }

    /// A required check that did not pass.
    pub fn failed(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..Self::new(CheckOutcome::Failed, name, detail) }
    }

    pub fn has_failed(&self) -> bool {
        self.outcome == CheckOutcome::Failed
    }
}

impl Display for Check {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (sign, label) = match self.outcome {
            CheckOutcome::Ok => ('=', "try"),
            CheckOutcome::Note => ('~', "try"),
            CheckOutcome::Failed => ('!', "fix"),
        };
        write!(f, "{sign} {:<10} {}", self.name, self.detail)?;
        self.fix.iter().try_for_each(|fix| write!(f, "\n    {label}: {fix}"))
    }
}
