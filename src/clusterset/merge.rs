//! Merges all exports of a name into the service that all members see, and finds the properties in which they disagree
//! (KEP-1645, "Constraints and Conflict Resolution").
//!
//! Each member computes the service for itself, so the result depends only on the exports, and not on their order, the
//! importing cluster or an earlier result.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    ClusterId, ClustersetService, EndpointPort, Export, ExportedPort, Family, ImportType,
    Properties, Protocol, ServiceRef, join,
};

/// The exports of a name, merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    pub service: ClustersetService,
    /// The conflicts, in the order of the API's constants. Each is a conflict of all exporters, not only of those that
    /// disagree.
    pub conflicts: Vec<Conflict>,
}

impl Merged {
    /// The joined reasons and messages of the conflicts, for a condition. `None` if there are no conflicts.
    pub fn disagreement(&self) -> Option<(String, String)> {
        let reasons = join(self.conflicts.iter().map(|conflict| conflict.reason), ",");
        let messages = join(self.conflicts.iter().map(|conflict| &conflict.message), " ");
        (!self.conflicts.is_empty()).then_some((reasons, messages))
    }
}

/// Merges all exports of a name, at most one of each cluster. Returns `None` if there are none.
pub fn merge(service: &ServiceRef, exports: &[Export]) -> Option<Merged> {
    let exports = Exports::rank(exports)?;
    let mut clusters: Vec<_> = exports.iter().map(|export| export.cluster.clone()).collect();
    clusters.sort_unstable();
    let service = ClustersetService {
        service: service.clone(),
        kind: exports.kind,
        ports: union_of_ports(&exports),
        families: families(&exports),
        properties: properties(&exports),
        clusters,
    };
    let conflicts = find_conflicts(&exports, &service);
    Some(Merged { service, conflicts })
}

/// Takes routing properties from the first export that states them, and labels and annotations from the first one with
/// a record. The default is that of the API.
fn properties(exports: &Exports<'_>) -> Properties {
    let routing =
        exports.with_routing().next().map(|(_, properties)| properties.clone()).unwrap_or_default();
    let metadata =
        exports.with_record().next().map(|(_, properties)| properties.clone()).unwrap_or_default();
    Properties { labels: metadata.labels, annotations: metadata.annotations, ..routing }
}

// The precedence of exports, and which exports state a property.

/// All exports of a name, at least one, in order of precedence: the oldest first; of equal age, the smaller cluster id
/// first.
struct Exports<'a> {
    /// The type of the first export, which is the type of the import.
    kind: ImportType,
    ranked: Vec<&'a Export>,
}

impl<'a> Exports<'a> {
    /// Sorts the exports by precedence. Returns `None` if there are none.
    fn rank(exports: &'a [Export]) -> Option<Self> {
        let mut ranked: Vec<&Export> = exports.iter().collect();
        ranked.sort_by_key(|&export| (export.created, &export.cluster));
        Some(Self { kind: ranked.first()?.kind, ranked })
    }

    fn iter(&self) -> impl Iterator<Item = &'a Export> {
        self.ranked.iter().copied()
    }

    /// The exports with a record. Only they state labels and annotations.
    fn with_record(&self) -> impl Iterator<Item = (&'a Export, &'a Properties)> {
        self.iter().filter_map(|export| Some((export, export.properties.as_ref()?)))
    }

    /// The exports that state session affinity, traffic policy and traffic distribution for this import. Exports of the
    /// other type do not count: a headless Service can have these properties, but they have no effect there.
    fn with_routing(&self) -> impl Iterator<Item = (&'a Export, &'a Properties)> {
        self.with_record().filter(|(export, _)| export.kind == self.kind)
    }
}

// The address families of an import.

/// Returns the families of a merged service, the primary one first. For `ClusterSetIP`, the first export that states
/// families decides the families of the virtual IPs. A headless service has no IP, and DNS answers with the endpoints
/// of all its exports, so it has the families of all.
fn families(exports: &Exports<'_>) -> Vec<Family> {
    let all = exports.iter().filter(|export| states_families(export));
    let deciding = match exports.kind {
        ImportType::ClusterSetIp => all.take(1).collect::<Vec<_>>(),
        ImportType::Headless => all.collect(),
    };
    let mut families = Vec::new();
    for family in deciding.into_iter().flat_map(|export| &export.families) {
        // A ServiceImport must not repeat a family.
        if !families.contains(family) {
            families.push(*family);
        }
    }
    families
}

/// Whether an export names its families. Without a record they are the families of its endpoints, and there may be
/// none.
fn states_families(export: &Export) -> bool {
    !export.families.is_empty()
}

// The ports of an import, and the exporters whose endpoints serve them.

