//! The content of Cloud Map: namespaces, their services, and the instances in them. `cloud_map` reads it, and the plan
//! compares it with the desired state of a cluster.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Attributes, Capacity, CloudMapService, FirstNames, Namespace, NamespaceKind,
    NamespaceReference, ServiceRef, Timestamp, UnresolvedNamespace,
};

/// The part of one account's Cloud Map in one Region that the function may read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registry {
    /// By id.
    pub namespaces: BTreeMap<String, Namespace>,
    pub services: BTreeMap<ServiceKey, CloudMapService>,
    pub capacity: Capacity,
    /// The account, if all of it was read and the account is known.
    pub account: Option<String>,
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
    /// The namespaces that a reference may mean, in the order of their ids: several have one name.
    pub fn candidates(&self, reference: &NamespaceReference) -> Vec<&Namespace> {
        let all = self.namespaces.values();
        match reference {
            NamespaceReference::Arn(arn) => all.filter(|it| it.arn.as_ref() == Some(arn)).collect(),
            NamespaceReference::NameOrId(text) => match self.namespaces.get(text) {
                Some(namespace) => vec![namespace],
                None => all.filter(|it| it.name == *text).collect(),
            },
        }
    }

    /// The namespace of a reference.
    ///
    /// # Errors
    /// Returns an error with the candidates if no namespace matches, or several.
    pub fn resolve(
        &self,
        reference: &NamespaceReference,
    ) -> Result<&Namespace, UnresolvedNamespace> {
        let (text, candidates) = (reference.to_string(), self.candidates(reference));
        if let [namespace] = candidates.as_slice() {
            return Ok(namespace);
        }
        let Some(ids) = FirstNames::of(candidates.iter().map(|namespace| &namespace.id)) else {
            let visible = FirstNames::of(self.namespaces.values().map(|it| &it.name));
            return Err(UnresolvedNamespace::Missing {
                reference: text,
                visible,
                not_created: None,
            });
        };
        Err(UnresolvedNamespace::Ambiguous { reference: text, candidates: ids, is_left: false })
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

    /// Whether this process has read each service that has instances, at any time.
    pub fn is_whole(&self) -> bool {
        self.never_read() == 0
    }

    /// The number of those that it has never read.
    pub fn never_read(&self) -> usize {
        self.services.values().filter(|service| service.is_never_read()).count()
    }

    /// The time of the oldest read of an earlier run that is still in use.
    pub fn oldest_read(&self) -> Option<Timestamp> {
        self.services.values().filter_map(|service| service.read_before).min()
    }

    /// Whether all of them were read in this run.
    pub fn is_current(&self) -> bool {
        self.services.values().all(CloudMapService::is_current)
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
