//! The content of Cloud Map: namespaces, their services, and the instances in them. Also the names of a service and of
//! a registry in messages. `cloud_map` reads the content, and the plan compares it with the desired state of a cluster.
//!
//! No API reports the quota of a namespace. Once Cloud Map refuses a registration in a namespace, the namespace is full
//! for the rest of the run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{
    Attributes, CloudMapService, FirstNames, Namespace, NamespaceKind, NamespaceReference,
    ServiceRef, Timestamp, UnresolvedNamespace, display, is_account, is_region,
};

/// The part of one account's Cloud Map in one Region that the function may read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registry {
    /// By id.
    pub namespaces: BTreeMap<String, Namespace>,
    pub services: BTreeMap<ServiceKey, CloudMapService>,
    pub capacity: Capacity,
    /// The account. `None` if it is unknown, or if only a part of Cloud Map was read.
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
    /// Returns the namespaces that match a reference, sorted by id. Several namespaces may have the same name.
    pub fn candidates(&self, reference: &NamespaceReference) -> Vec<&Namespace> {
        let all = self.namespaces.values();
        match reference {
            NamespaceReference::Arn(arn) => {
                all.filter(|namespace| namespace.arn.as_ref() == Some(arn)).collect()
            }
            NamespaceReference::NameOrId(text) => match self.namespaces.get(text) {
                Some(namespace) => vec![namespace],
                None => all.filter(|namespace| namespace.name == *text).collect(),
            },
        }
    }

    /// Returns the namespace of a reference.
    ///
    /// # Errors
    /// Returns an error with the candidates if no namespace matches, or several.
    pub fn resolve(
        &self,
        reference: &NamespaceReference,
    ) -> Result<&Namespace, UnresolvedNamespace> {
        let text = reference.to_string();
        let candidates = self.candidates(reference);
        if let [namespace] = candidates.as_slice() {
            return Ok(namespace);
        }
        let Some(ids) = FirstNames::of(candidates.iter().map(|namespace| &namespace.id)) else {
            let visible = FirstNames::of(self.namespaces.values().map(|namespace| &namespace.name));
            return Err(UnresolvedNamespace::Missing {
                reference: text,
                visible,
                not_created: None,
            });
        };
        Err(UnresolvedNamespace::Ambiguous {
            reference: text,
            candidates: ids,
            is_left_to_full_sync: false,
        })
    }

    /// Returns the key of each Service's own name in each Cloud Map namespace that has the name of its Kubernetes
    /// namespace.
    pub fn keys_of_same_name<'a>(
        &'a self,
        services: &'a BTreeSet<ServiceRef>,
    ) -> impl Iterator<Item = ServiceKey> + 'a {
        services.iter().flat_map(|service| {
            let all = self.namespaces.values();
            let named = all.filter(|namespace| namespace.name == service.namespace);
            named.map(|namespace| ServiceKey::new(namespace, &service.name))
        })
    }

    /// Whether a service has instances that this process has never read or tried to read.
    pub fn is_never_read(&self, key: &ServiceKey) -> bool {
        self.services.get(key).is_some_and(CloudMapService::is_never_read)
    }

    /// Whether this process has read, or tried to read, each service that has instances, in this run or an earlier one.
    pub fn is_whole(&self) -> bool {
        self.never_read() == 0
    }

    /// Returns the number of services with instances, by Cloud Map's count, that this process has never read or tried
    /// to read.
    pub fn never_read(&self) -> usize {
        self.services.values().filter(|service| service.is_never_read()).count()
    }

    /// Returns the time of the oldest read of an earlier run that is still in use.
    pub fn oldest_read(&self) -> Option<Timestamp> {
        self.services.values().filter_map(|service| service.read_before).min()
    }

    /// Whether the instances of all services were read in this run ([`CloudMapService::is_current`]).
    pub fn is_current(&self) -> bool {
        self.services.values().all(CloudMapService::is_current)
    }

    /// Returns the attributes of an instance; `None` if it was not read.
    pub fn instance(&self, key: &ServiceKey, id: &str) -> Option<&Attributes> {
        self.services.get(key)?.instances.as_ref()?.get(id)
    }

    /// Returns the instances of a service; none if it does not exist or was not read.
    pub fn instances(&self, key: &ServiceKey) -> impl Iterator<Item = (&String, &Attributes)> {
        self.services.get(key).and_then(|service| service.instances.as_ref()).into_iter().flatten()
    }
}

