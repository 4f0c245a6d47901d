//! The Kubernetes Services of one cluster that an invocation reconciles: all of them in a full sync, or those of its
//! payload in a targeted sync.

use std::collections::BTreeSet;

use super::ServiceRef;

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
        /// Those of which the first look of the run holds a loss.
        held: BTreeSet<ServiceRef>,
    },
}

impl Selection {
    pub fn namespace(name: impl Into<String>) -> Self {
        Self::of([name.into()].into(), BTreeSet::new())
    }

    pub fn service(service: ServiceRef) -> Self {
        Self::of(BTreeSet::new(), [service].into())
    }

    /// No Service.
    pub fn nothing() -> Self {
        Self::of(BTreeSet::new(), BTreeSet::new())
    }

    fn of(namespaces: BTreeSet<String>, services: BTreeSet<ServiceRef>) -> Self {
        Self::Only { namespaces, services, held: BTreeSet::new() }
    }

    /// The selected Services, if they are selected by name alone.
    pub fn names(&self) -> Option<&BTreeSet<ServiceRef>> {
        match self {
            Self::Only { namespaces, services, .. } if namespaces.is_empty() => Some(services),
            _ => None,
        }
    }

    /// Those of its single Services for which `is_left` is true.
    #[must_use]
    pub fn only(&self, is_left: impl Fn(&ServiceRef) -> bool) -> Self {
        let services = self.names().into_iter().flatten();
        let services = services.filter(|service| is_left(service)).cloned().collect();
        Self::Only { namespaces: BTreeSet::new(), services, held: self.held() }
    }

    /// The Services of which the first look of the run holds a loss.
    pub fn held(&self) -> BTreeSet<ServiceRef> {
        match self {
            Self::Everything => BTreeSet::new(),
            Self::Only { held, .. } => held.clone(),
        }
    }

    pub fn contains(&self, service: &ServiceRef) -> bool {
        match self {
            Self::Everything => true,
            Self::Only { namespaces, services, .. } => {
                namespaces.contains(&service.namespace) || services.contains(service)
            }
        }
    }

    #[must_use]
    pub fn union(mut self, other: Self) -> Self {
        match (&mut self, other) {
            (
                Self::Only { namespaces, services, held },
                Self::Only { namespaces: more_namespaces, services: more, held: more_held },
            ) => {
                namespaces.extend(more_namespaces);
                services.extend(more);
                held.extend(more_held);
                self
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
        assert_eq!(both.union(Selection::Everything), Selection::Everything);
    }
}
