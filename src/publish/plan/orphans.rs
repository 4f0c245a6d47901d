//! An orphan is an instance of this installation whose cluster is not configured for the Cloud Map that has the
//! instance. A sync counts orphans and never removes them; the action `purge` does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::model::{ClusterArn, Owner, Place, Registry, ServiceKey, join_first};

/// The largest number of Cloud Map services that a line names.
const NAMED: usize = 3;

/// The orphans of one cluster in one Cloud Map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orphans {
    pub instances: usize,
    /// The Cloud Map services that have these instances.
    names: BTreeSet<String>,
}

impl Registry {
    /// Returns the orphans of this installation by cluster. `is_configured` returns whether a cluster is configured for
    /// a Cloud Map that has the service.
    pub fn orphans(
        &self,
        owner_id: &str,
        is_configured: impl Fn(&ClusterArn, &ServiceKey) -> bool,
    ) -> BTreeMap<ClusterArn, Orphans> {
        let mut found: BTreeMap<ClusterArn, Orphans> = BTreeMap::new();
        for key in self.services.keys() {
            for (_, attributes) in self.instances(key) {
                let Some(owner) = Owner::of(attributes).filter(|owner| owner.id == owner_id) else {
                    continue;
                };
                if is_configured(&owner.cluster, key) {
                    continue;
                }
                let orphans = found.entry(owner.cluster).or_default();
                orphans.instances += 1;
                orphans.names.insert(Place::of(key, self).to_string());
            }
        }
        found
    }
}

impl fmt::Display for Orphans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.instances == 1 { "" } else { "s" };
        write!(f, "{} instance{plural} in {}", self.instances, join_first(&self.names, NAMED))
    }
}
