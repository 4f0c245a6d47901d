//! Compares the exports of a name, property by property. An export is compared only in properties that it states, and
//! only if the property has an effect in the merged service.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Exports, differ, states_families};
use crate::model::Family;
use crate::model::clusterset::{ClusterId, ClustersetService, Export, ExportedPort, ImportType};

/// All conflicts of the exports, in the order of the API's constants.
pub(super) fn find(exports: &Exports<'_>, service: &ClustersetService) -> Vec<Conflict> {
    use ConflictReason as Is;
    // These properties say how a virtual IP leads to endpoints.
    let has_ip = exports.kind() == ImportType::ClusterSetIp;
    let routing = || exports.with_routing().filter(|_| has_ip);
    let timeouts =
        || routing().filter_map(|(export, it)| Some((export, it.session_affinity.timeout()?)));
    // Another affinity is a conflict of its own.
    let has_timeout =
        routing().next().is_some_and(|(_, it)| it.session_affinity.timeout().is_some());
    // DNS answers for a headless service with the addresses that there are.
    let families = exports.iter().filter(|it| has_ip && states_families(it));
    let lacks_one = |used: &&[Family], other: &&[Family]| used.iter().any(|it| !other.contains(it));
    let count = exports.count();
    let ports: Vec<String> = service.ports.iter().map(ExportedPort::to_string).collect();
    let conflicts = [
        Disagreement::find(exports.iter().map(|it| (it, it)), |first, other| {
            differ(service, first, other)
        })
        .map(|it| {
            let used = format!("\"{}\", with precedence to those", ports.join(", "));
            it.into_conflict(Is::Port, "ports", &used, count)
        }),
        Disagreement::find(exports.iter().map(|it| (it, it.kind.as_str())), PartialEq::ne)
            .map(|it| it.of_word(Is::Type, "type", count)),
        Disagreement::find(
            routing().map(|(by, it)| (by, it.session_affinity.as_str())),
            PartialEq::ne,
        )
        .map(|it| it.of_word(Is::SessionAffinity, "session affinity", count)),
        Disagreement::find(timeouts().filter(|_| has_timeout), PartialEq::ne).map(|it| {
            let used = format!("\"{}s\"", it.used);
            it.into_conflict(Is::SessionAffinityConfig, "session affinity timeout", &used, count)
        }),
        Disagreement::find(exports.with_record().map(|(by, it)| (by, &it.labels)), PartialEq::ne)
            .map(|it| it.of_texts(Is::Labels, "labels", count)),
        Disagreement::find(
            exports.with_record().map(|(by, it)| (by, &it.annotations)),
            PartialEq::ne,
        )
        .map(|it| it.of_texts(Is::Annotations, "annotations", count)),
        Disagreement::find(
            routing().map(|(by, it)| (by, it.internal_traffic_policy.as_str())),
            PartialEq::ne,
        )
        .map(|it| it.of_word(Is::InternalTrafficPolicy, "internal traffic policy", count)),
        Disagreement::find(
            routing().map(|(by, it)| (by, it.traffic_distribution.as_deref())),
            PartialEq::ne,
        )
        .map(|it| {
            let used = it.used.map_or_else(|| "none".to_owned(), quoted);
            it.into_conflict(Is::TrafficDistribution, "traffic distribution", &used, count)
        }),
        Disagreement::find(families.map(|it| (it, it.families.as_slice())), lacks_one).map(|it| {
            let used: Vec<&str> = it.used.iter().map(|family| family.as_str()).collect();
            it.into_conflict(Is::IpFamily, "IP families", &quoted(&used.join(", ")), count)
        }),
    ];
    conflicts.into_iter().flatten().collect()
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

// A property in which the exports of a name disagree, as the condition `Conflict` names it.

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
struct Disagreement<'a, T> {
    decided_by: &'a Export,
    used: T,
    others: Vec<(&'a Export, T)>,
}

impl<'a, T> Disagreement<'a, T> {
    /// Compares the values of the exports that state the property, in precedence. `None` if none differs from the
    /// first.
    fn find(
        values: impl IntoIterator<Item = (&'a Export, T)>,
        differs: impl Fn(&T, &T) -> bool,
    ) -> Option<Self> {
        let mut values = values.into_iter();
        let (decided_by, used) = values.next()?;
        let others: Vec<_> = values.filter(|(_, value)| differs(&used, value)).collect();
        (!others.is_empty()).then_some(Self { decided_by, used, others })
    }

    /// The conflict, with the sentences that KEP-1645 gives as an example.
    fn into_conflict(
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

impl Disagreement<'_, &str> {
    fn of_word(self, reason: ConflictReason, subject: &str, exporters: usize) -> Conflict {
        let used = quoted(self.used);
        self.into_conflict(reason, subject, &used, exporters)
    }
}

impl Disagreement<'_, &BTreeMap<String, String>> {
    /// Names the keys with another value than the one in use, or without one on one side, and no values: those of
    /// annotations can be long.
    fn of_texts(self, reason: ConflictReason, subject: &str, exporters: usize) -> Conflict {
        let mut keys = BTreeSet::new();
        for (_, other) in &self.others {
            let all = self.used.keys().chain(other.keys());
            keys.extend(all.filter(|key| self.used.get(*key) != other.get(*key)));
        }
        let keys: Vec<String> = keys.into_iter().map(|key| quoted(key)).collect();
        let subject = format!("{subject} {}", keys.join(", "));
        self.into_conflict(reason, &subject, "those", exporters)
    }
}
