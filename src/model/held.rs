//! The Services whose instances a run must not deregister, because the run that it continues held them. The message
//! that requeues unfinished work carries them.

use std::collections::BTreeSet;

use super::ServiceRef;

/// The holds that a run inherits. They add to the holds of its own guard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Held {
    Services(BTreeSet<ServiceRef>),
    /// All Services, since there were too many for a message.
    All,
}

impl Default for Held {
    fn default() -> Self {
        Self::Services(BTreeSet::new())
    }
}

impl Held {
    pub fn contains(&self, service: &ServiceRef) -> bool {
        match self {
            Self::Services(services) => services.contains(service),
            Self::All => true,
        }
    }

    #[must_use]
    pub fn union(self, other: Self) -> Self {
        match (self, other) {
            (Self::Services(mut services), Self::Services(more)) => {
                services.extend(more);
                Self::Services(services)
            }
            _ => Self::All,
        }
    }

    /// The holds of the Services for which `belongs` is true.
    #[must_use]
    pub fn only(&self, belongs: impl Fn(&ServiceRef) -> bool) -> Self {
        match self {
            Self::Services(services) => {
                Self::Services(services.iter().filter(|it| belongs(it)).cloned().collect())
            }
            Self::All => Self::All,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn union_contains_the_services_of_both() {
        let service = |name| ServiceRef::new("shop", name);
        let one = |name| Held::Services(BTreeSet::from([service(name)]));
        let both = one("a").union(one("b"));
        assert!(both.contains(&service("a")) && both.contains(&service("b")));
        assert!(!both.contains(&service("c")));
        assert_eq!(both.only(|it| it.name == "a"), one("a"));
        assert_eq!([one("a").union(Held::All), Held::All.union(one("a"))], [Held::All, Held::All]);
        assert!(Held::All.only(|_| false).contains(&service("c")));
        assert!(!Held::default().contains(&service("a")));
    }
}
