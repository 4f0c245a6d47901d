//! The members of the clustersets in a registry, as Cloud Map shows them: the clusters with records of any
//! installation, and the clusters that AWS's controllers register for. Also the identity of a cluster: its cluster id
//! and clusterset id.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::attributes;
use super::id::CLUSTER_RECORD;
use super::record::{self, ClusterRecord, ExportRecord, Record, UnusableRecord};
use crate::model::{
    ClusterArn, ClusterId, ClustersetId, Owner, ReadExports, Registry, ServiceKey, ServiceRef,
    Timestamp,
};

/// The members of each clusterset.
pub type MemberViews = BTreeMap<ClustersetId, BTreeMap<ClusterId, MemberView>>;

/// The records of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberRecords {
    /// The installation and the cluster that own the cluster id, from the marks of the cluster record.
    pub id_owner: Option<Owner>,
    /// The cluster record, if it can be used.
    pub cluster: Option<ClusterRecord>,
    pub exports: BTreeMap<ServiceRef, ExportRecord>,
    pub unusable: Vec<UnusableRecord>,
    /// The problem if the records could not be read.
    pub unread: Option<String>,
}

impl MemberRecords {
    /// Adds the records in a Cloud Map service of the member.
    pub fn add(&mut self, registry: &Registry, key: &ServiceKey, cluster: &ClusterId) {
        let service = registry.services.get(key);
        self.unread = service.and_then(|service| service.unreadable.clone()).or(self.unread.take());
        for (id, attributes) in registry.instances(key) {
            match record::read(cluster, id, attributes) {
                Ok(Some(Record::Export(record))) => {
                    self.exports.insert(record.service.clone(), record);
                }
                Ok(Some(Record::Cluster(record))) => {
                    self.cluster = Some(record);
                }
                Ok(None) => {}
                Err(unusable) => self.unusable.push(*unusable),
            }
            if id == CLUSTER_RECORD {
                self.id_owner = Owner::of(attributes);
            }
        }
    }
}

/// Lists the owner of each cluster id, with the Cloud Map service of its records.
pub fn id_owners(registry: &Registry) -> impl Iterator<Item = (&ServiceKey, Owner)> {
    let keys = registry.services.keys();
    let keys = keys.filter(|key| record::is_of_records(&registry.namespaces, key));
    keys.filter_map(|key| Some((key, Owner::of(registry.instance(key, CLUSTER_RECORD)?)?)))
}

/// Whether a registry has the cluster record of a cluster under any id. The cluster's id may have changed.
pub fn has_record(registry: &Registry, cluster: &ClusterArn) -> bool {
    id_owners(registry).any(|(_, owner)| owner.cluster == *cluster)
}

/// The clusters of a clusterset that the function serves. If the function publishes the exports of a cluster, the
/// cluster itself is the only source of its exports: the function never reads them from Cloud Map.
#[derive(Debug, Default)]
pub struct Served {
    /// `OWNER_ID` of the function.
    pub owner_id: String,
    /// The clusters whose exports the function publishes, even if this run has not read them.
    pub exporters: BTreeSet<ClusterArn>,
    /// The exporters that did not answer. Only their records show their cluster ids.
    pub silent: BTreeSet<ClusterArn>,
    /// The clusters that take part in this run, by the cluster id that each states.
    pub members: BTreeMap<ClusterId, ClusterArn>,
    /// The exports that this run has read in the clusters, by the cluster id that each states.
    pub read: BTreeMap<ClusterId, ReadExports>,
    /// Whether the run ignores everything that was read before this invocation.
    pub bypasses_cache: bool,
    /// Whether a second pass of the run may read clusters that this pass has not read.
    pub may_read_more: bool,
}

impl Served {
    /// Whether the owner in the marks of an instance or a record is one of the exporters.
    pub fn is_exporting_owner(&self, owner: &Owner) -> bool {
        owner.id == self.owner_id && self.exporters.contains(&owner.cluster)
    }

    /// Whether this is the cluster id that an exporter states in this run.
    pub fn is_id_of_exporter(&self, id: &ClusterId) -> bool {
        self.members.get(id).is_some_and(|arn| self.exporters.contains(arn))
    }

