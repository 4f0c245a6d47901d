//! Cloud Map services and their settings. A service is created with its first instance and, if needed, its namespace.
//! In an HTTP namespace it has no records. In a DNS namespace the ports and address families of the Kubernetes Service
//! decide the record types. An empty service of ours whose records fit no endpoint is reported with the command that
//! deletes it. Tags are read only for the services that [`tags_needed`] returns.
//!
//! The TTL of an existing service is repaired if the service has our tag and the cluster has an instance there.
//! Otherwise a different TTL is reported. All other settings are fixed when a service is created, so differences are
//! only reported.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Change, Stage};
use super::compare::Comparison;
use super::observation::{Observation, Plan};
use super::reason::Reason;
use crate::model::{
    Attributes, Claims, CloudMapService, FirstNames, NamespaceKind, NewService, Owner, Place,
    Records, ServiceKey, ServiceKind, ServiceName, ServiceRef, ServiceUpdate, Tags, seconds,
};

/// Returns the Cloud Map services whose tags a plan needs: HTTP services without an instance of ours, which ECS Service
/// Connect may manage; services with another TTL than the annotated one; and empty services whose records may fit no
/// endpoint.
pub fn tags_needed(observation: &Observation) -> BTreeSet<ServiceKey> {
    let Observation { holders, affected, .. } = observation;
    let held = holders.with_holders().filter(|(_, holder)| affected.contains(*holder));
    let needed = held.filter(|(key, holder)| {
        let service = observation.registry.services.get(key);
        let Some(service) = service.filter(|service| !service.is_never_read()) else {
            return false;
        };
        let claims = observation.desired.claims(holder);
        let is_first = service.kind == ServiceKind::Http && !observation.has_ours(key);
        let differs = |claims: &Claims| differing_ttl(service, claims).is_some();
        let misfits = || service.instance_total() == 0 && may_misfit(observation, service, holder);
        is_first || claims.is_some_and(differs) || misfits()
    });
    needed.map(|(key, _)| key).cloned().collect()
}

/// Returns the Cloud Map services whose settings matter to a plan: the plan needs their tags, or holds a request back
/// because of their settings.
pub fn settings_needed(observation: &Observation) -> BTreeSet<ServiceKey> {
    let held_back = super::plan(observation).held_back.into_iter();
    let by_settings = held_back.filter(|line| line.reason.is_about_settings());
    let by_settings = by_settings.filter_map(|line| Some(line.place?.key.clone()));
    tags_needed(observation).into_iter().chain(by_settings).collect()
}

/// Whether instances of ours may be registered in an existing service.
///
/// # Errors
/// Returns the reason if no instance can be registered there.
pub fn may_register_in(
    observation: &Observation,
    service: &CloudMapService,
    key: &ServiceKey,
) -> Result<(), Reason> {
    if let Some(problem) = &service.unreadable {
        return Err(Reason::Unreadable(problem.clone()));
    }
    if service.instances.is_none() {
        return Err(Reason::Unreadable("they were not requested".to_owned()));
    }
    if matches!(service.kind, ServiceKind::Dns(Records { cname: true, .. })) {
        return Err(Reason::CnameService);
    }
    match &service.tags {
        _ if service.kind != ServiceKind::Http || observation.has_ours(key) => Ok(()),
        Tags::Read(tags) if tags.managed_by_ecs => Err(Reason::ServiceConnect),
        // Without the tags it is unknown whether ECS Service Connect manages the service.
        Tags::Unreadable(problem) => Err(Reason::Unreadable(problem.clone())),
        Tags::Read(_) | Tags::Unread => Ok(()),
    }
}

/// The settings of a new service under `key`, as its holder requests them. If the holder states no address families,
/// the families of its endpoints decide. `None` without any family.
pub fn new_service(
    observation: &Observation,
    key: &ServiceKey,
    holder: &ServiceRef,
) -> Option<NewService> {
    let published = observation.desired.services.get(holder)?;
    let claims = published.claims.as_ref().ok()?;
    let namespace = observation.registry.namespaces.get(&key.namespace)?;
    let is_same = |name: &&ServiceName| ServiceKey::new(namespace, name.as_str()) == *key;
    let kind = match namespace.kind {
        NamespaceKind::Http => ServiceKind::Http,
        NamespaceKind::Dns if !claims.ports.is_empty() => {
            ServiceKind::Dns(Records { srv: true, ..Records::default() })
        }
        NamespaceKind::Dns => {
            let families = published.record_families();
            (!families.is_empty()).then(|| ServiceKind::Dns(Records::of(&families)))?
        }
    };
    let name = claims.names.iter().find(is_same)?.clone();
    let namespace = namespace.clone();
    let ttl = claims.ttl.unwrap_or(DEFAULT_TTL);
    let routing_policy = claims.routing_policy.unwrap_or_default();
    Some(NewService { namespace, name, kind, ttl, routing_policy })
}

