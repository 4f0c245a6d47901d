//! The action `status`: the parties with instances in each Cloud Map service, and the members of each clusterset, in
//! every Cloud Map of the selected clusters. Reads only Cloud Map, so it works while a cluster is unreachable.
//!
//! Each registry is read once, and the instances are counted by party; `table` prints the counts.

mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::clients::RegistryKey;
use crate::clusterset::{members, record};
use crate::error::chain;
use crate::model::{
    Attributes, ClusterId, Foreign, Place, Registry, Tags, Timestamp, attributes, count_each,
    description,
};
use crate::publish::observe;
use crate::reconcile::Invocation;
use crate::time::age;

use table::cell;
pub use table::sum;

impl Invocation<'_> {
    /// Returns the status of these Cloud Maps. `clusters`: the ARNs of the selected clusters. `only_unused`: only the
    /// services that this installation created and that have no instance.
    pub async fn status(
        &self,
        clusters: Vec<String>,
        registries: &BTreeMap<RegistryKey, observe::SharedRegistry>,
        only_unused: bool,
    ) -> Status {
        let mut read = Vec::new();
        for (key, registry) in registries {
            let name = (*key != RegistryKey::default()).then(|| key.to_string());
            let reading = async {
                let read = registry.read().await?;
                Ok(if only_unused { self.unused(registry, read).await } else { read })
            };
            read.push(match self.read_in_time(reading).await {
                Ok(read) => RegistryStatus::new(name, &read, only_unused, self.now),
                Err(error) => RegistryStatus::unreadable(name, chain(&error)),
            });
        }
        let status = Status::new(&self.settings.owner_id, clusters, read);
        tracing::info!(ok = status.ok, "status {}", status.summary());
        status
    }

    /// Keeps only the services of a registry that this installation created and that have no instance. The owner tag
    /// decides. Reading tags takes one call per service, so the description, which the list contains, selects the
    /// services first. A service with unreadable tags stays, with the problem.
    async fn unused(&self, registry: &observe::SharedRegistry, mut read: Registry) -> Registry {
        let owner = &self.settings.owner_id;
        let description = description(owner);
        read.services.retain(|_, service| {
            service.description.as_ref() == Some(&description) && service.instance_total() == 0
        });
        let keys = read.services.keys().cloned().collect();
        registry.cloud_map.read_tags(&mut read, &keys).await;
        read.services.retain(|_, service| match &service.tags {
            Tags::Unreadable(problem) => {
                service.unreadable = Some(problem.clone());
                true
            }
            _ => service.is_tagged(owner),
        });
        read
    }
}

/// The number of instances of each party in each Cloud Map service.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Whether everything was read.
    pub ok: bool,
    /// `OWNER_ID` of this installation.
    pub owner: String,
    /// The ARNs of the selected clusters.
    pub clusters: Vec<String>,
    pub registries: Vec<RegistryStatus>,
    /// The total counts and a hint. `None` unless the answer was reduced because of Lambda's response limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

/// One account's Cloud Map in one Region.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistryStatus {
    /// The registry's name; `None` for the function's own Cloud Map.
    pub registry: Option<String>,
    /// The error of the read.
    pub error: Option<String>,
    /// The Cloud Map services. Those that contain the records of clustersets are among them only if the status lists
    /// unused services.
    pub services: Vec<ServiceStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clustersets: Vec<ClustersetStatus>,
}

/// One Cloud Map service.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus {
    /// The Cloud Map namespace's name.
    pub namespace: String,
    /// The service's name.
    pub name: String,
    /// `HTTP`, or the DNS record types.
    pub kind: String,
    /// The error of the read of its instances.
    pub unreadable: Option<String>,
    pub instances: Vec<Share>,
    /// The command that deletes the service, if the status lists only unused services of this installation.
    pub delete: Option<String>,
}

/// The instances of one party in a Cloud Map service.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    pub by: ShareOf,
    /// The cluster's ARN, or the cluster and service of ECS.
    pub name: Option<String>,
    /// The `OWNER_ID` in the marks.
    pub owner: Option<String>,
    pub count: usize,
}

/// The kinds of parties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShareOf {
    /// This function, or another installation of it, for the named cluster.
    Cluster,
    /// Amazon ECS.
    Ecs,
    /// An installation of this function with invalid marks.
    #[serde(rename = "other_cluster")]
    InvalidMarks,
    /// The AWS MCS controller for Kubernetes.
    McsController,
    /// The App Mesh controller for Kubernetes.
    AppMesh,
    /// An unknown party.
    Unknown,
}