    /// Whether the cluster that states this id takes part in this run.
    pub fn takes_part(&self, id: &str) -> bool {
        ClusterId::parse(id).is_some_and(|id| self.members.contains_key(&id))
    }
}

/// The part of Cloud Map that the imports of a clusterset depend on. The default is empty.
#[derive(Debug, Default)]
pub struct ReadClusterset {
    pub registry: Registry,
    /// Whether this invocation listed the services of the records, so that no member is missing.
    pub has_all_members: bool,
    /// The last known owner of each cluster id, from the records that the process has read or written.
    pub id_owners: BTreeMap<ClusterId, Owner>,
    /// The members whose cluster record this run has written, or would write. Lists may not show the records yet.
    pub written_or_planned: BTreeSet<ClusterId>,
    /// The reason if nothing could be read.
    pub problem: Option<String>,
}

/// A member as Cloud Map shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberView {
    pub records: MemberRecords,
    /// The names that it exports through instances of AWS's controller.
    pub aws_names: BTreeSet<ServiceRef>,
    /// The number of instances of AWS's controller.
    pub aws_instances: usize,
    /// The ready endpoints of its exports, as pairs of a name and an address.
    endpoints: BTreeSet<(ServiceRef, IpAddr)>,
}

impl MemberView {
    /// The installation and the cluster in its records. `None` if it has no record.
    pub fn owner(&self) -> Option<&Owner> {
        let mut exports = self.records.exports.values();
        self.records.id_owner.as_ref().or_else(|| exports.next().map(|record| &record.owner))
    }

    /// The heartbeat in its cluster record. `None` without a usable record, or if it only imports.
    pub fn heartbeat(&self) -> Option<Timestamp> {
        let record = self.records.cluster.as_ref();
        record.filter(|record| !record.only_imports).map(|record| record.heartbeat)
    }

    /// The names that it exports. A marked instance without an export record does not count.
    fn names(&self) -> BTreeSet<&ServiceRef> {
        self.records.exports.keys().chain(&self.aws_names).collect()
    }

    /// The number of names that it exports.
    pub fn export_count(&self) -> usize {
        self.names().len()
    }

    /// The number of ready endpoints of these names.
    pub fn ready_endpoints(&self) -> usize {
        let names = self.names();
        self.endpoints.iter().filter(|(name, _)| names.contains(name)).count()
    }

    /// The problems of its records: those that could not be read, and those that cannot be used.
    pub fn problems(&self) -> impl Iterator<Item = String> {
        let unusable = self.records.unusable.iter().map(ToString::to_string);
        self.records.unread.iter().cloned().chain(unusable)
    }
}

/// Lists all members of all clustersets in a registry.
pub fn clustersets(registry: &Registry) -> MemberViews {
    let mut all = MemberViews::new();
    for (key, service) in &registry.services {
        let Some(namespace) = registry.namespaces.get(&key.namespace) else { continue };
        if let Some(clusterset) = record::clusterset_of(&namespace.name) {
            let Some(cluster) = ClusterId::parse(&service.name) else { continue };
            // A purged member leaves an empty service.
            if service.unreadable.is_none() && registry.instances(key).next().is_none() {
                continue;
            }
            let member = all.entry(clusterset).or_default().entry(cluster.clone()).or_default();
            member.records.add(registry, key, &cluster);
        } else if !record::is_namespace(&namespace.name) {
            let name = ServiceRef::new(&namespace.name, &key.name);
            add_instances(&mut all, registry, key, &name);
        }
    }
    all
}

fn add_instances(all: &mut MemberViews, registry: &Registry, key: &ServiceKey, name: &ServiceRef) {
    for (_, attributes) in registry.instances(key) {
        let Some(clusterset) = attributes::clusterset_of(attributes) else { continue };
        let Ok(Some(instance)) = attributes::read(attributes, &clusterset) else { continue };
        let member = all.entry(clusterset).or_default().entry(instance.cluster).or_default();
        if !instance.is_marked {
            member.aws_names.insert(name.clone());
            member.aws_instances += 1;
        }
        if instance.endpoint.ready {
            member.endpoints.insert((name.clone(), instance.endpoint.address));
        }
    }
}

// The identity of a cluster in its clusterset, from its `ClusterProperty` objects (KEP-2149) or from the settings. It
// is never guessed from a name or an ARN.

