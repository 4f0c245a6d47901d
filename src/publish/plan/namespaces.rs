//! The Cloud Map namespace of a name that a Service claims.
//!
//! Several namespaces may have the name that a Service refers to: private DNS namespaces of several VPCs, or one of
//! this account and one that another account shares. The namespace with registered instances of the Service has
//! priority, so that a new namespace moves no instances. Without instances, the only namespace with a Cloud Map service
//! of the name is chosen. A missing namespace is created together with its first service, if the installation allows
//! it. It is an HTTP namespace, which needs no VPC and no domain.

use std::collections::{BTreeMap, BTreeSet};

use super::observation::Observation;
use super::reason::Reason;
use crate::guard::Extent;
use crate::model::{
    Claims, FirstNames, Namespace, NamespaceReference, Rules, ServiceKey, ServiceName, ServiceRef,
    UnresolvedNamespace,
};

/// The id of the namespace that was chosen for each name of a Service.
pub type ChosenNamespaces = BTreeMap<ServiceRef, BTreeMap<ServiceName, String>>;

/// The Services with instances in each namespace, by its id.
type Registered<'a> = BTreeMap<&'a str, BTreeSet<ServiceRef>>;

/// The claims of a Service to names that may be in several namespaces.
struct Ambiguous<'a> {
    service: &'a ServiceRef,
    claims: &'a Claims,
    candidates: Vec<&'a Namespace>,
}

/// Chooses the namespace of each name that may be in several: the namespace with instances of the Service, or else the
/// only one with a Cloud Map service of the name. If the run covers only a part of the cluster, or if some Cloud Map
/// services were never read, only the instances of the Service decide.
///
/// The account of a namespace has no influence. Say clients query a namespace that another account shares, and shop/web
/// is scaled to zero there. If the function preferred a namespace of its own account, the pods would come back in the
/// wrong namespace.
pub fn choose(observation: &Observation) -> ChosenNamespaces {
    let is_part = !observation.extent.is_full_sync() || !observation.registry.is_whole();
    let mut chosen = ChosenNamespaces::new();
    let mut registered = None;
    for ambiguous in ambiguous(observation) {
        let registered = registered.get_or_insert_with(|| services_by_namespace(observation));
        for name in &ambiguous.claims.names {
            let mut namespace = ambiguous.with_instances(observation, name, registered);
            if namespace.is_none() && !is_part {
                namespace = only_with_service(observation, name, &ambiguous.candidates);
            }
            if let Some(namespace) = namespace {
                let by_name = chosen.entry(ambiguous.service.clone()).or_default();
                by_name.insert(name.clone(), namespace.id.clone());
            }
        }
    }
    chosen
}

/// Returns every key that a name may have, for each name that may be in several namespaces. Includes only the Services
/// for which `is_included` is true.
pub fn keys_to_choose_from(
    observation: &Observation,
    is_included: impl Fn(&ServiceRef) -> bool,
) -> BTreeSet<ServiceKey> {
    let mut keys = BTreeSet::new();
    for ambiguous in ambiguous(observation).filter(|ambiguous| is_included(ambiguous.service)) {
        for name in &ambiguous.claims.names {
            let candidates = ambiguous.candidates.iter();
            keys.extend(candidates.map(|namespace| ServiceKey::new(namespace, name.as_str())));
        }
    }
    keys
}

fn ambiguous(observation: &Observation) -> impl Iterator<Item = Ambiguous<'_>> {
    observation.desired.services.iter().filter_map(|(service, published)| {
        let claims = published.claims.as_ref().ok()?;
        let candidates = observation.registry.candidates(&claims.namespace);
        (candidates.len() > 1).then_some(Ambiguous { service, claims, candidates })
    })
}

fn services_by_namespace(observation: &Observation) -> Registered<'_> {
    let mut registered = Registered::new();
    for (key, service) in observation.all_marked_services() {
        registered.entry(&key.namespace).or_default().insert(service);
    }
    registered
}

impl<'a> Ambiguous<'a> {
    /// The first namespace in which the Service has instances under the name, or else under any name.
    fn with_instances(
        &self,
        observation: &Observation,
        name: &ServiceName,
        registered: &Registered,
    ) -> Option<&'a Namespace> {
        let under_any = |namespace: &&&Namespace| {
            let services = registered.get(namespace.id.as_str());
            services.is_some_and(|services| services.contains(self.service))
        };
        let under_name = |namespace: &&Namespace| {
            let key = ServiceKey::new(namespace, name.as_str());
            observation.marked_services(&key).any(|marked| marked == *self.service)
        };
        let own = || self.candidates.iter().filter(under_any).copied();
        own().find(under_name).or_else(|| own().next())
    }
}

