//! A name in Cloud Map that a Service claims: the namespace that it is in, and whether the Service may claim it.
//!
//! Several namespaces may have the name that a Service refers to: private DNS namespaces of several VPCs, or one that
//! another account shares beside an own one. The Service's registered instances decide first, so that a namespace that is
//! new moves nothing, then the only Cloud Map service of the name. A missing namespace is created together with its first
//! service, if the installation allows it: an HTTP namespace, since that needs no VPC and no domain.
//!
//! `NAME_POLICY` has the names that each Service may claim, with which addresses and how many instances. Its rules only
//! allow. The first rule for a cluster and Kubernetes namespace decides alone, and a Service without a rule may claim
//! nothing. A claim that is not allowed holds no name, causes no conflict, and counts as ended.
//!
//! A name that repeats its namespace is claimed as it is, with a remark.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::instance::Identity;
use super::observation::Observation;
use super::reason::Reason;
use crate::guard::Extent;
use crate::model::{
    Claims, FirstNames, Namespace, NamespaceKind, NamespaceReference, Place, RepeatedNamespace,
    Rule, Rules, ServiceKey, ServiceName, ServiceRef, UnresolvedNamespace, words,
};

/// The Services with instances in each namespace, by its id.
type Registered<'a> = BTreeMap<&'a str, BTreeSet<ServiceRef>>;

impl Observation {
    /// The key of a name that a Service claims.
    ///
    /// # Errors
    /// Returns an error if no namespace matches, or several of which none was chosen.
    pub fn key(
        &self,
        service: &ServiceRef,
        reference: &NamespaceReference,
        name: &ServiceName,
    ) -> Result<ServiceKey, UnresolvedNamespace> {
        let chosen = self.desired.namespaces.get(service).and_then(|of_names| of_names.get(name));
        let chosen = chosen.and_then(|id| {
            let candidates = self.registry.candidates(reference);
            candidates.into_iter().find(|namespace| namespace.id == *id)
        });
        let namespace = chosen.map_or_else(|| self.registry.resolve(reference), Ok)?;
        Ok(ServiceKey::new(namespace, name.as_str()))
    }

    /// Chooses the namespace of each name that may be in several: the one with instances of the Service, else the only one
    /// with a Cloud Map service of the name. If only a part of the cluster or of Cloud Map was read, or if older reads count,
    /// the instances of the Service alone decide.
    ///
    /// No other sign decides. Say the pods of shop/web go to zero in a namespace that another account shares, in which
    /// callers ask: if the function's own namespace were preferred, the pods would come back in the wrong one.
    pub fn choose_namespaces(&mut self) {
        let is_part = !self.extent.is_whole() || !self.registry.is_whole();
        let mut chosen: BTreeMap<ServiceRef, BTreeMap<ServiceName, String>> = BTreeMap::new();
        let mut registered = None;
        for (service, claims, candidates) in self.ambiguous() {
            let registered = registered.get_or_insert_with(|| self.registered());
            for name in &claims.names {
                let mut namespace = self.with_instances(service, name, &candidates, registered);
                if namespace.is_none() && !is_part {
                    namespace = self.only_with_service(name, &candidates);
                }
                if let Some(namespace) = namespace {
                    let of_service = chosen.entry(service.clone()).or_default();
                    of_service.insert(name.clone(), namespace.id.clone());
                }
            }
        }
        self.desired.namespaces = chosen;
    }

    /// All keys that the names of Services may have, if they may be in several namespaces.
    pub fn keys_to_choose_from(
        &self,
        is_asked: impl Fn(&ServiceRef) -> bool,
    ) -> BTreeSet<ServiceKey> {
        let mut keys = BTreeSet::new();
        for (_, claims, candidates) in self.ambiguous().filter(|(service, ..)| is_asked(service)) {
            for name in &claims.names {
                keys.extend(candidates.iter().map(|it| ServiceKey::new(it, name.as_str())));
            }
        }
        keys
    }

    /// The claims to names in several namespaces.
    fn ambiguous(&self) -> impl Iterator<Item = (&ServiceRef, &Claims, Vec<&Namespace>)> {
        self.desired.services.iter().filter_map(|(service, published)| {
            let claims = published.claims.as_ref().ok()?;
            let candidates = self.registry.candidates(&claims.namespace);
            (candidates.len() > 1).then_some((service, claims, candidates))
        })
    }

