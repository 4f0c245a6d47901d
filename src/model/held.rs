//! The Services from which a run takes no instances, because the run that it continues held them.

use std::collections::BTreeSet;

use super::ServiceRef;

/// Holds that a run inherits. They only add to those that it finds itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Held {
    /// Those of these Services.
    Services(BTreeSet<ServiceRef>),
    /// Those of all Services: there were too many to name.
    All,
}

impl Default for Held {
    fn default() -> Self {
        Self::Services(BTreeSet::new())
    }
}

impl Held {
    /// Whether the Service keeps its instances.
    pub fn contains(&self, service: &ServiceRef) -> bool {
        match self {
            Self::Services(services) => services.contains(service),
            Self::All => true,
        }
    }

    /// Both together.
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
    fn union_holds_what_either_holds() {
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
