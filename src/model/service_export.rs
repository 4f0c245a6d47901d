//! A `ServiceExport` as the API server has it, with the reason why its Service cannot be exported, if there is one.

use std::collections::BTreeMap;

use super::{Condition, Timestamp};

/// A `ServiceExport`. It exports the Service of its own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceExport {
    pub uid: String,
    /// `metadata.creationTimestamp`: the oldest export of a clusterset decides in a conflict.
    pub created: Timestamp,
    pub generation: i64,
    /// `spec.exportedLabels`.
    pub labels: BTreeMap<String, String>,
    /// `spec.exportedAnnotations`.
    pub annotations: BTreeMap<String, String>,
    /// All conditions of its status, also those of other controllers.
    pub conditions: Vec<Condition>,
    /// `None` if its Service can be exported.
    pub obstacle: Option<NotExportable>,
}

/// The reason why a Service cannot be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotExportable {
    #[error("There is no Service of this name.")]
    NoService,
    #[error("A Service of type ExternalName has no endpoints to export.")]
    ExternalName,
    #[error("The Service is part of an import and cannot be exported again.")]
    Derived,
}