/// Checks that the records of a Cloud Map service fit an endpoint of the holder of its name.
///
/// # Errors
/// Returns the reason if the service is ours and empty, and no endpoint of the holder fits it: its records need both
/// families, which Cloud Map does not change, and no endpoint has both.
pub fn check_records_fit(
    observation: &Observation,
    key: &ServiceKey,
    holder: &ServiceRef,
) -> Result<(), Reason> {
    misfit(observation, key, holder).map_or(Ok(()), Err)
}

fn misfit(observation: &Observation, key: &ServiceKey, holder: &ServiceRef) -> Option<Reason> {
    let service = observation.registry.services.get(key)?;
    let is_ours = service.is_tagged(&observation.owner.id);
    let is_empty = service.instances.as_ref().is_some_and(|instances| instances.is_empty());
    let families = observation.desired.services.get(holder)?.endpoint_families();
    if !is_ours || !is_empty || families.len() != 1 || !may_misfit(observation, service, holder) {
        return None;
    }
    let fitting = new_service(observation, key, holder)?.kind;
    Some(Reason::RecordsMisfit { fitting, delete: service.delete_command() })
}

/// Whether a service has records of both families, and the holder of its name publishes instances and does not state
/// both families.
fn may_misfit(observation: &Observation, service: &CloudMapService, holder: &ServiceRef) -> bool {
    let has_both = matches!(service.kind, ServiceKind::Dns(Records { a: true, aaaa: true, .. }));
    let published = observation.desired.services.get(holder);
    let states_both = published.is_some_and(|published| published.families.len() > 1);
    let publishes = observation.desired.claims(holder).is_some_and(|claims| claims.publish);
    has_both && publishes && !states_both
}

/// TTL in seconds of the records of a new DNS service if no annotation sets one.
const DEFAULT_TTL: u32 = 60;

impl Plan {
    /// Adds the creation of each missing service to the changes of the holder of the name, which registers an instance
    /// in it.
    pub(super) fn create_services(&mut self, observation: &Observation) {
        let registers = |change: &&Change| change.stage() == Stage::Register;
        let places = self.changes.values().flatten().filter(registers).map(Change::place);
        let exists = |place: &Place| observation.registry.services.contains_key(&place.key);
        let missing: BTreeSet<Place> = places.filter(|place| !exists(place)).cloned().collect();
        for place in missing {
            let Some(holder) = observation.holders.holder(&place.key) else { continue };
            if let Some(service) = new_service(observation, &place.key, holder) {
                self.add(holder.clone(), Change::CreateService { place, service });
            }
        }
    }

    /// Adds the creation of every missing namespace to the changes of the first Service that needs it.
    pub(super) fn add_namespaces(&mut self) {
        let mut added = BTreeMap::new();
        for (service, changes) in &self.changes {
            for change in changes {
                let Some(name) = change.missing_namespace() else { continue };
                added.entry(name.to_owned()).or_insert((service.clone(), change.place().clone()));
            }
        }
        for (name, (service, place)) in added {
            self.add(service, Change::CreateNamespace { place, name });
        }
    }
}

// The settings of an existing service, compared with the annotations of its holder.

/// The reason why records keep their TTL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum TtlObstacle {
    /// The function did not create the service.
    #[error("the Cloud Map service does not carry our tag")]
    NotOurs,
    /// This cluster registers no instance in the service.
    #[error("this cluster has no instance there")]
    NoInstance,
    /// A higher TTL would also apply to other clusters.
    #[error("other clusters also have instances there ({0}), and may ask for less")]
    OtherClusters(FirstNames),
}

/// The annotated TTL if the records of a service have another one.
fn differing_ttl(service: &CloudMapService, claims: &Claims) -> Option<u32> {
    let wanted = claims.ttl?;
    let has_records = matches!(service.kind, ServiceKind::Dns(_)) && !service.ttls.is_empty();
    (has_records && service.ttls != BTreeSet::from([wanted])).then_some(wanted)
}