/// Returns the union of the ports of all exports. A Service must not repeat a name (even the empty one) or a pair of
/// protocol and number, so a port that would is left out.
fn union_of_ports(exports: &Exports<'_>) -> Vec<ExportedPort> {
    let mut ports: Vec<ExportedPort> = Vec::new();
    for (rank, export) in exports.iter().enumerate() {
        for port in &export.ports {
            if !ports.iter().any(|present| present.name == port.name || key(present) == key(port)) {
                let app_protocol = app_protocol(exports.iter().skip(rank), key(port));
                ports.push(ExportedPort { app_protocol, ..port.clone() });
            }
        }
    }
    name_unnamed_port(&mut ports);
    ports
}

/// The protocol and number of a port, which identify it in a Service.
fn key(port: &ExportedPort) -> (Protocol, u16) {
    (port.protocol, port.number)
}

/// Finds the port of an export with the same protocol and number as `like`.
fn find<'a>(export: &'a Export, like: &ExportedPort) -> Option<&'a ExportedPort> {
    export.ports.iter().find(|port| key(port) == key(like))
}

/// Returns the application protocol of a port, from the first export that has the port and a record: only a record
/// states it.
fn app_protocol<'a>(
    exports: impl Iterator<Item = &'a Export>,
    key_of_port: (Protocol, u16),
) -> Option<String> {
    let mut ports =
        exports.filter(|export| export.properties.is_some()).flat_map(|export| &export.ports);
    ports.find(|port| key(port) == key_of_port)?.app_protocol.clone()
}

/// Names the unnamed port after its protocol and number if there are several ports, since a Service accepts an unnamed
/// port only as its single one. If an exporter uses that name for another port, a numeric suffix makes it unique.
fn name_unnamed_port(ports: &mut [ExportedPort]) {
    let unnamed = ports.iter().position(|port| port.name.is_empty());
    let Some(unnamed) = unnamed.filter(|_| ports.len() > 1) else { return };
    let (protocol, number) = key(&ports[unnamed]);
    let name = format!("{}-{number}", protocol.as_str().to_lowercase());
    let numbered = (2..).map(|suffix| format!("{name}-{suffix}"));
    let is_free = |name: &String| ports.iter().all(|port| port.name != *name);
    if let Some(free) = std::iter::once(name.clone()).chain(numbered).find(is_free) {
        ports[unnamed].name = free;
    }
}

/// Whether the ports of an export differ from the ports of the first export, in any order. Application protocols are
/// compared with the merged ones, and only if the export has a record, since only a record states them.
fn differ(service: &ClustersetService, first: &Export, other: &Export) -> bool {
    let has_other_protocol = |port: &ExportedPort| {
        let same = find(other, port).filter(|_| other.properties.is_some());
        same.is_some_and(|same| same.app_protocol != port.app_protocol)
    };
    identities(first) != identities(other) || service.ports.iter().any(has_other_protocol)
}

fn identities(export: &Export) -> BTreeSet<(&str, Protocol, u16)> {
    export.ports.iter().map(|port| (port.name.as_str(), port.protocol, port.number)).collect()
}

/// Returns the ports of the merged service that the endpoints of an exporter serve: the ports whose protocol and number
/// the exporter has, under any name. A match by name alone would lead clients to the wrong process.
pub fn served_ports<'a>(
    service: &'a ClustersetService,
    export: &Export,
) -> impl Iterator<Item = &'a ExportedPort> {
    service.ports.iter().filter(move |port| find(export, port).is_some())
}

/// Whether the merged service includes an endpoint of an exporter with one of its ports. DNS leads clients of a
/// headless service to every endpoint. An IP leads clients only to a port that both the exporter and the service have.
pub fn includes_endpoint(
    service: &ClustersetService,
    export: &Export,
    port: Option<&EndpointPort>,
) -> bool {
    let mut served = served_ports(service, export).map(key);
    service.kind == ImportType::Headless
        || match port {
            Some(port) => served.any(|key| key == (port.service_protocol, port.service_number)),
            None => served.next().is_none(),
        }
}

// The exporter that decides each property of the merged service, for people.

/// Lists the properties of a merged service, each with the exporter whose value it has. A property that no exporter
/// states has the API's default and is left out. For a headless service, IP families and routing are left out: the
/// families are those of all exporters, and routing has no effect.
pub fn decisions(service: &ClustersetService, exports: &[Export]) -> Vec<(String, ClusterId)> {
    let Some(exports) = Exports::rank(exports) else { return Vec::new() };
    let has_ip = exports.kind == ImportType::ClusterSetIp;
    let first = exports.iter().next();
    let families = exports.iter().find(|export| has_ip && states_families(export));
    let routing = exports.with_routing().map(|(export, _)| export).find(|_| has_ip);
    let metadata = exports.with_record().map(|(export, _)| export).next();
    let ports = service.ports.iter().map(|port| {
        let by = exports.iter().find(|export| find(export, port).is_some());
        (format!("port {port}"), by)
    });
    let words = [
        ("type", first),
        ("IP families", families),
        ("session affinity", routing),
        ("internal traffic policy", routing),
        ("traffic distribution", routing),
        ("labels", metadata),
        ("annotations", metadata),
    ];
    let mut all = Vec::from(words.map(|(property, by)| (property.to_owned(), by)));
    all.splice(1..1, ports);
    let decided =
        all.into_iter().filter_map(|(property, by)| Some((property, by?.cluster.clone())));
    decided.collect()
}

