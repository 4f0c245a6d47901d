//! A property in which the exports of a name disagree, as the condition `Conflict` names it.

use std::fmt;

use crate::model::clusterset::{ClusterId, Export};

/// A property that differs between exporters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub reason: ConflictReason,
    /// The exporter whose value the merged service has.
    pub decided_by: ClusterId,
    /// The exporters with another value, in precedence.
    pub disagreeing: Vec<ClusterId>,
    /// One or more sentences for the condition of every exporter.
    pub message: String,
}

/// A reason of the condition `Conflict`, in the order of the API's constants (`pkg/apis/v1beta1/serviceexport.go` of
/// `sigs.k8s.io/mcs-api`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConflictReason {
    Port,
    Type,
    SessionAffinity,
    SessionAffinityConfig,
    Labels,
    Annotations,
    InternalTrafficPolicy,
    TrafficDistribution,
    IpFamily,
}

impl ConflictReason {
    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Port => "PortConflict",
            Self::Type => "TypeConflict",
            Self::SessionAffinity => "SessionAffinityConflict",
            Self::SessionAffinityConfig => "SessionAffinityConfigConflict",
            Self::Labels => "LabelsConflict",
            Self::Annotations => "AnnotationsConflict",
            Self::InternalTrafficPolicy => "InternalTrafficPolicyConflict",
            Self::TrafficDistribution => "TrafficDistributionConflict",
            Self::IpFamily => "IPFamilyConflict",
        }
    }
}

impl fmt::Display for ConflictReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The values of one property that differ: the one in use, and those of the exporters that disagree.
pub(super) struct Disagreement<'a, T> {
    decided_by: &'a Export,
    pub(super) used: T,
    pub(super) others: Vec<(&'a Export, T)>,
}

impl<'a, T> Disagreement<'a, T> {
    /// Compares the values of the exports that state the property, in precedence. `None` if none differs from the
    /// first.
    pub(super) fn find(
        values: impl IntoIterator<Item = (&'a Export, T)>,
        differs: impl Fn(&T, &T) -> bool,
    ) -> Option<Self> {
        let mut values = values.into_iter();
        let (decided_by, used) = values.next()?;
        let others: Vec<_> = values.filter(|(_, value)| differs(&used, value)).collect();
        (!others.is_empty()).then_some(Self { decided_by, used, others })
    }

    /// The conflict, with the sentences that KEP-1645 gives as an example.
    pub(super) fn into_conflict(
        self,
        reason: ConflictReason,
        subject: &str,
        used: &str,
        exporters: usize,
    ) -> Conflict {
        let decided_by = self.decided_by.cluster.clone();
        let disagreeing: Vec<_> = self.others.iter().map(|(it, _)| it.cluster.clone()).collect();
        let message = format!(
            "Conflicting {subject}. Using {used} from oldest service export in \"{decided_by}\". \
             {}/{exporters} clusters disagree.",
            disagreeing.len(),
        );
        Conflict { reason, decided_by, disagreeing, message }
    }
}
