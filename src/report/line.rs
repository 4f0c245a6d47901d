//! The lines of a cluster's report: what was done in each Cloud Map service, and what is held back.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Word;
use crate::model::{Foreign, ServiceRef, Verb};

/// What was done in one Cloud Map service.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceReport {
    /// The Cloud Map namespace's name.
    pub namespace: String,
    /// The Cloud Map service's name.
    pub name: String,
    /// Instances of ours that are as they should be.
    pub unchanged: usize,
    /// Instances of others, left alone.
    pub foreign: BTreeMap<Foreign, usize>,
    /// Whether the name has no instance of anybody any more, or would have none.
    pub emptied: bool,
    /// Why its instances are not known, where that leaves something undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// Every change.
    pub changes: Vec<ChangeLine>,
    /// What is held back.
    pub held_back: Vec<HeldBackLine>,
    /// What else is to be known, which neither fails nor holds anything back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<NoteLine>,
    /// The registrations that Cloud Map refuses as invalid: for the metrics.
    #[serde(skip)]
    pub refused: Vec<Refused>,
}

/// What is to be known of a Cloud Map service, in the report alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteLine {
    /// Its kind.
    pub note: NoteKind,
    /// The sentence.
    pub detail: String,
}

/// The kinds of notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoteKind {
    /// The Cloud Map service was not read, and that is no failure.
    #[serde(rename = "not read")]
    NotRead,
    /// A setting waits for other clusters.
    #[serde(rename = "waits")]
    Waits,
}

impl fmt::Display for NoteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NotRead => "not read",
            Self::Waits => "waits",
        })
    }
}

/// A registration that Cloud Map refuses as invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The Kubernetes Service.
    pub service: ServiceRef,
    /// The instance.
    pub instance: Option<String>,
}

/// One change.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeLine {
    /// What it does.
    pub change: Verb,
    /// The instance; none: the Cloud Map service itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The Kubernetes Service it is registered for.
    pub service: ServiceRef,
    /// Address and pod, what differs, or why it goes.
    pub detail: String,
    /// What became of it.
    #[serde(flatten)]
    pub result: ChangeResult,
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum ChangeResult {
    /// Not tried: a plan or a dry run.
    Planned,
    /// Done.
    Applied,
    /// Tried, and failed.
    Failed {
        /// The error with its cause.
        error: String,
    },
    /// Not tried.
    Undone {
        /// Why.
        why: String,
    },
}

/// Something held back.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldBackLine {
    /// The Kubernetes Service that asks.
    pub service: ServiceRef,
    /// The reason's stable name.
    pub reason: Word,
    /// What would help.
    pub detail: String,
    /// Whether a retry may help, so that the run is incomplete.
    pub failed: bool,
    /// Whether something stays out of Cloud Map until the Service's owner acts: what metrics count.
    #[serde(skip)]
    pub keeps_out: bool,
}