    fn registered(&self) -> Registered<'_> {
        let mut registered = Registered::new();
        for (key, service) in self.all_marked_services() {
            registered.entry(&key.namespace).or_default().insert(service);
        }
        registered
    }

    /// The first namespace in which the Service has instances under the name, or else under any.
    fn with_instances<'a>(
        &self,
        service: &ServiceRef,
        name: &ServiceName,
        candidates: &[&'a Namespace],
        registered: &Registered,
    ) -> Option<&'a Namespace> {
        let under_any = |it: &&&Namespace| {
            registered.get(it.id.as_str()).is_some_and(|services| services.contains(service))
        };
        let under_name = |it: &&Namespace| {
            let key = ServiceKey::new(it, name.as_str());
            self.marked_services(&key).any(|marked| marked == *service)
        };
        let own = || candidates.iter().filter(under_any).copied();
        own().find(under_name).or_else(|| own().next())
    }

    /// The only namespace with a Cloud Map service of the name. None if a service of the name could not be read: it may
    /// have instances of the Service.
    fn only_with_service<'a>(
        &self,
        name: &ServiceName,
        candidates: &[&'a Namespace],
    ) -> Option<&'a Namespace> {
        let mut only = None;
        for namespace in candidates {
            let key = ServiceKey::new(namespace, name.as_str());
            let Some(service) = self.registry.services.get(&key) else { continue };
            let is_unread = service.unreadable.is_some() && !service.is_denied;
            if is_unread || only.is_some() {
                return None;
            }
            only = Some(*namespace);
        }
        only
    }

    /// The remark on a Service with a name whose namespace its instances alone decide. Only a run that read everything can
    /// tell.
    pub(super) fn chosen_by_instances(&self, service: &ServiceRef) -> Option<Reason> {
        if !self.extent.is_whole() || !self.registry.is_whole() {
            return None;
        }
        let claims = self.desired.claims(service)?;
        let candidates = self.registry.candidates(&claims.namespace);
        let mut chosen = self.desired.namespaces.get(service)?.iter();
        let (_, id) = chosen.find(|(name, id)| {
            let only = self.only_with_service(name, &candidates);
            only.is_none_or(|namespace| namespace.id != **id)
        })?;
        Some(Reason::NamespaceByInstances {
            reference: claims.namespace.to_string(),
            chosen: id.clone(),
            candidates: FirstNames::of(candidates.iter().map(|namespace| &namespace.id))?,
        })
    }

    /// Adds the missing namespaces that are claimed and may be created. From here on they are treated as existing
    /// namespaces, except that they have no ARN.
    pub fn expect_namespaces(&mut self) {
        for reference in self.desired.all_claims().map(|claims| &claims.namespace) {
            let missing = self.registry.resolve(reference);
            let missing = matches!(missing, Err(UnresolvedNamespace::Missing { .. }));
            if missing && not_created(reference, &self.rules).is_none() {
                let namespace = Namespace::missing(&reference.to_string());
                self.registry.namespaces.insert(namespace.id.clone(), namespace);
            }
        }
    }

    /// The remark on a name that ends in the name of its DNS namespace. In an HTTP namespace a name may be any.
    pub(super) fn repeated_namespace(&self, key: &ServiceKey) -> Option<Reason> {
        let namespace = self.registry.namespaces.get(&key.namespace)?;
        if namespace.kind != NamespaceKind::Dns {
            return None;
        }
        let place = Place::of(key, &self.registry);
        RepeatedNamespace::of(&place.name, &namespace.name).map(Reason::RepeatedNamespace)
    }

    /// A problem with a namespace, with the reason why a missing one is not created, or if the choice is left to a full sync.
    pub(super) fn explained(
        &self,
        mut problem: UnresolvedNamespace,
        reference: &NamespaceReference,
    ) -> UnresolvedNamespace {
        match &mut problem {
            UnresolvedNamespace::Missing { not_created: why, .. } => {
                *why = not_created(reference, &self.rules).filter(|_| self.rules.create_namespaces);
            }
            UnresolvedNamespace::Ambiguous { is_left, .. } => {
                *is_left = self.extent == Extent::Part || !self.registry.is_whole();
            }
        }
        problem
    }
}

