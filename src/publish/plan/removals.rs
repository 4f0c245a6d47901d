//! Decides which instances of ours to deregister. Each removal has a reason, the Service for which it is planned, and
//! the condition that Cloud Map must meet first. A removal that still waits is reported, and not carried out. No
//! removal leaves a name without instances while ready endpoints exist for it.

use super::change::Change;
use super::compare::Compared;
use super::identity::Identity;
use super::names::MaximumSource;
use super::observation::{MarkedInstance, Observation, Plan};
use crate::model::{Endpoint, Flow, Place, ServiceKey, ServiceRef};

/// The reason why an instance of ours is deregistered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum DeregisterReason {
    /// The claim is valid, and none of its ready endpoints has this address and port.
    #[error("no ready endpoint has this address and port")]
    NoReadyEndpoint,
    /// Its endpoint has only one of its two addresses now, and the records of the service need both.
    #[error("its endpoint has lost one of the two addresses that the records need")]
    AddressLost,
    /// Another instance of ours has the same address and port.
    #[error("another instance of ours has the same address and port")]
    Duplicate,
    /// The instance exceeds the annotated or allowed maximum of the Service, or a limit of the function.
    #[error("it exceeds {0}")]
    BeyondMaximum(MaximumSource),
    /// `NAME_POLICY` does not allow its address.
    #[error("NAME_POLICY does not allow the Service this address")]
    AddressNotAllowed,
    /// The Service requests no instances.
    #[error("publish of the Service is false")]
    Withdrawn,
    /// Its Service is deleted, or is not an annotated headless Service any more.
    #[error("Service {0} is gone, or no longer annotated and headless")]
    ServiceGone(ServiceRef),
    /// Its Service is not exported any more.
    #[error("Service {0} is gone, or no longer exported")]
    NotExported(ServiceRef),
    /// `NAME_POLICY` does not allow its Service the name.
    #[error("NAME_POLICY does not allow Service {0} this name")]
    NotAllowed(ServiceRef),
    /// Its Service requests another name now.
    #[error("Service {0} asks for another name now")]
    NameChanged(ServiceRef),
    /// Another Service of the cluster holds the name.
    #[error("Service {0} holds the name now")]
    NameHeldBy(ServiceRef),
    /// The cluster of the record has another id now.
    #[error("its cluster has another id now")]
    ClusterIdChanged,
    /// A person purges the cluster.
    #[error("its cluster is purged")]
    Purged,
}

impl DeregisterReason {
    /// Whether the claim to the name is still valid, so that the policy `upsert-only` allows the removal.
    pub fn is_claim_valid(&self) -> bool {
        matches!(
            self,
            Self::NoReadyEndpoint
                | Self::AddressLost
                | Self::Duplicate
                | Self::BeyondMaximum(_)
                | Self::AddressNotAllowed
                | Self::Withdrawn
        )
    }
}

/// An instance of ours whose id passes to a new endpoint, which then needs no further capacity in Cloud Map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The id that the endpoint would have without the exchange.
    pub newcomer: String,
    /// The Service in the marks of the displaced instance.
    pub marked: ServiceRef,
    /// The address, port and pod of the displaced instance, for the reader.
    pub address: String,
    /// The reason why the displaced instance is removed.
    pub because: DeregisterReason,
}

impl Change {
    /// The Services whose registrations a removal waits for, if they may be made in this run.
    pub fn awaited_services(&self) -> Vec<&ServiceRef> {
        let Self::Deregister { marked, waits_for: Some(wait), .. } = self else {
            return Vec::new();
        };
        match &**wait {
            WaitsFor::FirstRegistration => vec![marked],
            WaitsFor::Holder(service) | WaitsFor::NewName(service) => vec![service],
            WaitsFor::HolderAndNewName { holder, renamed } => vec![holder, renamed],
            WaitsFor::ContestedName { .. }
            | WaitsFor::BlockedRename { .. }
            | WaitsFor::NamespaceById(_) => Vec::new(),
        }
    }

    /// Whether an exchange may replace the removal: it waits for nothing, or for an instance under the same name, which
    /// the exchange registers.
    pub fn may_be_exchanged(&self) -> bool {
        let Self::Deregister { waits_for, .. } = self else { return false };
        match waits_for.as_deref() {
            None | Some(WaitsFor::FirstRegistration | WaitsFor::Holder(_)) => true,
            Some(
                WaitsFor::NewName(_)
                | WaitsFor::HolderAndNewName { .. }
                | WaitsFor::BlockedRename { .. }
                | WaitsFor::ContestedName { .. }
                | WaitsFor::NamespaceById(_),
            ) => false,
        }
    }