/// The full namespaces, as this run has seen them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Cloud Map's error message for each full namespace, by namespace id.
    full: BTreeMap<String, String>,
    /// The number of instances that a Service deregistered in a full namespace to make room for its own new ones, by
    /// namespace id.
    freed: BTreeMap<(ServiceRef, String), usize>,
    /// The full namespaces that refused a registration although a Service had freed capacity: another writer used it,
    /// or Cloud Map's count lags.
    closed: BTreeSet<String>,
}

impl Capacity {
    /// Records that a namespace is full. A second refusal came after a Service had freed capacity, so it closes the
    /// namespace.
    pub fn record_full(&mut self, namespace: &str, message: &str) {
        let known = self.full.insert(namespace.to_owned(), message.to_owned());
        if known.is_some() {
            self.closed.insert(namespace.to_owned());
            self.freed.retain(|(_, freed), _| freed != namespace);
        }
    }

    /// Whether this run frees no more capacity in the namespace.
    pub fn is_closed(&self, key: &ServiceKey) -> bool {
        self.closed.contains(&key.namespace)
    }

    pub fn is_empty(&self) -> bool {
        self.full.is_empty()
    }

    /// Cloud Map's error message if the namespace of `key` is full.
    pub fn refusal(&self, key: &ServiceKey) -> Option<&String> {
        self.full.get(&key.namespace)
    }

    /// Records that a Service deregistered an instance to free capacity for a new one.
    pub fn free(&mut self, service: &ServiceRef, key: &ServiceKey) {
        if self.refusal(key).is_some() {
            *self.freed.entry((service.clone(), key.namespace.clone())).or_default() += 1;
        }
    }

    /// Whether freed capacity is still unused.
    pub fn has_freed(&self) -> bool {
        self.freed.values().any(|count| *count > 0)
    }

    /// Records that a Service registered an instance, which uses up freed capacity.
    pub fn take(&mut self, service: &ServiceRef, key: &ServiceKey) {
        if let Some(freed) = self.freed.get_mut(&(service.clone(), key.namespace.clone())) {
            *freed = freed.saturating_sub(1);
        }
    }

    /// The number of instances that a Service can register in a full namespace, since it freed as much capacity.
    pub fn freed(&self, service: &ServiceRef, key: &ServiceKey) -> usize {
        self.freed.get(&(service.clone(), key.namespace.clone())).copied().unwrap_or_default()
    }
}

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

    /// Returns the Cloud Map service of a key, with the names as the registry spells them.
    pub fn of(key: &ServiceKey, registry: &Registry) -> Self {
        let namespace = registry.namespaces.get(&key.namespace);
        let namespace = namespace.map_or(&key.namespace, |namespace| &namespace.name);
        let name = registry.services.get(key).map_or(&key.name, |service| &service.name);
        Self::new(namespace, name, key.clone())
    }
}

impl std::ops::Deref for Place {
    type Target = Names;

    fn deref(&self) -> &Names {
        &self.0
    }
}

display!(Place(names) => "{}/{}", names.namespace, names.name);

/// A registry, as `ACCOUNT/REGION`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegistryName {
    pub account: String,
    pub region: String,
}

impl RegistryName {
    /// Returns `None` if the text is not `ACCOUNT/REGION`.
    pub fn parse(text: &str) -> Option<Self> {
        let (account, region) = text.split_once('/')?;
        let name = || Self { account: account.to_owned(), region: region.to_owned() };
        (is_account(account) && is_region(region)).then(name)
    }
}

display!(RegistryName { account, region } => "{account}/{region}");

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(id: &str, name: &str, kind: NamespaceKind) -> (String, Namespace) {
        let arn = format!("arn:aws:servicediscovery:eu-central-1:111122223333:namespace/{id}");
        let arn = Some(arn);
        let owner = None;
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

    #[test]
    fn an_account_and_a_region_name_a_cloud_map() {
        let name = RegistryName::parse("111122223333/eu-central-1").expect("a name");
        assert_eq!((name.account.as_str(), name.region.as_str()), ("111122223333", "eu-central-1"));
        assert_eq!(name.to_string(), "111122223333/eu-central-1");
        for text in
            ["", "eu-central-1", "1/eu-central-1", "111122223333/", "111122223333/EU", "a/b/c"]
        {
            assert_eq!(RegistryName::parse(text), None, "{text}");
        }
    }
}