/// Lists the ports that only some exporters have, each with these exporters.
pub fn ports_of_some(
    service: &ClustersetService,
    exports: &[Export],
) -> Vec<(ExportedPort, Vec<ClusterId>)> {
    let Some(exports) = Exports::rank(exports) else { return Vec::new() };
    let ports = service.ports.iter().map(|port| {
        let with_port = exports.iter().filter(|export| find(export, port).is_some());
        (port.clone(), with_port.map(|export| export.cluster.clone()).collect::<Vec<_>>())
    });
    ports.filter(|(_, clusters)| clusters.len() < exports.ranked.len()).collect()
}

// Compares the exports of a name, property by property. An export is compared only in properties that it states, and
// only if the property has an effect in the merged service.

/// A property in which the exports of a name disagree, as the condition `Conflict` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// A reason of the API (`pkg/apis/v1beta1/serviceexport.go` of `sigs.k8s.io/mcs-api`).
    pub reason: &'static str,
    /// The exporter whose value the merged service has.
    pub decided_by: ClusterId,
    /// The exporters with another value, in order of precedence.
    pub disagreeing: Vec<ClusterId>,
    /// The sentences for the condition of every exporter.
    pub message: String,
}

/// Finds all conflicts of the exports, in the order of the API's constants.
fn find_conflicts(exports: &Exports<'_>, service: &ClustersetService) -> Vec<Conflict> {
    // The routing properties have an effect only for a virtual IP.
    let has_ip = exports.kind == ImportType::ClusterSetIp;
    let routing = |word: fn(&Properties) -> Option<String>| {
        let stating = exports.with_routing().filter(move |_| has_ip);
        stating.map(move |(export, properties)| (export, word(properties)))
    };
    let timeout =
        |properties: &Properties| Some(format!("{}s", properties.session_affinity.timeout()?));
    // An export with another affinity is a `SessionAffinityConflict`, not a conflict of timeouts.
    let has_timeout = routing(timeout).next().is_some_and(|(_, timeout)| timeout.is_some());
    let timeouts = routing(timeout).filter(|(_, timeout)| has_timeout && timeout.is_some());
    // A headless service has no family conflict: DNS answers with all addresses.
    let families = exports.iter().filter(|export| has_ip && states_families(export));
    let families = families.map(|export| (export, export.families.as_slice()));
    let lacks_one =
        |used: &&[Family], other: &&[Family]| used.iter().any(|family| !other.contains(family));
    let differs = |first: &&Export, other: &&Export| differ(service, first, other);
    let conflicts = [
        exports.compare(
            "PortConflict",
            exports.iter().map(|export| (export, export)),
            differs,
            |_, _| {
                let ports = join(&service.ports, ", ");
                format!("ports. Using \"{ports}\", with precedence to those")
            },
        ),
        exports.compare_words(
            ("TypeConflict", "type"),
            exports.iter().map(|export| (export, Some(export.kind.as_str().to_owned()))),
        ),
        exports.compare_words(
            ("SessionAffinityConflict", "session affinity"),
            routing(|properties| Some(properties.session_affinity.as_str().to_owned())),
        ),
        exports
            .compare_words(("SessionAffinityConfigConflict", "session affinity timeout"), timeouts),
        exports.compare_texts(("LabelsConflict", "labels"), |properties| &properties.labels),
        exports.compare_texts(("AnnotationsConflict", "annotations"), |properties| {
            &properties.annotations
        }),
        exports.compare_words(
            ("InternalTrafficPolicyConflict", "internal traffic policy"),
            routing(|properties| Some(properties.internal_traffic_policy.as_str().to_owned())),
        ),
        exports.compare_words(
            ("TrafficDistributionConflict", "traffic distribution"),
            routing(|properties| properties.traffic_distribution.clone()),
        ),
        exports.compare("IPFamilyConflict", families, lacks_one, |used, _| {
            format!("IP families. Using \"{}\"", join(*used, ", "))
        }),
    ];
    conflicts.into_iter().flatten().collect()
}

impl<'a> Exports<'a> {
    /// Compares the values of the exports that state a property, in order of precedence. Returns `None` if no value
    /// differs from the first. The message is that of KEP-1645's example; `words` describes the property and the value
    /// in use.
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
        let disagreeing: Vec<_> = others.iter().map(|(export, _)| export.cluster.clone()).collect();
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
            let used =
                used.as_ref().map_or_else(|| "none".to_owned(), |value| format!("\"{value}\""));
            format!("{subject}. Using {used}")
        })
    }

    /// Compares labels or annotations. The message names the keys that differ or are missing on one side. It contains
    /// no values, since annotations can be long.
    fn compare_texts(
        &self,
        (reason, subject): (&'static str, &str),
        texts: fn(&Properties) -> &BTreeMap<String, String>,
    ) -> Option<Conflict> {
        let values = self.with_record().map(|(export, properties)| (export, texts(properties)));
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
