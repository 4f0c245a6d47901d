//! What the function answers to a command: its report, or the counts of one that is too large; and what
//! exit code it makes, as `terraform plan -detailed-exitcode` has them.

use std::fmt;
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::Value;

use super::format;
use super::markdown::Page;
use crate::report::{Counts, Mode, Report};

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

/// An answer with the text that was read.
#[derive(Debug)]
pub struct Answer {
    value: Value,
    summary: Summary,
    content: Content,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Summary {
    mode: Mode,
    ok: bool,
    counts: Counts,
}

#[derive(Debug)]
enum Content {
    Whole(Box<Report>),
    Cut(Cut),
}

/// A report of which Lambda's limit leaves the counts.
#[derive(Debug, Deserialize)]
struct Cut {
    cut: String,
    clusters: Vec<CutCluster>,
}

#[derive(Debug, Deserialize)]
struct CutCluster {
    cluster: String,
    error: Option<String>,
    counts: Counts,
    services: Vec<CutService>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CutService {
    namespace: String,
    name: String,
    changes: usize,
    held_back: usize,
}

impl Answer {
    /// Reads what the function answered.
    pub fn read(value: Value) -> Result<Self, Error> {
        let summary = Summary::deserialize(&value).map_err(Error)?;
        let content = match value.get("cut") {
            Some(_) => Content::Cut(Cut::deserialize(&value).map_err(Error)?),
            None => Content::Whole(Box::new(Report::deserialize(&value).map_err(Error)?)),
        };
        Ok(Self { value, summary, content })
    }

    /// The report, where Lambda's limit has left it whole.
    pub fn report(&self) -> Option<&Report> {
        match &self.content {
            Content::Whole(report) => Some(report),
            Content::Cut(_) => None,
        }
    }

    /// Whether the guard holds something that a confirmation lets pass.
    pub fn is_held(&self) -> bool {
        let clusters = self.value["clusters"].as_array();
        let mut guards = clusters.into_iter().flatten().map(|cluster| &cluster["guard"]);
        let states = ["held", "held-by-full-sync", "held-until-read"];
        guards.any(|guard| states.iter().any(|state| guard["state"] == *state))
    }

    /// The exit code: a plan says whether there are changes, a sync whether they were made.
    pub fn code(&self) -> Code {
        let Summary { mode, ok, counts } = self.summary;
        match mode {
            _ if !ok => Code::Error,
            Mode::Plan | Mode::DryRun if counts.changes() > 0 => Code::Changes,
            Mode::Sync | Mode::Plan | Mode::DryRun => Code::InStep,
        }
    }
}

impl format::Shown for Answer {
    fn value(&self) -> &Value {
        &self.value
    }

    fn table(&self, wide: bool) -> String {
        match &self.content {
            Content::Whole(report) if wide => format!("{report:#}"),
            Content::Whole(report) => report.to_string(),
            Content::Cut(cut) => cut.to_string(),
        }
    }

    fn markdown(&self) -> String {
        match &self.content {
            Content::Whole(report) => Page(report).to_string(),
            Content::Cut(cut) => format!("```text\n{cut}```\n"),
        }
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for CutCluster { cluster, error, counts, services } in &self.clusters {
            writeln!(f, "cluster {cluster}")?;
            if let Some(error) = error {
                writeln!(f, "  ! not read, so nothing was changed: {error}")?;
            }
            for CutService { namespace, name, changes, held_back } in services {
                if changes + held_back > 0 {
                    writeln!(f, "  {namespace}/{name}  {changes} changes, {held_back} held back")?;
                }
            }
            writeln!(f, "  {counts}")?;
        }
        writeln!(f, "! {}", self.cut)
    }
}
