//! The lines of a cluster's report: the changes in each Cloud Map service, the held-back requests and the notes.
//! `publish` fills them from the plan and its outcomes; tables, metrics and the log read them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Word;
use crate::model::{Foreign, ServiceRef, Verb};

/// The changes in one Cloud Map service.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceReport {
    /// The Cloud Map namespace's name.
    pub namespace: String,
    /// The Cloud Map service's name.
    pub name: String,
    /// Our instances without drift.
    pub unchanged: usize,
    /// Instances of other owners, left alone.
    pub foreign: BTreeMap<Foreign, usize>,
    /// Whether the name lost its last instance, or would lose it.
    pub emptied: bool,
    /// The error that keeps its instances unknown, if that leaves a change undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// The changes.
    pub changes: Vec<ChangeLine>,
    /// The held-back requests.
    pub held_back: Vec<HeldBackLine>,
    /// Remarks that neither fail nor hold back a change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<NoteLine>,
    /// The registrations that Cloud Map rejects as invalid, for the metrics.
    #[serde(skip)]
    pub refused: Vec<Refused>,
}

/// A remark about a Cloud Map service. It appears only in the report.
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
    /// The Cloud Map service was not read, which is no failure.
    #[serde(rename = "not read")]
    NotRead,
    /// A setting of the service waits for other clusters.
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

/// A registration that Cloud Map rejects as invalid.
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
    /// The kind of change.
    pub change: Verb,
    /// The instance; absent if the change is to the Cloud Map service itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The Kubernetes Service of the instance.
    pub service: ServiceRef,
    /// Address and pod, the difference, or the reason to deregister.
    pub detail: String,
    /// The outcome.
    #[serde(flatten)]
    pub result: ChangeResult,
}

/// The outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum ChangeResult {
    /// Not attempted: a plan or a dry run.
    Planned,
    /// Made.
    Applied,
    /// Attempted, and failed.
    Failed {
        /// The error with its cause.
        error: String,
    },
    /// Not attempted.
    Undone {
        /// The reason.
        why: String,
    },
}

/// A held-back request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldBackLine {
    /// The Kubernetes Service that requests it.
    pub service: ServiceRef,
    /// The reason's stable code.
    pub reason: Word,
    /// The cause and its remedy.
    pub detail: String,
    /// Whether a retry may help; the run is incomplete then.
    pub failed: bool,
    /// Whether a request stays out of Cloud Map until the Service's owner acts, for the metrics.
    #[serde(skip)]
    pub keeps_out: bool,
}
