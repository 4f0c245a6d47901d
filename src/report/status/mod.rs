//! Who has instances in each Cloud Map service, as one value: the JSON answer of the action `status`, and
//! the table that a person reads (`table`). Pure.

mod table;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::Word;
use crate::model::Registry;
use crate::plan::{Foreign, Parties, Party, parties};

/// Who has instances where.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Whether all of it could be read.
    pub ok: bool,
    /// `OWNER_ID` of this installation.
    pub owner: String,
    /// The clusters that were asked about, by ARN.
    pub clusters: Vec<String>,
    /// By Cloud Map.
    pub registries: Vec<RegistryStatus>,
    /// What is left out, where Lambda's limit does not let all of it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

/// One account's Cloud Map in one Region.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistryStatus {
    /// Which, where it is not the function's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    /// Why it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its services.
    pub services: Vec<ServiceStatus>,
}

/// One Cloud Map service.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus {
    /// The Cloud Map namespace's name.
    pub namespace: String,
    /// The service's name.
    pub name: String,
    /// `HTTP`, or its record types.
    pub kind: String,
    /// Why its instances are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// Who has instances in it.
    pub instances: Vec<Share>,
}

/// The instances of one party.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// `cluster`, `ecs`, or as in a report `other_cluster`, `mcs_controller`, `app_mesh`, `unknown`.
    pub by: Word,
    /// The cluster's ARN, or cluster and service of ECS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The `OWNER_ID` in the marks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// How many.
    pub count: usize,
}

/// Instances by who is asked about: the columns of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Of the clusters that were asked about.
    pub ours: usize,
    /// Of other clusters and installations.
    pub other_clusters: usize,
    /// Of ECS.
    pub ecs: usize,
    /// Of other tools that are known.
    pub other_tools: usize,
    /// Of nobody known.
    pub unknown: usize,
}

impl Status {
    /// The status of these registries.
    pub fn new(owner: &str, clusters: Vec<String>, registries: Vec<RegistryStatus>) -> Self {
        let read = |it: &ServiceStatus| it.unreadable.is_none();
        let whole = |it: &RegistryStatus| it.error.is_none() && it.services.iter().all(read);
        let ok = registries.iter().all(whole);
        Self { ok, owner: owner.to_owned(), clusters, registries, cut: None }
    }

    /// A service's instances by column.
    pub fn split(&self, service: &ServiceStatus) -> Split {
        let mut split = Split::default();
        for share in &service.instances {
            *self.column(share, &mut split) += share.count;
        }
        split
    }

    fn column<'a>(&self, share: &Share, split: &'a mut Split) -> &'a mut usize {
        let is_ours = || {
            share.owner.as_ref() == Some(&self.owner)
                && share.name.as_ref().is_some_and(|name| self.clusters.contains(name))
        };
        match &*share.by {
            "cluster" if is_ours() => &mut split.ours,
            "cluster" | "other_cluster" => &mut split.other_clusters,
            "ecs" => &mut split.ecs,
            "unknown" => &mut split.unknown,
            _ => &mut split.other_tools,
        }
    }
}

impl RegistryStatus {
    /// A registry that was read.
    pub fn of(name: Option<String>, registry: &Registry) -> Self {
        let services = parties(registry).into_iter().map(ServiceStatus::from).collect();
        Self { registry: name, error: None, services }
    }

    /// A registry that could not be read.
    pub fn unreadable(name: Option<String>, error: String) -> Self {
        Self { registry: name, error: Some(error), services: Vec::new() }
    }
}

impl From<Parties<'_>> for ServiceStatus {
    fn from(parties: Parties<'_>) -> Self {
        Self {
            namespace: parties.place.namespace,
            name: parties.place.name,
            kind: parties.service.kind.to_string(),
            unreadable: parties.service.unreadable.clone(),
            instances: parties.instances.into_iter().map(Share::from).collect(),
        }
    }
}

impl From<(Party, usize)> for Share {
    fn from((party, count): (Party, usize)) -> Self {
        let (by, name, owner) = match party {
            Party::Cluster { cluster, owner } => ("cluster", Some(cluster), Some(owner)),
            Party::Ecs { service } => ("ecs", service, None),
            Party::Other(Foreign::Ecs) => ("ecs", None, None),
            Party::Other(Foreign::OtherCluster) => ("other_cluster", None, None),
            Party::Other(Foreign::McsController) => ("mcs_controller", None, None),
            Party::Other(Foreign::AppMesh) => ("app_mesh", None, None),
            Party::Other(Foreign::Unknown) => ("unknown", None, None),
        };
        Self { by: by.into(), name, owner, count }
    }
}