/// The reason why a missing namespace is not created; `None` if it is created.
fn not_created(reference: &NamespaceReference, rules: &Rules) -> Option<&'static str> {
    let NamespaceReference::NameOrId(name) = reference else {
        return Some("an ARN refers to an existing namespace");
    };
    let looked_at = rules.namespaces.is_empty() || rules.namespaces.contains(reference);
    match (rules.create_namespaces, looked_at) {
        (false, _) => Some("CREATE_NAMESPACES is not true"),
        (_, false) => Some("CLOUD_MAP_NAMESPACES does not contain it"),
        _ if name.starts_with("ns-") => Some("it may be the id of a namespace"),
        _ if name.contains('.') => {
            Some("it may be a DNS name, and HTTP namespaces do not answer DNS queries")
        }
        _ => None,
    }
}

words! {
    /// The source of a maximum.
    pub enum SetBy {
        /// An annotation of the Service.
        Annotation = "max-instances of the Service",
        /// A rule of the installation's `NAME_POLICY`.
        NamePolicy = "maxInstances of NAME_POLICY",
        /// The limit of the function for a name.
        Name = "1,000 for a name",
        /// The limit of the function for all names of a Service.
        Service = "5,000 for all names of a Service",
    }
}

/// The reason why a Service may not claim a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Denial {
    /// No rule applies to its Kubernetes namespace, so it may claim nothing.
    #[error(
        "no rule of NAME_POLICY applies to Kubernetes namespace {namespace} of cluster {cluster}"
    )]
    NoRule {
        /// The Kubernetes namespace.
        namespace: String,
        /// The cluster's name.
        cluster: String,
    },
    /// The rule that applies allows other names.
    #[error(
        "NAME_POLICY lets Services of Kubernetes namespace {namespace} claim {names} in the Cloud Map namespaces {places}"
    )]
    OtherNames {
        /// The Kubernetes namespace.
        namespace: String,
        /// The allowed names.
        names: String,
        /// The Cloud Map namespaces in which they are allowed.
        places: String,
    },
}

/// The limits for a Service under a name that it may claim.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamePermit<'a> {
    rule: Option<&'a Rule>,
}

impl NamePermit<'_> {
    /// Whether an address may be published.
    pub fn allows(self, address: IpAddr) -> bool {
        self.rule.is_none_or(|rule| rule.allows_address(address))
    }

    /// Whether all addresses of an instance may be published.
    pub fn allows_all(self, identity: &Identity) -> bool {
        identity.addresses().all(|address| self.allows(address))
    }

    /// The allowed ranges of addresses, for a sentence.
    pub fn ranges(self) -> String {
        self.rule.and_then(|rule| rule.cidrs.as_ref()).map_or_else(String::new, |it| list(it))
    }

    /// The largest number of instances under the name.
    pub fn maximum(self) -> Option<usize> {
        Some(self.rule?.max_instances?.get())
    }
}

impl Observation {
    /// The limits for a Service under a name.
    ///
    /// # Errors
    /// Returns the reason if the Service may not claim the name.
    pub fn permit(&self, service: &ServiceRef, key: &ServiceKey) -> Result<NamePermit<'_>, Denial> {
        let rule = self.rule(service)?;
        let namespace = self.registry.namespaces.get(&key.namespace);
        let allows = |rule: &Rule| namespace.is_some_and(|it| rule.allows(it, &key.name));
        match rule {
            Some(rule) if !allows(rule) => Err(Denial::OtherNames {
                namespace: service.namespace.clone(),
                names: list(&rule.names),
                places: list(&rule.cloud_map_namespaces),
            }),
            rule => Ok(NamePermit { rule }),
        }
    }

    /// The largest number of names that a Service may claim, if a rule limits it.
    pub fn max_names(&self, service: &ServiceRef) -> Option<usize> {
        Some(self.rule(service).ok()??.max_names?.get())
    }

    /// The rule that decides for a Service; `None` if everything is allowed.
    ///
    /// # Errors
    /// Returns the reason if there are rules and none applies to the Service.
    pub fn rule(&self, service: &ServiceRef) -> Result<Option<&Rule>, Denial> {
        let Some(policy) = &self.rules.name_policy else { return Ok(None) };
        let (cluster, namespace) = (&self.owner.cluster, &service.namespace);
        let first = policy.rule(cluster, namespace);
        let denial =
            || Denial::NoRule { namespace: namespace.clone(), cluster: cluster.name().to_owned() };
        first.map(Some).ok_or_else(denial)
    }
}

/// The first items, for a sentence.
fn list(items: &[impl std::fmt::Display]) -> String {
    FirstNames::of(items).map_or_else(|| "nothing".to_owned(), |items| items.to_string())
}