/// The number of instances of each kind of party: the columns of the table, in the order of [`Status::parties`].
pub type Split = [usize; 5];

impl Status {
    /// The status of these registries.
    pub fn new(owner: &str, clusters: Vec<String>, registries: Vec<RegistryStatus>) -> Self {
        let is_read = |service: &ServiceStatus| service.unreadable.is_none();
        let is_complete = |registry: &RegistryStatus| {
            let mut members =
                registry.clustersets.iter().flat_map(|clusterset| &clusterset.members);
            registry.error.is_none()
                && registry.services.iter().all(is_read)
                && members.all(|member| !member.unread)
        };
        let ok = registries.iter().all(is_complete);
        Self { ok, owner: owner.to_owned(), clusters, registries, cut: None }
    }

    /// The names of the kinds of parties, the selected clusters first.
    pub fn parties(&self) -> [&'static str; 5] {
        let ours = if self.clusters.len() == 1 { "this cluster" } else { "these clusters" };
        [ours, "other clusters", "ECS", "other tools", "unknown"]
    }

    /// Returns the number of instances of a service in each column.
    pub fn split(&self, service: &ServiceStatus) -> Split {
        let mut split = Split::default();
        for share in &service.instances {
            split[self.column(share)] += share.count;
        }
        split
    }

    fn column(&self, share: &Share) -> usize {
        let is_ours = || {
            share.owner.as_ref() == Some(&self.owner)
                && share.name.as_ref().is_some_and(|name| self.clusters.contains(name))
        };
        match share.by {
            ShareOf::Cluster if is_ours() => 0,
            ShareOf::Cluster | ShareOf::InvalidMarks => 1,
            ShareOf::Ecs => 2,
            ShareOf::McsController | ShareOf::AppMesh => 3,
            ShareOf::Unknown => 4,
        }
    }
}

impl RegistryStatus {
    /// A registry that was read. `only_unused`: only the services that this installation created and that have no
    /// instance.
    pub fn new(
        name: Option<String>,
        registry: &Registry,
        only_unused: bool,
        now: Timestamp,
    ) -> Self {
        let services = places(registry, only_unused);
        let members = members::clustersets(registry).into_iter().filter(|_| !only_unused);
        let clustersets = members.map(|(clusterset, members)| ClustersetStatus {
            clusterset: clusterset.to_string(),
            members: members.iter().map(|(id, view)| MemberStatus::new(id, view, now)).collect(),
        });
        Self {
            registry: name,
            error: None,
            services: services
                .iter()
                .map(|place| ServiceStatus::new(place, registry, only_unused))
                .collect(),
            clustersets: clustersets.collect(),
        }
    }

    /// A registry that could not be read.
    pub fn unreadable(name: Option<String>, error: String) -> Self {
        Self { registry: name, error: Some(error), ..Self::default() }
    }
}

/// Lists the services by name, without those that contain the records of clustersets, unless these are empty ones
/// that the function created.
fn places(registry: &Registry, only_unused: bool) -> BTreeSet<Place> {
    let places = registry.services.keys().map(|key| Place::of(key, registry));
    places.filter(|place| only_unused || !record::is_namespace(&place.namespace)).collect()
}

impl ServiceStatus {
    fn new(place: &Place, registry: &Registry, only_unused: bool) -> Self {
        let instances = registry.instances(&place.key);
        let instances =
            count_each(instances.map(|(id, attributes)| party(id, attributes))).into_iter();
        let instances =
            instances.map(|((by, name, owner), count)| Share { by, name, owner, count }).collect();
        let service = &registry.services[&place.key];
        Self {
            namespace: place.namespace.clone(),
            name: place.name.clone(),
            kind: service.kind.to_string(),
            unreadable: service.unreadable.clone(),
            instances,
            delete: (only_unused && service.unreadable.is_none()).then(|| service.delete_command()),
        }
    }
}

/// The party that registered an instance, its name, and the `OWNER_ID` in the instance's marks, as far as known.
fn party(id: &str, instance: &Attributes) -> (ShareOf, Option<String>, Option<String>) {
    if let Some((owner, cluster)) = attributes::installation_and_cluster(instance) {
        return (ShareOf::Cluster, Some(cluster.to_owned()), Some(owner.to_owned()));
    }
    let by = match instance.likely_owner(id) {
        Foreign::Ecs => ShareOf::Ecs,
        Foreign::OtherCluster | Foreign::Export => ShareOf::InvalidMarks,
        Foreign::McsController => ShareOf::McsController,
        Foreign::AppMesh => ShareOf::AppMesh,
        Foreign::Unknown => ShareOf::Unknown,
    };
    let service = instance.get("ECS_SERVICE_NAME").filter(|_| by == ShareOf::Ecs);
    let name = service.map(|service| {
        let cluster = instance.get("ECS_CLUSTER_NAME").unwrap_or("default");
        format!("{cluster}/{service}")
    });
    (by, name, None)
}