/// The name of the `ClusterProperty` whose value is the cluster id.
pub const CLUSTER_PROPERTY: &str = "cluster.clusterset.k8s.io";
/// The name of the `ClusterProperty` whose value is the clusterset id.
pub const CLUSTERSET_PROPERTY: &str = "clusterset.k8s.io";

/// The reason why a cluster is not a member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMember {
    #[error(
        "the cluster has no {0}: create a ClusterProperty (about.k8s.io) named {0}, with the id as spec.value, or \
         set clusterId and clusterset of the cluster in CLUSTERS"
    )]
    NoIdentity(&'static str),
    #[error(
        "CLUSTERS says {setting:?}, and the ClusterProperty {property} says {value:?}: change one of them"
    )]
    IdentityDisagrees { property: &'static str, setting: String, value: String },
    #[error("the ClusterProperty {property} is {value:?}, and must be {form}")]
    Invalid { property: &'static str, value: String, form: &'static str },
}

impl NoMember {
    /// The stable code of the reason.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoIdentity(_) => "NoIdentity",
            Self::IdentityDisagrees { .. } => "IdentityDisagrees",
            Self::Invalid { .. } => "InvalidIdentity",
        }
    }
}

/// Returns the cluster id, from the settings or the `ClusterProperty`.
///
/// # Errors
/// Returns the reason if there is no valid id, or if the two sources differ.
pub fn cluster_id(
    setting: Option<&ClusterId>,
    property: Option<&str>,
) -> Result<ClusterId, NoMember> {
    let form = "one DNS label, or two with a dot, of at most 63 characters";
    one_id(setting, property, CLUSTER_PROPERTY, |text| ClusterId::parse(text).ok_or(form))
}

/// Returns the clusterset id, from the settings or the `ClusterProperty`.
///
/// # Errors
/// Returns an error in the same cases as [`cluster_id`].
pub fn clusterset_id(
    setting: Option<&ClustersetId>,
    property: Option<&str>,
) -> Result<ClustersetId, NoMember> {
    let form = "1 to 128 letters, digits, dots, underscores and hyphens";
    one_id(setting, property, CLUSTERSET_PROPERTY, |text| ClustersetId::parse(text).ok_or(form))
}

fn one_id<T: Clone + PartialEq + std::fmt::Display>(
    setting: Option<&T>,
    value: Option<&str>,
    property: &'static str,
    parse: impl Fn(&str) -> Result<T, &'static str>,
) -> Result<T, NoMember> {
    let stated = value.map(|value| {
        parse(value).map_err(|form| NoMember::Invalid { property, value: value.to_owned(), form })
    });
    match (setting, stated.transpose()?) {
        (Some(setting), Some(stated)) if *setting != stated => Err(NoMember::IdentityDisagrees {
            property,
            setting: setting.to_string(),
            value: stated.to_string(),
        }),
        (Some(id), _) => Ok(id.clone()),
        (None, Some(id)) => Ok(id),
        (None, None) => Err(NoMember::NoIdentity(property)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(setting: Option<&str>, property: Option<&str>) -> Result<String, &'static str> {
        let setting = setting.and_then(ClusterId::parse);
        let id = cluster_id(setting.as_ref(), property);
        id.map(|id| id.to_string()).map_err(|reason| reason.code())
    }

    #[test]
    fn a_member_has_one_valid_id() {
        let cases = [
            (None, Some("blue"), Ok("blue")),
            (Some("blue"), None, Ok("blue")),
            (Some("blue"), Some("blue"), Ok("blue")),
            (Some("blue"), Some("green"), Err("IdentityDisagrees")),
            (Some("blue"), Some("Green"), Err("InvalidIdentity")),
            (None, Some("a.b.c"), Err("InvalidIdentity")),
            (None, None, Err("NoIdentity")),
        ];
        for (setting, property, expected) in cases {
            let expected = expected.map(str::to_owned);
            assert_eq!(decide(setting, property), expected, "{setting:?} {property:?}");
        }
    }

    #[test]
    fn a_cluster_without_a_clusterset_is_no_member() {
        let none = clusterset_id(None, None);
        assert_eq!(none, Err(NoMember::NoIdentity(CLUSTERSET_PROPERTY)));
    }
}