/// The only namespace with a Cloud Map service of the name. `None` if one of these services could not be read, since it
/// may have instances of the Service. A service whose read IAM denies counts as read.
fn only_with_service<'a>(
    observation: &Observation,
    name: &ServiceName,
    candidates: &[&'a Namespace],
) -> Option<&'a Namespace> {
    let mut only = None;
    for namespace in candidates {
        let key = ServiceKey::new(namespace, name.as_str());
        let Some(service) = observation.registry.services.get(&key) else { continue };
        let is_unread = service.unreadable.is_some() && !service.is_denied;
        if is_unread || only.is_some() {
            return None;
        }
        only = Some(*namespace);
    }
    only
}

/// The remark on a Service with a name for which only the instances decide the namespace. Needs a full sync that has
/// read all of Cloud Map.
pub fn remark(observation: &Observation, service: &ServiceRef) -> Option<Reason> {
    let mut chosen = observation.desired.namespaces.get(service)?.iter();
    if !observation.extent.is_full_sync() || !observation.registry.is_whole() {
        return None;
    }
    let claims = observation.desired.claims(service)?;
    let candidates = observation.registry.candidates(&claims.namespace);
    let (_, id) = chosen.find(|(name, id)| {
        let only = only_with_service(observation, name, &candidates);
        only.is_none_or(|namespace| namespace.id != **id)
    })?;
    Some(Reason::NamespaceByInstances {
        reference: claims.namespace.to_string(),
        chosen: id.clone(),
        candidates: FirstNames::of(candidates.iter().map(|namespace| &namespace.id))?,
    })
}

/// The ids of the namespaces that claims of the cluster may refer to.
pub fn claimed(observation: &Observation) -> BTreeSet<String> {
    let claims = observation.desired.all_claims();
    let found = claims.flat_map(|claims| observation.registry.candidates(&claims.namespace));
    found.map(|namespace| namespace.id.clone()).collect()
}

/// Whether a claim of the cluster names a namespace that was not found.
pub fn is_one_missing(observation: &Observation) -> bool {
    let mut claims = observation.desired.all_claims();
    claims.any(|claims| observation.registry.candidates(&claims.namespace).is_empty())
}

/// Adds the missing namespaces that are claimed and may be created. The plan treats them as existing namespaces without
/// an ARN.
pub fn expect_missing(observation: &mut Observation) {
    for reference in observation.desired.all_claims().map(|claims| &claims.namespace) {
        let resolved = observation.registry.resolve(reference);
        let is_missing = matches!(resolved, Err(UnresolvedNamespace::Missing { .. }));
        if is_missing && not_created(reference, &observation.rules).is_none() {
            let namespace = Namespace::missing(&reference.to_string());
            observation.registry.namespaces.insert(namespace.id.clone(), namespace);
        }
    }
}

/// Adds details to a problem with a namespace: why a missing namespace is not created, or whether a later full sync can
/// choose among several.
pub fn complete_problem(
    observation: &Observation,
    mut problem: UnresolvedNamespace,
    reference: &NamespaceReference,
) -> UnresolvedNamespace {
    let rules = &observation.rules;
    match &mut problem {
        UnresolvedNamespace::Missing { not_created: why, .. } => {
            *why = not_created(reference, rules).filter(|_| rules.create_namespaces);
        }
        UnresolvedNamespace::Ambiguous { is_left_to_full_sync, .. } => {
            *is_left_to_full_sync =
                observation.extent == Extent::Part || !observation.registry.is_whole();
        }
    }
    problem
}

/// The reason why a missing namespace is not created; `None` if it is created.
fn not_created(reference: &NamespaceReference, rules: &Rules) -> Option<&'static str> {
    let NamespaceReference::NameOrId(name) = reference else {
        return Some("an ARN refers to an existing namespace");
    };
    let is_listed = rules.namespaces.is_empty() || rules.namespaces.contains(reference);
    match (rules.create_namespaces, is_listed) {
        (false, _) => Some("CREATE_NAMESPACES is not true"),
        (_, false) => Some("CLOUD_MAP_NAMESPACES does not contain it"),
        _ if name.starts_with("ns-") => Some("it may be the id of a namespace"),
        _ if name.contains('.') => {
            Some("it may be a DNS name, and HTTP namespaces do not answer DNS queries")
        }
        _ => None,
    }
}
