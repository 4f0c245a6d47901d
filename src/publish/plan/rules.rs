//! What the rules of the installation allow. A policy removes changes from a finished plan and reports them as held back;
//! it never adds any.
//!
//! `NAME_POLICY`: the names in Cloud Map that each Service may claim, with which addresses and how many instances. Its rules
//! only allow. The first rule for a cluster and Kubernetes namespace decides alone, and a Service without a rule may claim
//! nothing. A claim that is not allowed holds no name, causes no conflict, and counts as ended.

use std::fmt;
use std::net::IpAddr;

use super::change::Change;
use super::instance::Identity;
use super::observation::Observation;
use super::reason::Reason;
use super::result::Plan;
use crate::model::{FirstNames, Policy, Rule, ServiceKey, ServiceRef, words};

impl Policy {
    pub fn allows(self, change: &Change) -> bool {
        match (self, change) {
            (Self::Sync, _) => true,
            (Self::UpsertOnly, Change::Deregister { because, .. }) => because.leaves_the_claim(),
            (Self::UpsertOnly, change) => {
                change.exchange().is_none_or(|it| it.because.leaves_the_claim())
            }
            (Self::CreateOnly, change) => matches!(
                change,
                Change::CreateNamespace { .. }
                    | Change::CreateService { .. }
                    | Change::Register { .. }
            ),
        }
    }

    /// Removes the changes that the policy does not allow from the plan, and holds them back.
    pub fn restrict(self, plan: &mut Plan) {
        for (service, change) in plan.take(|change| !self.allows(change)) {
            let reason = Reason::Policy { policy: self, action: change.to_string() };
            plan.hold_back(&service, change.place(), reason);
        }
    }
}

words! {
    /// The source of a maximum.
    pub enum SetBy {
        /// An annotation of the Service.
        Annotation = "max-instances of the Service",
        /// A rule of the installation's `NAME_POLICY`.
        NamePolicy = "maxInstances of NAME_POLICY",
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
    pub fn allows(&self, address: IpAddr) -> bool {
        self.rule.is_none_or(|rule| rule.allows_address(address))
    }

    /// Whether all addresses of an instance may be published.
    pub fn allows_all(&self, identity: &Identity) -> bool {
        identity.addresses().all(|address| self.allows(address))
    }

    /// The allowed ranges of addresses, for a sentence.
    pub fn ranges(&self) -> String {
        self.rule.and_then(|rule| rule.cidrs.as_ref()).map_or_else(String::new, |it| list(it))
    }

    /// The largest number of instances under the name.
    pub fn maximum(&self) -> Option<usize> {
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
pub fn list(items: &[impl fmt::Display]) -> String {
    FirstNames::of(items).map_or_else(|| "nothing".to_owned(), |items| items.to_string())
}
