//! Compares the exports of a name, property by property. An export is compared only in properties that it states, and
//! only if the property has an effect in the merged service.

use std::collections::{BTreeMap, BTreeSet};

use super::{Exports, differ, states_families};
use crate::model::{ClusterId, ClustersetService, Export, Family, ImportType, Properties, join};

/// A property in which the exports of a name disagree, as the condition `Conflict` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// A reason of the API (`pkg/apis/v1beta1/serviceexport.go` of `sigs.k8s.io/mcs-api`).
    pub reason: &'static str,
    /// The exporter whose value the merged service has.
    pub decided_by: ClusterId,
    /// The exporters with another value, in precedence.
    pub disagreeing: Vec<ClusterId>,
    /// One or more sentences for the condition of every exporter.
    pub message: String,
}

/// All conflicts of the exports, in the order of the API's constants.
pub(super) fn find(exports: &Exports<'_>, service: &ClustersetService) -> Vec<Conflict> {
    // These properties say how a virtual IP leads to endpoints.
    let has_ip = exports.kind == ImportType::ClusterSetIp;
    let routing = |word: fn(&Properties) -> Option<String>| {
        let stating = exports.with_routing().filter(move |_| has_ip);
        stating.map(move |(export, it)| (export, word(it)))
    };
    let timeout = |it: &Properties| Some(format!("{}s", it.session_affinity.timeout()?));
    // Another affinity is a conflict of its own.
    let has_timeout = routing(timeout).next().is_some_and(|(_, it)| it.is_some());
    let timeouts = routing(timeout).filter(|(_, it)| has_timeout && it.is_some());
    // DNS answers for a headless service with the addresses that there are.
    let families = exports.iter().filter(|it| has_ip && states_families(it));
    let families = families.map(|it| (it, it.families.as_slice()));
    let lacks_one = |used: &&[Family], other: &&[Family]| used.iter().any(|it| !other.contains(it));
    let differs = |first: &&Export, other: &&Export| differ(service, first, other);
    let conflicts = [
        exports.compare("PortConflict", exports.iter().map(|it| (it, it)), differs, |_, _| {
            let ports = join(&service.ports, ", ");
            format!("ports. Using \"{ports}\", with precedence to those")
        }),
        exports.compare_words(
            ("TypeConflict", "type"),
            exports.iter().map(|it| (it, Some(it.kind.as_str().to_owned()))),
        ),
        exports.compare_words(
            ("SessionAffinityConflict", "session affinity"),
            routing(|it| Some(it.session_affinity.as_str().to_owned())),
        ),
        exports
            .compare_words(("SessionAffinityConfigConflict", "session affinity timeout"), timeouts),
        exports.compare_texts(("LabelsConflict", "labels"), |it| &it.labels),
        exports.compare_texts(("AnnotationsConflict", "annotations"), |it| &it.annotations),
        exports.compare_words(
            ("InternalTrafficPolicyConflict", "internal traffic policy"),
            routing(|it| Some(it.internal_traffic_policy.as_str().to_owned())),
        ),
        exports.compare_words(
            ("TrafficDistributionConflict", "traffic distribution"),
            routing(|it| it.traffic_distribution.clone()),
        ),
        exports.compare("IPFamilyConflict", families, lacks_one, |used, _| {
            format!("IP families. Using \"{}\"", join(*used, ", "))
        }),
    ];
    conflicts.into_iter().flatten().collect()
}

impl<'a> Exports<'a> {
    /// Compares the values of the exports that state a property, in precedence. `None` if none differs from the first.
    /// The message is that of KEP-1645's example, with `words` about the property and the value in use.
    fn compare<T>(
        &self,
        reason: &'static str,
        values: impl IntoIterator<Item = (&'a Export, T)>,
        differs: impl Fn(&T, &T) -> bool,
        words: impl FnOnce(&T, &[(&'a Export, T)]) -> String,
    ) -> Option<Conflict> {
        let mut values = values.into_iter();
        let (first, used) = values.next()?;
        let others: Vec<_> = values.filter(|(_, value)| differs(&used, value)).collect();
        let decided_by = first.cluster.clone();
        let disagreeing: Vec<_> = others.iter().map(|(it, _)| it.cluster.clone()).collect();
        let message = format!(
            "Conflicting {} from oldest service export in \"{decided_by}\". {}/{} clusters disagree.",
            words(&used, &others),
            disagreeing.len(),
            self.ranked.len(),
        );
        (!disagreeing.is_empty()).then_some(Conflict { reason, decided_by, disagreeing, message })
    }

    fn compare_words(
        &self,
        (reason, subject): (&'static str, &str),
        values: impl IntoIterator<Item = (&'a Export, Option<String>)>,
    ) -> Option<Conflict> {
        self.compare(reason, values, PartialEq::ne, |used, _| {
            let used = used.as_ref().map_or_else(|| "none".to_owned(), |it| format!("\"{it}\""));
            format!("{subject}. Using {used}")
        })
    }

    /// Names the keys with another value than the one in use, or without one on one side, and no values: those of
    /// annotations can be long.
    fn compare_texts(
        &self,
        (reason, subject): (&'static str, &str),
        texts: fn(&Properties) -> &BTreeMap<String, String>,
    ) -> Option<Conflict> {
        let values = self.with_record().map(|(export, it)| (export, texts(it)));
        self.compare(reason, values, PartialEq::ne, |used, others| {
            let keys = others.iter().flat_map(|(_, other)| {
                let all = used.keys().chain(other.keys());
                all.filter(|key| used.get(*key) != other.get(*key))
            });
            let keys = keys.collect::<BTreeSet<_>>().into_iter().map(|key| format!("\"{key}\""));
            format!("{subject} {}. Using those", join(keys, ", "))
        })
    }
}
