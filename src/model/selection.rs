//! The Kubernetes Services of one cluster that an invocation reconciles: all of them in a full sync, or those of its
//! payload in a targeted sync.

use std::collections::BTreeSet;

use super::{Held, ServiceRef, Shard};

/// The Services to reconcile in one cluster. A Service is selected by name even if it does not exist: the marks of its
/// instances name it, so they are deregistered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All Services: a full sync.
    Everything,
    /// The Services of these fields together: a targeted sync.
    Only {
        /// Whole Kubernetes namespaces.
        namespaces: BTreeSet<String>,
        services: BTreeSet<ServiceRef>,
        shards: BTreeSet<Shard>,
        /// The holds of the run that this one continues.
        held: Held,
    },
}

impl Selection {
    pub fn namespace(name: impl Into<String>) -> Self {
        let (namespaces, services, shards) = (BTreeSet::from([name.into()]), [].into(), [].into());
        Self::Only { namespaces, services, shards, held: Held::default() }
    }

    pub fn service(service: ServiceRef) -> Self {
        let (namespaces, services, shards) = ([].into(), [service].into(), [].into());
        Self::Only { namespaces, services, shards, held: Held::default() }
    }

    pub fn shard(shard: Shard) -> Self {
        Self::rest(shard, Held::default())
    }

    /// A part of the cluster that an earlier run left unfinished, with the holds of that run.
    pub fn rest(shard: Shard, held: Held) -> Self {
        let (namespaces, services, shards) = ([].into(), [].into(), [shard].into());
        Self::Only { namespaces, services, shards, held }
    }

    /// No Service.
    pub fn nothing() -> Self {
        let (namespaces, services, shards) = ([].into(), [].into(), [].into());
        Self::Only { namespaces, services, shards, held: Held::default() }
    }

    /// Whether it is about the Services of a message, and no part of a full sync.
    pub fn is_targeted(&self) -> bool {
        matches!(self, Self::Only { shards, .. } if shards.is_empty())
    }

    /// The selected Services, if they are selected by name alone.
    pub fn names(&self) -> Option<&BTreeSet<ServiceRef>> {
        match self {
            Self::Only { namespaces, services, shards, .. }
                if namespaces.is_empty() && shards.is_empty() =>
            {
                Some(services)
            }
            _ => None,
        }
    }

    /// Those of its single Services for which `is_left` is true.
    #[must_use]
    pub fn only(&self, is_left: impl Fn(&ServiceRef) -> bool) -> Self {
        let services = self.names().into_iter().flatten();
        let services = services.filter(|service| is_left(service)).cloned().collect();
        let (namespaces, shards, held) = ([].into(), [].into(), self.held());
        Self::Only { namespaces, services, shards, held }
    }

    /// The holds that a run inherits. A full sync inherits none.
    pub fn held(&self) -> Held {
        match self {
            Self::Everything => Held::default(),
            Self::Only { held, .. } => held.clone(),
        }
    }

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
    fn union_contains_the_services_of_both() {
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