    /// The exchange of the removed instance for a new one.
    pub fn exchanged_for(&self, newcomer: &str) -> Option<Exchange> {
        let Self::Deregister { marked, address, because, .. } = self else { return None };
        Some(Exchange {
            newcomer: newcomer.to_owned(),
            marked: marked.clone(),
            address: address.clone(),
            because: because.clone(),
        })
    }
}

/// The condition that Cloud Map must meet before an instance is removed, so that no name becomes empty. If a renamed
/// Service claims several new names, the greatest of their conditions applies, so the order of the variants is part of
/// the rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum WaitsFor {
    /// One of the holder's ready endpoints must be registered.
    #[error("until one of the ready endpoints is registered")]
    FirstRegistration,
    /// The new holder of the name must have an instance.
    #[error("until Service {0} has an instance under this name")]
    Holder(ServiceRef),
    /// All endpoints must be registered under the new name.
    #[error("until every endpoint is registered under the new name of Service {0}")]
    NewName(ServiceRef),
    /// Both conditions: another Service took over the old name of the renamed Service.
    #[error(
        "until Service {holder} has an instance under this name and every endpoint is registered under the new name of Service {renamed}"
    )]
    HolderAndNewName {
        holder: ServiceRef,
        /// The Service that requests another name.
        renamed: ServiceRef,
    },
    /// An endpoint cannot be registered under the new name. The removal waits until a person solves the problem.
    #[error("until the problem under {name}, the new name of Service {renamed}, is solved")]
    BlockedRename {
        /// The Service that requests another name.
        renamed: ServiceRef,
        /// The name it requests, with its namespace.
        name: String,
    },
    /// Another Service holds the new name. The removal waits until that Service gives up the name.
    #[error("until Service {holder} gives up {name}, the new name of Service {renamed}")]
    ContestedName {
        /// The Service that requests another name.
        renamed: ServiceRef,
        /// The name it requests, with its namespace.
        name: String,
        /// The Service that holds that name.
        holder: ServiceRef,
    },
    /// The Service has instances in two namespaces of the same name. An instance outside the chosen namespace stays as
    /// long as its endpoint does, unless the annotation names a namespace by id.
    #[error(
        "as long as its endpoint does: two namespaces of one name have instances of Service {0}, so its annotation should name one by id"
    )]
    NamespaceById(ServiceRef),
}

impl WaitsFor {
    /// Whether the name keeps an instance: the removal waits for another instance under the same name, or does not
    /// happen in this run.
    pub fn keeps_the_name(&self) -> bool {
        !matches!(self, Self::NewName(_))
    }

    /// The renamed Service whose registrations under the new names the removal waits for, if they may be made in this
    /// run.
    pub fn renamed(&self) -> Option<&ServiceRef> {
        match self {
            Self::NewName(renamed) | Self::HolderAndNewName { renamed, .. } => Some(renamed),
            _ => None,
        }
    }
}

/// Adds the removals to a plan. A removal is planned for the Service in the marks of the instance if that Service holds
/// the name, or if no Service holds it. Otherwise it is planned for the holder, since it follows the holder's
/// registrations.
pub fn removals(observation: &Observation, compared: &Compared, plan: &mut Plan) {
    let removals = Removals { observation, compared };
    for key in observation.registry.services.keys() {
        let place = Place::of(key, &observation.registry);
        let candidates = removals.candidates(key);
        for candidate in &candidates {
            let Some((planned_for, because, waits_for)) =
                removals.decide(key, candidate, &candidates)
            else {
                continue;
            };
            let change = candidate.removal(&place, because, waits_for);
            plan.add(planned_for, change);
        }
    }
}

impl MarkedInstance<'_> {
    pub fn removal(
        &self,
        place: &Place,
        because: DeregisterReason,
        waits_for: Option<WaitsFor>,
    ) -> Change {
        Change::Deregister {
            place: place.clone(),
            instance: self.id.clone(),
            marked: self.service.clone(),
            address: self.attributes.describe(),
            because,
            waits_for: waits_for.map(Box::new),
        }
    }
}

struct Removals<'a> {
    observation: &'a Observation,
    compared: &'a Compared,
}

type RemovalDecision = (ServiceRef, DeregisterReason, Option<WaitsFor>);