/// The update of a service that has another TTL than the annotated one.
///
/// A cluster knows only the TTLs that its own Services request. So it lowers the TTL of records that other clusters
/// share, which harms none of them, and does not raise it: two clusters that ask for 15 s and 60 s would overwrite each
/// other in turn.
///
/// # Errors
/// Returns the reason if the service must stay as it is.
fn ttl_update(
    service: &CloudMapService,
    wanted: u32,
    owner: &Owner,
) -> Result<Option<ServiceUpdate>, Reason> {
    let ServiceKind::Dns(records) = service.kind else { return Ok(None) };
    if let Tags::Unreadable(problem) = &service.tags {
        return Err(Reason::TagsUnreadable(problem.clone()));
    }
    let stays = |why| Reason::TtlStays { present: seconds(&service.ttls), wanted, why };
    if !service.is_tagged(&owner.id) {
        return Err(stays(TtlObstacle::NotOurs));
    }
    let raises = service.ttls.first().is_some_and(|lowest| wanted > *lowest);
    if raises && let Some(others) = FirstNames::of(other_clusters(service, owner)) {
        return Err(stays(TtlObstacle::OtherClusters(others)));
    }
    if service.holds_instances_of_other_accounts() {
        let cause = "it holds instances that other accounts registered";
        return Err(Reason::UpdateRefused(cause.to_owned()));
    }
    Ok(Some(ServiceUpdate {
        description: service.description.clone(),
        records,
        ttl: wanted,
        health_check: service.health_check.clone(),
        present: service.ttls.clone(),
    }))
}

/// The names of the other clusters of this installation with instances in a service.
fn other_clusters(service: &CloudMapService, owner: &Owner) -> BTreeSet<String> {
    let mut others = BTreeSet::new();
    for attributes in service.instances.iter().flat_map(|instances| instances.values()) {
        if let Some(marked) = Owner::of_installation(&owner.id, owner.flow, attributes)
            && marked.cluster != owner.cluster
        {
            others.insert(marked.cluster.name().to_owned());
        }
    }
    others
}

/// The settings of a service that are fixed and differ from the annotations of its holder.
fn remarks(
    service: &CloudMapService,
    namespace: NamespaceKind,
    claims: &Claims,
) -> impl Iterator<Item = Reason> + use<> {
    let is_not_in_dns = (namespace, service.kind) == (NamespaceKind::Dns, ServiceKind::Http);
    let policies = service.routing_policy.zip(claims.routing_policy);
    let differing = policies.filter(|(present, wanted)| present != wanted);
    let fixed = differing.map(|(present, wanted)| Reason::RoutingPolicyFixed { present, wanted });
    is_not_in_dns.then_some(Reason::NotInDns).into_iter().chain(fixed)
}

impl Plan {
    /// Compares an existing service with the annotations of the holder of its name.
    pub fn add_settings(
        &mut self,
        observation: &Observation,
        place: &Place,
        holder: &ServiceRef,
        comparison: &mut Comparison,
    ) {
        let Observation { registry, desired, owner, rules, .. } = observation;
        let key = &place.key;
        let held_back = &mut comparison.held_back;
        let service = registry.services.get(key).zip(desired.claims(holder));
        if let Some((service, claims)) = service {
            let namespace = registry.namespaces.get(&key.namespace).into_iter();
            held_back
                .extend(namespace.flat_map(|namespace| remarks(service, namespace.kind, claims)));
            let update = match differing_ttl(service, claims) {
                Some(wanted) => ttl_update(service, wanted, owner),
                None => Ok(None),
            };
            match update {
                Ok(Some(_)) if rules.lacks_dns_rights => held_back.push(Reason::DnsNotAllowed),
                Ok(Some(update)) => {
                    let place = place.clone();
                    self.add(holder.clone(), Change::UpdateService { place, update });
                }
                Ok(None) => {}
                Err(reason) => held_back.push(reason),
            }
        }
    }

    /// Takes out the TTL updates under names where the cluster has no instance and gets none by this plan. Other
    /// clusters do not see this cluster there, and would raise the TTL again at every run.
    pub fn keep_ttls_without_instances(&mut self, observation: &Observation) {
        let is_accepted = |place: &Place, attributes: &Attributes| {
            let kind = observation.registry.services.get(&place.key).map(|service| service.kind);
            kind.is_none_or(|kind| Reason::record_type_mismatch(kind, attributes).is_none())
        };
        let registers = self.changes.values().flatten().filter_map(|change| match change {
            Change::Register { place, attributes, .. } => {
                Some(place).filter(|place| is_accepted(place, attributes))
            }
            _ => None,
        });
        let registers: BTreeSet<Place> = registers.cloned().collect();
        let has_instance =
            |place: &Place| registers.contains(place) || observation.has_ours(&place.key);
        for (service, change) in
            self.take(|change| change.stage() == Stage::Update && !has_instance(change.place()))
        {
            if let Change::UpdateService { place, update } = change {
                self.hold_back(&service, &place, Reason::ttl_without_instance(&update));
            }
        }
    }
}

impl Reason {
    /// The reason why a cluster without an instance in a service does not update it.
    pub fn ttl_without_instance(update: &ServiceUpdate) -> Self {
        let present = seconds(&update.present);
        let wanted = update.ttl;
        Self::TtlStays { present, wanted, why: TtlObstacle::NoInstance }
    }
}
