//! The key of each name that a Service claims, and the limits that `NAME_POLICY` sets for the claim.
//!
//! A rule of `NAME_POLICY` allows names, addresses and a number of instances; no rule denies anything. Only the first
//! rule that matches the cluster and the Kubernetes namespace applies. If there are rules and none matches, the Service
//! may claim nothing. A denied claim holds no name and causes no conflict, and its instances are removed.
//!
//! A hostname can end in the name of its DNS namespace, such as `web.shop.local` in `shop.local`. Cloud Map then serves
//! `web.shop.local.shop.local`. The claim is valid, and the report has a remark.

use std::net::IpAddr;

use super::identity::Identity;
use super::observation::Observation;
use super::reason::Reason;
use crate::model::{
    FirstNames, NamespaceKind, NamespaceReference, Place, RepeatedNamespace, Rule, ServiceKey,
    ServiceName, ServiceRef, UnresolvedNamespace, words,
};

impl Observation {
    /// The key of a name that a Service claims.
    ///
    /// # Errors
    /// Returns an error if no namespace matches, or if several match and none was chosen.
    pub fn key(
        &self,
        service: &ServiceRef,
        reference: &NamespaceReference,
        name: &ServiceName,
    ) -> Result<ServiceKey, UnresolvedNamespace> {
        let chosen = self.desired.namespaces.get(service).and_then(|chosen| chosen.get(name));
        let chosen = chosen.and_then(|id| {
            let candidates = self.registry.candidates(reference);
            candidates.into_iter().find(|namespace| namespace.id == *id)
        });
        let namespace = chosen.map_or_else(|| self.registry.resolve(reference), Ok)?;
        Ok(ServiceKey::new(namespace, name.as_str()))
    }

    /// The limits of `NAME_POLICY` for a Service under a name.
    ///
    /// # Errors
    /// Returns the reason if the Service may not claim the name.
    pub fn name_limits(
        &self,
        service: &ServiceRef,
        key: &ServiceKey,
    ) -> Result<NameLimits<'_>, Denial> {
        let rule = rule(self, service)?;
        let namespace = self.registry.namespaces.get(&key.namespace);
        let allows =
            |rule: &Rule| namespace.is_some_and(|namespace| rule.allows(namespace, &key.name));
        match rule {
            Some(rule) if !allows(rule) => Err(Denial::OtherNames {
                namespace: service.namespace.clone(),
                names: list(&rule.names),
                places: list(&rule.cloud_map_namespaces),
            }),
            rule => Ok(NameLimits { rule }),
        }
    }
}

/// The remark on a name that ends in the name of its DNS namespace. An HTTP namespace has no DNS names, so it gets no
/// remark.
pub fn repeated_namespace(observation: &Observation, key: &ServiceKey) -> Option<Reason> {
    let namespace = observation.registry.namespaces.get(&key.namespace)?;
    if namespace.kind != NamespaceKind::Dns {
        return None;
    }
    let place = Place::of(key, &observation.registry);
    RepeatedNamespace::of(&place.name, &namespace.name).map(Reason::RepeatedNamespace)
}

words! {
    /// The setting or limit that a maximum of instances comes from.
    pub enum MaximumSource {
        /// An annotation of the Service.
        Annotation = "max-instances of the Service",
        /// A rule of the installation's `NAME_POLICY`.
        NamePolicy = "maxInstances of NAME_POLICY",
        /// The limit of the function for the instances under one name.
        LimitPerName = "1,000 for a name",
        /// The limit of the function for the instances of a Service under all its names.
        LimitPerService = "5,000 for all names of a Service",
    }
}

/// The reason why a Service may not claim a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Denial {
    /// There are rules, and none applies to the Kubernetes namespace of the Service.
    #[error(
        "no rule of NAME_POLICY applies to Kubernetes namespace {namespace} of cluster {cluster}"
    )]
    NoRule {
        /// The Kubernetes namespace.
        namespace: String,
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

/// The limits of `NAME_POLICY` for a Service under a name that it may claim. Without a rule there are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NameLimits<'a> {
    rule: Option<&'a Rule>,
}

impl NameLimits<'_> {
    /// Whether an address may be published.
    pub fn allows(self, address: IpAddr) -> bool {
        self.rule.is_none_or(|rule| rule.allows_address(address))
    }

    /// Whether all addresses of an instance may be published.
    pub fn allows_all(self, identity: &Identity) -> bool {
        identity.addresses().all(|address| self.allows(address))
    }

    /// The allowed address ranges, as text for a message.
    pub fn ranges(self) -> String {
        self.rule.and_then(|rule| rule.cidrs.as_ref()).map_or_else(String::new, |cidrs| list(cidrs))
    }

    /// The largest number of instances under the name.
    pub fn maximum(self) -> Option<usize> {
        Some(self.rule?.max_instances?.get())
    }
}

/// The largest number of names that a Service may claim, if a rule limits it.
pub fn max_names(observation: &Observation, service: &ServiceRef) -> Option<usize> {
    Some(rule(observation, service).ok()??.max_names?.get())
}

/// The rule that decides for a Service; `None` if everything is allowed.
///
/// # Errors
/// Returns the reason if there are rules and none applies to the Service.
pub fn rule<'a>(
    observation: &'a Observation,
    service: &ServiceRef,
) -> Result<Option<&'a Rule>, Denial> {
    let Some(policy) = &observation.rules.name_policy else { return Ok(None) };
    let cluster = &observation.owner.cluster;
    let namespace = &service.namespace;
    let first = policy.rule(cluster, namespace);
    let denial =
        || Denial::NoRule { namespace: namespace.clone(), cluster: cluster.name().to_owned() };
    first.map(Some).ok_or_else(denial)
}

/// The first items, as text for a message.
fn list(items: &[impl std::fmt::Display]) -> String {
    FirstNames::of(items).map_or_else(|| "nothing".to_owned(), |items| items.to_string())
}