impl<'a> Removals<'a> {
    /// The surplus instances of ours under a name.
    fn candidates(&self, key: &ServiceKey) -> Vec<MarkedInstance<'a>> {
        let compared = self.compared.get(key);
        let is_surplus = |instance: &MarkedInstance| {
            compared.is_none_or(|comparison| comparison.surplus.contains_key(instance.id))
        };
        let ours = self.observation.our_instances_with_service(key);
        ours.filter(|instance| {
            self.observation.affected.contains(&instance.service) && is_surplus(instance)
        })
        .collect()
    }

    fn decide(
        &self,
        key: &ServiceKey,
        candidate: &MarkedInstance,
        all: &[MarkedInstance],
    ) -> Option<RemovalDecision> {
        let marked = &candidate.service;
        let holders = &self.observation.holders;
        match holders.holder(key).filter(|holder| !holders.is_unclear(holder)) {
            Some(_) if holders.holds(key, marked) => {
                let mut own = all.iter().rev().filter(|other| other.service == *marked);
                let is_last = own.next().is_some_and(|last| last.id == candidate.id);
                self.decide_for_holder(key, candidate, is_last)
            }
            Some(_) => self.decide_for_former_holder(key, marked),
            // The name is kept for a Service that the guard holds. Until the loss is decided, the instances of others
            // stay, too.
            None if holders.kept_for(key).is_some_and(|kept_for| kept_for != marked) => None,
            None => self.decide_without_holder(key, candidate),
        }
    }

    /// Decides on a surplus instance of the holder. If the holder has ready endpoints and none is registered, the last
    /// surplus instance stays until one is registered. All instances whose endpoints have lost an address stay until
    /// then: if the Service is changed to one family, each of them still answers at its other address.
    fn decide_for_holder(
        &self,
        key: &ServiceKey,
        candidate: &MarkedInstance,
        is_last: bool,
    ) -> Option<RemovalDecision> {
        let comparison = self.compared.get(key)?;
        let because = comparison.surplus.get(candidate.id)?.clone();
        let may_answer = is_last || because == DeregisterReason::AddressLost;
        let waits = may_answer && comparison.has_endpoints && !comparison.has_registered;
        let waits_for = waits.then_some(WaitsFor::FirstRegistration);
        Some((candidate.service.clone(), because, waits_for))
    }

    /// Decides on an instance under a name that another Service holds now. `marked` is the Service in its marks. It may
    /// still claim the name, and may never have been its holder.
    ///
    /// The removal waits until the holder has an instance. If `marked` was renamed, the removal also waits until every
    /// endpoint of `marked` is registered under its new name, unless that is blocked. If the claim of `marked` has
    /// ended and the holder has no endpoints, the removal does not wait. The instances of an unclear Service stay,
    /// unless its claim has ended.
    ///
    /// Say shop/old claims `api` instead of `web`, and shop/new takes over `web`. Without the first wait, `web` would
    /// be empty if Cloud Map refuses the instances of shop/new. Without the second wait, shop/old would be found under
    /// neither name if its registrations under `api` fail.
    fn decide_for_former_holder(
        &self,
        key: &ServiceKey,
        marked: &ServiceRef,
    ) -> Option<RemovalDecision> {
        let ended = self.end_of_claim(key, marked);
        if ended.is_none() && self.observation.holders.is_unclear(marked) {
            return None;
        }
        let holder = self.observation.holders.holder(key);
        let holder = holder.filter(|holder| self.observation.affected.contains(*holder))?;
        let comparison = self.compared.get(key)?;
        let waits_for_holder =
            !comparison.has_registered && (comparison.has_endpoints || ended.is_none());
        // If `marked` still claims this name, `wait_for_new_name` finds that another Service holds it.
        let claims = self.observation.holders.claims(marked).filter(|_| ended.is_none());
        let new_name_wait = claims.and_then(|_| self.wait_for_new_name(marked));
        let waits_for_new_name = matches!(new_name_wait, Some(WaitsFor::NewName(_)));
        let because = ended.unwrap_or_else(|| match claims {
            Some(claims) if !claims.contains(key) => DeregisterReason::NameChanged(marked.clone()),
            _ => DeregisterReason::NameHeldBy(holder.clone()),
        });
        let renamed = marked.clone();
        let waits_for = match (waits_for_holder, waits_for_new_name) {
            (true, true) => Some(WaitsFor::HolderAndNewName { holder: holder.clone(), renamed }),
            (true, false) => Some(WaitsFor::Holder(holder.clone())),
            (false, true) => Some(WaitsFor::NewName(renamed)),
            (false, false) => None,
        };
        Some((holder.clone(), because, waits_for))
    }

    /// The reason why the claim of a Service to a name has ended. There are two cases: the Service is no longer
    /// published, or `NAME_POLICY` denies it the name, whether or not it still asks for it. A claim does not end
    /// because the Service claims another name instead.
    fn end_of_claim(&self, key: &ServiceKey, marked: &ServiceRef) -> Option<DeregisterReason> {
        if self.observation.holders.claims(marked).is_none() {
            let gone = match self.observation.owner.flow {
                Flow::Annotations => DeregisterReason::ServiceGone,
                Flow::Exports => DeregisterReason::NotExported,
            };
            return Some(gone(marked.clone()));
        }
        let denied = self.observation.name_limits(marked, key).is_err();
        denied.then(|| DeregisterReason::NotAllowed(marked.clone()))
    }

    /// Decides on an instance under a name without a holder, or with an unclear one. If the name is kept for this very
    /// Service, the guard holds the removal, or postpones it (`postpone_under_kept_names`).
    fn decide_without_holder(
        &self,
        key: &ServiceKey,
        candidate: &MarkedInstance,
    ) -> Option<RemovalDecision> {
        let marked = &candidate.service;
        if let Some(because) = self.end_of_claim(key, marked) {
            return Some((marked.clone(), because, None));
        }
        let claims = self.observation.holders.claims(marked)?;
        if self.observation.holders.is_unclear(marked) || claims.contains(key) {
            return None;
        }
        let waits_for =
            self.wait_in_other_namespace(key, candidate).or_else(|| self.wait_for_new_name(marked));
        Some((marked.clone(), DeregisterReason::NameChanged(marked.clone()), waits_for))
    }

    /// The wait of an instance that is under a claimed name, but not in the chosen namespace: two namespaces have the
    /// name that the annotation gives. The instance stays as long as its endpoint does.
    fn wait_in_other_namespace(
        &self,
        key: &ServiceKey,
        candidate: &MarkedInstance,
    ) -> Option<WaitsFor> {
        let observation = self.observation;
        let published = observation.desired.services.get(&candidate.service)?;
        let claims = published.claims.as_ref().ok()?;
        let candidates = observation.registry.candidates(&claims.namespace);
        let mut keys = claims.names.iter().flat_map(|name| {
            candidates.iter().map(|namespace| ServiceKey::new(namespace, name.as_str()))
        });
        let identity = Identity::of(candidate.attributes, false);
        let stays = |endpoint: &Endpoint| {
            endpoint.is_published(claims)
                && endpoint
                    .addresses()
                    .any(|address| identity.addresses().any(|own| own == address))
        };
        let stays = || published.read_endpoints().iter().any(stays);
        let chooses = || WaitsFor::NamespaceById(candidate.service.clone());
        (keys.any(|claimed| claimed == *key) && stays()).then(chooses)
    }

    /// The greatest wait over all names that `service` claims. `None` if every endpoint is registered under each of
    /// these names, or if the Service publishes no instances.
    fn wait_for_new_name(&self, service: &ServiceRef) -> Option<WaitsFor> {
        let observation = self.observation;
        let holders = &observation.holders;
        if observation.desired.claims(service).is_some_and(|claims| !claims.publish) {
            return None;
        }
        let renamed = || service.clone();
        let name = |key: &ServiceKey| Place::of(key, &observation.registry).to_string();
        let blocked =
            |key: &ServiceKey| WaitsFor::BlockedRename { renamed: renamed(), name: name(key) };
        // A name of the holder that was read and not compared accepts no registrations, and the next run finds the
        // same.
        let is_readable = |key: &ServiceKey| {
            let service = observation.registry.services.get(key);
            service.is_some_and(|service| service.unreadable.is_none() && !service.is_never_read())
        };
        let wait_under = |key: &ServiceKey| match (holders.holder(key), self.compared.get(key)) {
            (Some(holder), _) if !holders.holds(key, service) => {
                let renamed = renamed();
                let name = name(key);
                let holder = holder.clone();
                Some(WaitsFor::ContestedName { renamed, name, holder })
            }
            (_, Some(comparison)) if comparison.is_complete() => None,
            (_, Some(comparison)) if comparison.is_blocked() => Some(blocked(key)),
            (_, None) if is_readable(key) => Some(blocked(key)),
            _ => Some(WaitsFor::NewName(renamed())),
        };
        let denied = holders.denied(service).flatten();
        let claims = holders.claims(service).into_iter().flatten();
        let all = claims.map(wait_under).chain(denied.map(|key| Some(blocked(key))));
        all.flatten().max()
    }
}
