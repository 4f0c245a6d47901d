//! A service is deleted if it has our tag, no Service of any cluster claims its name, and it has no instances; with a single
//! claim, if it is a [`misfit`]. The claims of all clusters are joined in [`Claimed`]; if anything is uncertain, the service
//! stays.

use std::collections::{BTreeMap, BTreeSet};

use super::change::Change;
use super::observation::Observation;
use super::result::Plan;
use crate::model::{CloudMapService, InstanceKey, Registry, ServiceKey, ServiceRef, Tags};

/// The claims of clusters to Cloud Map services, and the instances that a plan removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    keys: BTreeSet<ServiceKey>,
    /// Those of one claimant each, which the service does not fit.
    misfits: BTreeSet<ServiceKey>,
    /// Names, in lower case, that are claimed in a namespace that was not found.
    names: BTreeSet<String>,
    /// Services with invalid annotations, so that their claims are unknown.
    unclear: BTreeSet<String>,
    leaving: Leaving,
}

/// Instances that a plan removes, or that were removed.
pub type Leaving = BTreeSet<InstanceKey>;

impl Claimed {
    /// The claims of one cluster, and the instances that a sync of all of it has removed, or a plan would remove.
    pub fn of(observation: &Observation, leaving: Leaving) -> Self {
        let mut claimed = Self { leaving, ..Self::default() };
        let mut claimants: BTreeMap<ServiceKey, Vec<&ServiceRef>> = BTreeMap::new();
        for (service, annotated) in &observation.desired.services {
            let Ok(claims) = &annotated.claims else {
                let cluster = observation.owner.cluster.name();
                claimed.unclear.insert(format!("{service} of cluster {cluster}"));
                continue;
            };
            for name in &claims.names {
                match observation.key(service, &claims.namespace, name) {
                    Ok(key) => claimants.entry(key).or_default().push(service),
                    Err(_) => _ = claimed.names.insert(name.as_str().to_ascii_lowercase()),
                }
            }
        }
        for (key, all) in claimants {
            let misfit = matches!(all[..], [only] if observation.misfit(&key, only).is_some());
            let keys = if misfit { &mut claimed.misfits } else { &mut claimed.keys };
            keys.insert(key);
        }
        claimed
    }

    /// The claims of this cluster and of others.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.keys.extend(self.misfits.intersection(&other.misfits).cloned());
        self.keys.extend(other.keys);
        self.misfits.extend(other.misfits);
        self.names.extend(other.names);
        self.unclear.extend(other.unclear);
        self.leaving.extend(other.leaving);
        self
    }

    /// The Services with invalid annotations, which may claim any name. While there is one, no service is deleted.
    pub fn unclear(&self) -> Vec<&str> {
        self.unclear.iter().map(String::as_str).collect()
    }

    fn may_be_claimed(&self, key: &ServiceKey) -> bool {
        self.keys.contains(key) || self.names.contains(&key.name.to_ascii_lowercase())
    }

    /// Whether none of the instances that were read in a service stays.
    fn leaves(&self, key: &ServiceKey, service: &CloudMapService) -> bool {
        let mut instances = service.instances.iter().flatten();
        instances.all(|(id, _)| self.leaving.contains(&InstanceKey::new(key, id)))
    }
}

impl Plan {
    /// The instances that the plan removes, including those that have to wait.
    pub fn leaving(&self) -> Leaving {
        let removals = self.changes.values().flatten().filter(|it| it.marked().is_some());
        removals.filter_map(Change::instance_key).collect()
    }
}

/// The services that may be deleted, judged by the data already read: no Service claims them, and no instance is known
/// to stay in them.
pub fn deletable(registry: &Registry, claimed: &Claimed) -> BTreeSet<ServiceKey> {
    let services = registry.services.iter().filter(|(key, service)| {
        let readable = service.unreadable.is_none();
        readable && !claimed.may_be_claimed(key) && claimed.leaves(key, service)
    });
    services.map(|(key, _)| key.clone()).collect()
}

/// The decision on a service that may be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeletionVerdict {
    Delete,
    /// It stays: it is not ours, or has instances.
    Keep,
    /// Its tags or instances could not be read.
    Unreadable(String),
}

/// Decides on a deletable service. Its tags were read just now; so were its instances, if it is ours.
pub fn verdict(
    key: &ServiceKey,
    service: &CloudMapService,
    claimed: &Claimed,
    owner: &str,
) -> DeletionVerdict {
    match (&service.tags, &service.unreadable) {
        (Tags::Unreadable(problem), _) => DeletionVerdict::Unreadable(problem.clone()),
        _ if !service.is_tagged(owner) => DeletionVerdict::Keep,
        (_, Some(problem)) => DeletionVerdict::Unreadable(problem.clone()),
        _ if service.instances.is_some() && claimed.leaves(key, service) => DeletionVerdict::Delete,
        _ => DeletionVerdict::Keep,
    }
}
