//! A Cloud Map service in messages: the key that identifies it, and the names for users.

use std::fmt;

use super::{Registry, ServiceKey};

/// A Cloud Map service, whether it exists yet or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub namespace: String,
    /// The name, spelled as in Cloud Map if the service exists.
    pub name: String,
    pub key: ServiceKey,
}

impl Place {
    /// The place of a key, with the names of the registry.
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
