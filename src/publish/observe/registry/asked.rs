//! The TTLs that the clusters of one invocation ask for. The clusters are planned one after the other as they are read,
//! so each plan knows the requests of the clusters that were read before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use super::SharedRegistry;
use crate::model::{ClusterArn, Registry, ServiceKey};

/// The requests so far.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// By name and cluster; `None` if the cluster claims the name and asks for no TTL.
    ttls: BTreeMap<ServiceKey, BTreeMap<ClusterArn, Option<u32>>>,
    /// The clusters of which every claim is known.
    whole: BTreeSet<ClusterArn>,
}

impl SharedRegistry {
    /// Records the TTLs that a cluster asks for, and whether those are all of its requests.
    pub(in crate::publish::observe) fn note_asked(
        &self,
        cluster: &ClusterArn,
        ttls: BTreeMap<ServiceKey, Option<u32>>,
        is_all: bool,
    ) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, ttl) in ttls {
            asked.ttls.entry(key).or_default().insert(cluster.clone(), ttl);
        }
        if is_all {
            asked.whole.insert(cluster.clone());
        }
    }

    /// Enters into every service the TTLs that other clusters ask for under its name.
    pub(in crate::publish::observe) fn enter_asked(
        &self,
        registry: &mut Registry,
        cluster: &ClusterArn,
    ) {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, service) in &mut registry.services {
            let none = asked.whole.iter().map(|other| (other.clone(), None));
            let known = asked.ttls.get(key).into_iter().flatten();
            service.ttls_asked = none.chain(known.map(|(it, ttl)| (it.clone(), *ttl))).collect();
            service.ttls_asked.remove(cluster);
        }
    }
}