impl Status {
    /// Replaces the services and members by the totals of services and of instances by party.
    pub fn keep_only_counts(&mut self) {
        let summary = self.summary();
        for registry in &mut self.registries {
            registry.services.clear();
            registry.clustersets.clear();
        }
        self.cut = Some(format!(
            "{summary}; the status is too large for a Lambda response, so it has only the counts: select a cluster"
        ));
    }
}

// The members of a clusterset: the program that runs each member, the age of its heartbeat, its exports and ready
// endpoints.

/// The maximum number of problems that are listed for one member.
const PROBLEMS: usize = 10;

/// One clusterset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClustersetStatus {
    /// Its id.
    pub clusterset: String,
    pub members: Vec<MemberStatus>,
}

/// One member of a clusterset.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberStatus {
    /// Its cluster id.
    pub member: String,
    pub run_by: RunBy,
    /// `OWNER_ID` of the installation that runs it; `None` for another program.
    pub owner: Option<String>,
    /// The cluster's ARN; `None` if no installation runs it.
    pub cluster: Option<String>,
    /// The time of its last full sync, accurate to some minutes; `None` without a usable cluster record, or if it only
    /// imports.
    pub heartbeat: Option<String>,
    /// The age of the heartbeat.
    pub age: Option<String>,
    pub exports: usize,
    pub ready_endpoints: usize,
    /// Whether a read of its records failed.
    pub unread: bool,
    /// The errors of the read, and the records that cannot be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// The program that registers the exports of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunBy {
    /// This function, or another installation of it.
    Installation,
    /// The AWS Cloud Map MCS Controller.
    McsController,
    /// No readable record or export shows the program.
    #[default]
    Unknown,
}

impl MemberStatus {
    fn new(id: &ClusterId, view: &members::MemberView, now: Timestamp) -> Self {
        let owner = view.owner();
        let run_by = match owner {
            Some(_) => RunBy::Installation,
            None if view.aws_names.is_empty() => RunBy::Unknown,
            None => RunBy::McsController,
        };
        Self {
            member: id.to_string(),
            run_by,
            owner: owner.map(|owner| owner.id.clone()),
            cluster: owner.map(|owner| owner.cluster.to_string()),
            heartbeat: view.heartbeat().map(|time| time.to_string()),
            age: view.heartbeat().map(|time| age(time, now)),
            exports: view.export_count(),
            ready_endpoints: view.ready_endpoints(),
            unread: view.records.unread.is_some(),
            problems: view.problems().take(PROBLEMS).collect(),
        }
    }

    /// The headings of the columns.
    pub const HEADINGS: [&'static str; 5] =
        ["MEMBER", "CONTROLLER", "HEARTBEAT", "EXPORTS", "READY ENDPOINTS"];

    /// The member's row under the headings.
    pub fn row(&self) -> [String; 5] {
        let run_by = match (self.run_by, &self.owner) {
            (RunBy::Installation, Some(owner)) => owner.clone(),
            (RunBy::McsController, _) => "AWS's controller".to_owned(),
            _ => "unknown".to_owned(),
        };
        let age = self.age.as_ref().map_or_else(|| "-".to_owned(), |age| format!("{age} ago"));
        [self.member.clone(), run_by, age, cell(self.exports), cell(self.ready_endpoints)]
    }
}

#[cfg(test)]
mod size {
    use super::*;
    use crate::report::cut_if_too_large;

    #[test]
    fn a_status_that_is_too_large_has_the_counts() {
        let share = Share { by: ShareOf::Ecs, name: None, owner: None, count: 2 };
        let service = |number| ServiceStatus {
            namespace: "shop.local".to_owned(),
            name: format!("service-{number:06}"),
            instances: vec![share.clone()],
            ..ServiceStatus::default()
        };
        let services = (0..100_000).map(service).collect();
        let registry = RegistryStatus { services, ..RegistryStatus::default() };
        let mut status = Status::new("cloud-map-sync", vec!["blue".to_owned()], vec![registry]);
        cut_if_too_large(&mut status, Status::keep_only_counts);
        assert!(status.registries[0].services.is_empty());
        insta::assert_snapshot!(status, @"100000 services: 200000 ECS; the status is too large for a Lambda response, so it has only the counts: select a cluster");
    }
}
