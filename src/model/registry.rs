//! The content of Cloud Map: namespaces, their services, and the instances in them. `cloud_map` reads it, and the plan
//! compares it with the desired state of a cluster.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Attributes, Capacity, CloudMapService, FirstNames, Namespace, NamespaceKind,
    NamespaceReference, ServiceName, ServiceRef, UnresolvedNamespace,
};

/// The part of one account's Cloud Map in one Region that the function may read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registry {
    /// By id.
    pub namespaces: BTreeMap<String, Namespace>,
    pub services: BTreeMap<ServiceKey, CloudMapService>,
    pub capacity: Capacity,
}

/// Identifies a Cloud Map service by the id of its namespace and its name. In DNS namespaces the name is in lower case,
/// since Cloud Map ignores its case there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    /// The id of the namespace.
    pub namespace: String,
    pub name: String,
}

impl ServiceKey {
    pub fn new(namespace: &Namespace, name: &str) -> Self {
        let name = match namespace.kind {
            NamespaceKind::Http => name.to_owned(),
            NamespaceKind::Dns => name.to_ascii_lowercase(),
        };
        Self { namespace: namespace.id.clone(), name }
    }
}

/// Identifies an instance: the Cloud Map service that it is in, and its id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceKey {
    /// The Cloud Map service.
    pub service: ServiceKey,
    /// The instance's id.
    pub id: String,
}

impl InstanceKey {
    /// The key of the instance `id` in `service`.
    pub fn new(service: &ServiceKey, id: &str) -> Self {
        Self { service: service.clone(), id: id.to_owned() }
    }
}

impl Registry {
    /// The namespace of a reference.
    ///
    /// # Errors
    /// Returns an error with the candidates if no namespace matches, or several.
    pub fn resolve(
        &self,
        reference: &NamespaceReference,
    ) -> Result<&Namespace, UnresolvedNamespace> {
        let text = reference.to_string();
        if let NamespaceReference::Arn(arn) = reference {
            let mut all = self.namespaces.values();
            let found = all.find(|namespace| namespace.arn.as_ref() == Some(arn));
            return found.ok_or_else(|| self.missing(text));
        }
        if let Some(namespace) = self.namespaces.get(&text) {
            return Ok(namespace);
        }
        let named: Vec<&Namespace> =
            self.namespaces.values().filter(|namespace| namespace.name == text).collect();
        if let [namespace] = named.as_slice() {
            return Ok(namespace);
        }
        Err(match FirstNames::of(named.iter().map(|namespace| &namespace.id)) {
            Some(candidates) => UnresolvedNamespace::Ambiguous { reference: text, candidates },
            None => self.missing(text),
        })
    }

    fn missing(&self, reference: String) -> UnresolvedNamespace {
        let visible = FirstNames::of(self.namespaces.values().map(|namespace| &namespace.name));
        UnresolvedNamespace::Missing { reference, visible, not_created: None }
    }

    /// The key of `name` in the namespace of `reference`.
    ///
    /// # Errors
    /// As [`Registry::resolve`].
    pub fn key(
        &self,
        reference: &NamespaceReference,
        name: &ServiceName,
    ) -> Result<ServiceKey, UnresolvedNamespace> {
        Ok(ServiceKey::new(self.resolve(reference)?, name.as_str()))
    }

    /// The key of each Service's own name in the namespaces that are named like its Kubernetes namespace.
    pub fn keys_named<'a>(
        &'a self,
        services: &'a BTreeSet<ServiceRef>,
    ) -> impl Iterator<Item = ServiceKey> + 'a {
        services.iter().flat_map(|service| {
            let all = self.namespaces.values();
            let named = all.filter(|namespace| namespace.name == service.namespace);
            named.map(|namespace| ServiceKey::new(namespace, &service.name))
        })
    }

    /// The attributes of an instance; `None` if it was not read.
    pub fn instance(&self, key: &ServiceKey, id: &str) -> Option<&Attributes> {
        self.services.get(key)?.instances.as_ref()?.get(id)
    }

    /// The instances of a service; empty if it does not exist or was not read.
    pub fn instances(&self, key: &ServiceKey) -> impl Iterator<Item = (&String, &Attributes)> {
        self.services.get(key).and_then(|service| service.instances.as_ref()).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(id: &str, name: &str, kind: NamespaceKind) -> (String, Namespace) {
        let arn = format!("arn:aws:servicediscovery:eu-central-1:111122223333:namespace/{id}");
        let (arn, owner) = (Some(arn), None);
        (
            id.into(),
            Namespace { id: id.into(), arn, name: name.into(), kind, http_name: None, owner },
        )
    }

    #[test]
    fn a_reference_resolves_by_id_then_arn_then_name() {
        let registry = Registry {
            namespaces: BTreeMap::from([
                namespace("ns-1", "prod.local", NamespaceKind::Dns),
                namespace("ns-2", "twice", NamespaceKind::Dns),
                namespace("ns-3", "twice", NamespaceKind::Dns),
                namespace("ns-4", "ns-1", NamespaceKind::Http),
            ]),
            ..Registry::default()
        };
        let arn = "arn:aws:servicediscovery:eu-central-1:111122223333:namespace/ns-3";
        let cases = [
            ("prod.local", "ns-1"),
            ("ns-1", "ns-1"),
            (arn, "ns-3"),
            (
                "twice",
                "several Cloud Map namespaces are named \"twice\"; name one by its id: ns-2, ns-3",
            ),
            (
                "gone",
                "no Cloud Map namespace \"gone\" is visible here; visible: prod.local, twice, twice, ns-1",
            ),
        ];
        for (reference, expected) in cases {
            let reference = NamespaceReference::parse(reference).expect("a reference");
            let found = match registry.resolve(&reference) {
                Ok(namespace) => namespace.id.clone(),
                Err(error) => error.to_string(),
            };
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn names_that_differ_in_case_are_one_service_in_dns_namespaces_only() {
        let (_, dns) = namespace("ns-1", "prod.local", NamespaceKind::Dns);
        let (_, http) = namespace("ns-2", "prod", NamespaceKind::Http);
        assert_eq!(ServiceKey::new(&dns, "Web"), ServiceKey::new(&dns, "web"));
        assert_ne!(ServiceKey::new(&http, "Web"), ServiceKey::new(&http, "web"));
    }
}
