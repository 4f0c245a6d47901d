//! A service goes when it carries our tag, no Service of any cluster claims its name, and nothing is
//! registered in it. What all clusters say comes together in [`Claimed`]; whatever is not known for
//! sure keeps the service.

use std::collections::BTreeSet;

use crate::model::{CloudMapService, InstanceKey, Registry, ServiceKey, Tags};
use crate::publish::plan::{Change, Observation, Plan};

/// What clusters say of the Cloud Map services that are to stay, and of the instances that go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    keys: BTreeSet<ServiceKey>,
    /// Names, in lower case, that are claimed in a namespace which is not to be found.
    names: BTreeSet<String>,
    /// Services whose annotations leave open what they claim.
    unclear: BTreeSet<String>,
    leaving: Leaving,
}

/// Instances that a plan takes out.
pub type Leaving = BTreeSet<InstanceKey>;

impl Claimed {
    /// What one cluster says, and what a plan for all of it takes out.
    pub fn of(observation: &Observation, leaving: Leaving) -> Self {
        let mut claimed = Self { leaving, ..Self::default() };
        for (service, annotated) in &observation.desired.services {
            let Ok(claims) = &annotated.claims else {
                let cluster = observation.owner.cluster.name();
                claimed.unclear.insert(format!("{service} of cluster {cluster}"));
                continue;
            };
            for name in &claims.names {
                match observation.registry.key(&claims.namespace, name) {
                    Ok(key) => _ = claimed.keys.insert(key),
                    Err(_) => _ = claimed.names.insert(name.as_str().to_ascii_lowercase()),
                }
            }
        }
        claimed
    }

    /// What this cluster and others say.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.keys.extend(other.keys);
        self.names.extend(other.names);
        self.unclear.extend(other.unclear);
        self.leaving.extend(other.leaving);
        self
    }

    /// The same after all changes were made: what goes is gone, or stays.
    #[must_use]
    pub fn carried_out(self) -> Self {
        Self { leaving: Leaving::new(), ..self }
    }

    /// The Services that may claim anything, since their annotations say nothing usable. While there is
    /// one, nothing is deleted.
    pub fn unclear(&self) -> Vec<&str> {
        self.unclear.iter().map(String::as_str).collect()
    }

    fn may_be_claimed(&self, key: &ServiceKey) -> bool {
        self.keys.contains(key) || self.names.contains(&key.name.to_ascii_lowercase())
    }

    /// Whether nothing of what was read in a service stays.
    fn leaves(&self, key: &ServiceKey, service: &CloudMapService) -> bool {
        let mut instances = service.instances.iter().flatten();
        instances.all(|(id, _)| self.leaving.contains(&InstanceKey::new(key, id)))
    }
}

impl Plan {
    /// The instances that the plan takes out, also those that have to wait for something.
    pub fn leaving(&self) -> Leaving {
        let removals = self.changes.values().flatten().filter(|it| it.marked().is_some());
        removals.filter_map(Change::instance_key).collect()
    }
}

/// The services that may be deleted, as far as that can be told without reading on: nobody claims
/// them, and nothing is known to stay in them.
pub fn deletable(registry: &Registry, claimed: &Claimed) -> BTreeSet<ServiceKey> {
    let services = registry.services.iter().filter(|(key, service)| {
        let readable = service.unreadable.is_none();
        readable && !claimed.may_be_claimed(key) && claimed.leaves(key, service)
    });
    services.map(|(key, _)| key.clone()).collect()
}

/// What becomes of a service that may be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is deleted.
    Delete,
    /// It stays: it is not ours, or something is in it.
    Keep,
    /// It could not be told.
    Unreadable(String),
}

/// Decides on a deletable service whose tags, and whose instances where it is ours, were read just now.
pub fn verdict(
    key: &ServiceKey,
    service: &CloudMapService,
    claimed: &Claimed,
    owner: &str,
) -> Verdict {
    match (&service.tags, &service.unreadable) {
        (Tags::Unreadable(problem), _) => Verdict::Unreadable(problem.clone()),
        _ if !service.is_tagged(owner) => Verdict::Keep,
        (_, Some(problem)) => Verdict::Unreadable(problem.clone()),
        _ if service.instances.is_some() && claimed.leaves(key, service) => Verdict::Delete,
        _ => Verdict::Keep,
    }
}
