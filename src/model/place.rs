//! A Cloud Map service: the key that identifies it, and the names that a person knows it by.

use std::fmt;

use super::{Registry, ServiceKey};

/// A Cloud Map service, whether it exists yet or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The Cloud Map namespace's name.
    pub namespace: String,
    /// The service's name, as it is written where the service exists.
    pub name: String,
    /// What identifies it.
    pub key: ServiceKey,
}

impl Place {
    /// The place of a key, named as the registry writes it.
    pub fn of(key: &ServiceKey, registry: &Registry) -> Self {
        let namespace = registry.namespaces.get(&key.namespace);
        let namespace = namespace.map_or(&key.namespace, |namespace| &namespace.name).clone();
        let name = registry.services.get(key).map_or(&key.name, |service| &service.name).clone();
        Self { namespace, name, key: key.clone() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
