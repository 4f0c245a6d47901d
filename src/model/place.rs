//! A Cloud Map service in messages: the key that identifies it, and the names for users.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::{Registry, ServiceKey};

/// A Cloud Map service, whether it exists yet or not. Every change has a copy, so copies share their names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(Arc<Names>);

/// The names of a Cloud Map service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Names {
    pub namespace: String,
    /// The name, spelled as in Cloud Map if the service exists.
    pub name: String,
    pub key: ServiceKey,
}

impl Place {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, key: ServiceKey) -> Self {
        Self(Arc::new(Names { namespace: namespace.into(), name: name.into(), key }))
    }

    /// The place of a key, with the names of the registry.
    pub fn of(key: &ServiceKey, registry: &Registry) -> Self {
        let namespace = registry.namespaces.get(&key.namespace);
        let namespace = namespace.map_or(&key.namespace, |namespace| &namespace.name);
        let name = registry.services.get(key).map_or(&key.name, |service| &service.name);
        Self::new(namespace, name, key.clone())
    }
}

impl Deref for Place {
    type Target = Names;

    fn deref(&self) -> &Names {
        &self.0
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
