//! Which Kubernetes Services of one cluster an invocation is about.

use std::collections::BTreeSet;

use super::{Held, ServiceRef, Shard};

/// The Services to reconcile in one cluster. A Service is selected by name whether it exists or not,
/// so one that is gone is cleaned up by what its instances' marks say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All of them: a full sync.
    Everything,
    /// Those named, and all of the namespaces named: a targeted sync.
    Only {
        /// Kubernetes namespaces selected whole.
        namespaces: BTreeSet<String>,
        /// Single Services.
        services: BTreeSet<ServiceRef>,
        /// Parts of the cluster.
        shards: BTreeSet<Shard>,
        /// The Services that a run before held.
        held: Held,
    },
}

impl Selection {
    /// A whole Kubernetes namespace.
    pub fn namespace(name: impl Into<String>) -> Self {
        let (namespaces, services, shards) = (BTreeSet::from([name.into()]), [].into(), [].into());
        Self::Only { namespaces, services, shards, held: Held::default() }
    }

    /// One Service.
    pub fn service(service: ServiceRef) -> Self {
        let (namespaces, services, shards) = ([].into(), [service].into(), [].into());
        Self::Only { namespaces, services, shards, held: Held::default() }
    }

    /// A part of the cluster.
    pub fn shard(shard: Shard) -> Self {
        Self::rest(shard, Held::default())
    }

    /// A part of the cluster that a run before has left, with what that run held.
    pub fn rest(shard: Shard, held: Held) -> Self {
        let (namespaces, services, shards) = ([].into(), [].into(), [shard].into());
        Self::Only { namespaces, services, shards, held }
    }

    /// What a run over it inherits. All of a cluster is judged anew.
    pub fn held(&self) -> Held {
        match self {
            Self::Everything => Held::default(),
            Self::Only { held, .. } => held.clone(),
        }
    }

    /// Whether the Service is among those to reconcile.
    pub fn contains(&self, service: &ServiceRef) -> bool {
        match self {
            Self::Everything => true,
            Self::Only { namespaces, services, shards, .. } => {
                namespaces.contains(&service.namespace)
                    || services.contains(service)
                    || shards.iter().any(|shard| shard.contains(service))
            }
        }
    }

    /// Both selections together.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        match (self, other) {
            (
                Self::Only { mut namespaces, mut services, mut shards, held },
                Self::Only {
                    namespaces: more_namespaces,
                    services: more_services,
                    shards: more_shards,
                    held: more_held,
                },
            ) => {
                namespaces.extend(more_namespaces);
                services.extend(more_services);
                shards.extend(more_shards);
                let held = held.union(more_held);
                Self::Only { namespaces, services, shards, held }
            }
            _ => Self::Everything,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_union_selects_what_either_selects() {
        let web = ServiceRef::new("shop", "web");
        let cart = ServiceRef::new("shop", "cart");
        let other = ServiceRef::new("other", "web");
        let both = Selection::service(web.clone()).union(Selection::namespace("other"));
        assert!(both.contains(&web) && both.contains(&other) && !both.contains(&cart));
        let all = Shard::all(1).next().map(Selection::shard).expect("one part");
        assert!(
            both.clone().union(all.clone()).contains(&cart)
                && all.union(both.clone()).contains(&cart)
        );
        assert_eq!(both.union(Selection::Everything), Selection::Everything);
    }
}
