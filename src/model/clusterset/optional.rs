//! The fields of Kubernetes objects without which an import serves its clients, too.

/// A field that is left out if an API server refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OptionalField {
    SessionAffinity,
    SessionAffinityConfig,
    InternalTrafficPolicy,
    TrafficDistribution,
    AppProtocol,
    Hints,
    Labels,
    Annotations,
}

/// A field with a value that an API server does not take in objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RefusedField {
    /// The kind, as `Service`.
    pub kind: &'static str,
    pub field: OptionalField,
    /// The value. Of hints, labels and annotations, which each import has its own of, the import.
    pub value: String,
}

impl OptionalField {
    /// The name of the field in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionAffinity => "sessionAffinity",
            Self::SessionAffinityConfig => "sessionAffinityConfig",
            Self::InternalTrafficPolicy => "internalTrafficPolicy",
            Self::TrafficDistribution => "trafficDistribution",
            Self::AppProtocol => "appProtocol",
            Self::Hints => "hints",
            Self::Labels => "labels",
            Self::Annotations => "annotations",
        }
    }
}
