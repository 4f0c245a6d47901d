//! The Cloud Map service itself: created with its first instance and, if needed, its namespace. An HTTP namespace gives it
//! no records; in a DNS namespace its Service's ports and address families decide their types. One of ours that was created
//! with records that fit no endpoint is created anew. Tags are read only for the services that [`Observation::tags_needed`] returns.
//!
//! Of an existing service the TTL of the records is repaired if it has our tag, and reported otherwise. All other settings
//! are fixed when a service is created, and are only reported. If other clusters of this installation have instances under
//! the name, the TTL is the smallest that any of them requests. A run that has not read all of those clusters only lowers
//! it: otherwise each cluster would set its own TTL in turn, forever.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Change, Stage};
use super::compare::Comparison;
use super::observation::{Observation, Plan, ServiceNote};
use super::reason::Reason;
use crate::model::{
    Attributes, Claims, CloudMapService, ClusterArn, NamespaceKind, NewService, Owner, Place,
    Records, ServiceKey, ServiceKind, ServiceName, ServiceRef, ServiceUpdate, Tags, seconds,
};

impl Observation {
    /// The Cloud Map services of which a plan needs the tags: those that get our first instance and may be managed by
    /// ECS Service Connect, which uses HTTP services only, those with differences that an update could change, and
    /// those that may have to be created anew.
    pub fn tags_needed(&self) -> BTreeSet<ServiceKey> {
        let Observation { holders, affected, .. } = self;
        let held = holders.held().filter(|(_, holder)| affected.contains(*holder));
        let needed = held.filter(|(key, holder)| {
            let service = self.registry.services.get(key);
            let Some(service) = service.filter(|service| !service.is_never_read()) else {
                return false;
            };
            let claims = self.desired.claims(holder);
            let first = service.kind == ServiceKind::Http && !self.has_ours(key);
            let owner = &self.owner;
            let differs = |claims: &Claims| Ttl::of(service, claims.ttl, owner).is_some();
            let misfits = || service.held() == 0 && self.may_misfit(service, holder);
            first || claims.is_some_and(differs) || misfits()
        });
        let left = self
            .left_by_claims()
            .filter(|(_, service, _)| Ttl::of(service, None, &self.owner).is_some());
        needed.map(|(key, _)| key).chain(left.map(|(key, ..)| key)).cloned().collect()
    }

    /// The TTL that the cluster requests under every name it holds. A name has no entry if its holder is not known by a read
    /// of this run, or if the claims of that one are unclear: its turn sets no TTL then, in whatever order clusters are read.
    pub fn ttls_asked(&self) -> BTreeMap<ServiceKey, Option<u32>> {
        let holders = &self.holders;
        let services = &self.registry.services;
        let is_known =
            |key: &&ServiceKey| services.get(key).is_none_or(CloudMapService::is_current);
        let asked = holders.keys().filter(is_known).filter_map(|key| {
            let holder = holders.holder(key).filter(|it| !holders.is_unclear(it))?;
            Some((key.clone(), self.desired.claims(holder)?.ttl))
        });
        asked.collect()
    }

    /// Whether the claims of every Service are known, with the namespaces of their names.
    pub fn is_clear(&self) -> bool {
        self.holders.unclear().next().is_none()
    }

    /// Whether an instance of ours is registered under the key.
    pub fn has_ours(&self, key: &ServiceKey) -> bool {
        self.ours(key).next().is_some()
    }

    /// Whether instances of ours may be registered in an existing service.
    ///
    /// # Errors
    /// Returns the reason if no instance can be registered there.
    pub fn may_register_in(
        &self,
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
            _ if service.kind != ServiceKind::Http || self.has_ours(key) => Ok(()),
            Tags::Read(tags) if tags.managed_by_ecs => Err(Reason::ServiceConnect),
            // It is unknown whether ECS manages the service.
            Tags::Unreadable(problem) => Err(Reason::Unreadable(problem.clone())),
            Tags::Read(_) | Tags::Unread => Ok(()),
        }
    }

    /// The settings of a new service under `key`, as its holder requests them. If the holder states no families, those of
    /// its endpoints decide; without any, nothing is created.
    pub fn new_service(&self, key: &ServiceKey, holder: &ServiceRef) -> Option<NewService> {
        let published = self.desired.services.get(holder)?;
        let claims = published.claims.as_ref().ok()?;
        let namespace = self.registry.namespaces.get(&key.namespace)?;
        let same = |name: &&ServiceName| ServiceKey::new(namespace, name.as_str()) == *key;
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
        let name = claims.names.iter().find(same)?.clone();
        let (namespace, ttl) = (namespace.clone(), claims.ttl.unwrap_or(DEFAULT_TTL));
        let routing_policy = claims.routing_policy.unwrap_or_default();
        Some(NewService { namespace, name, kind, ttl, routing_policy })
    }

    /// Whether the only claimant of a name can be registered in its Cloud Map service.
    ///
    /// # Errors
    /// Returns the reason if that is [`Self::misfit`].
    pub fn fits(&self, key: &ServiceKey) -> Result<(), Reason> {
        let mut claimants = self.holders.claimants(key);
        let only = claimants.next().filter(|_| claimants.next().is_none());
        only.and_then(|only| self.misfit(key, only)).map_or(Ok(()), Err)
    }

    /// The reason why an empty service of ours takes no endpoint of `claimant`: its records need both families, which
    /// Cloud Map does not change, and no endpoint has both.
    pub fn misfit(&self, key: &ServiceKey, claimant: &ServiceRef) -> Option<Reason> {
        let service = self.registry.services.get(key)?;
        let is_ours = service.is_tagged(&self.owner.id);
        let is_empty = service.instances.as_ref().is_some_and(|it| it.is_empty());
        let families = self.desired.services.get(claimant)?.endpoint_families();
        if !is_ours || !is_empty || families.len() != 1 || !self.may_misfit(service, claimant) {
            return None;
        }
        let fitting = self.new_service(key, claimant)?.kind;
        let delete = (!self.rules.deletes_services()).then(|| service.delete_command());
        Some(Reason::RecordsMisfit { fitting, delete })
    }

    /// Whether a service has records of both families, and a Service that publishes itself there does not state both.
    pub fn may_misfit(&self, service: &CloudMapService, claimant: &ServiceRef) -> bool {
        let has_both =
            matches!(service.kind, ServiceKind::Dns(Records { a: true, aaaa: true, .. }));
        let published = self.desired.services.get(claimant);
        let states_both = published.is_some_and(|it| it.families.len() > 1);
        let publishes = self.desired.claims(claimant).is_some_and(|it| it.publish);
        has_both && publishes && !states_both
    }
}

/// TTL in seconds of the records of a new DNS service if no annotation sets one.
const DEFAULT_TTL: u32 = 60;

impl Plan {
    /// Adds the creation of each missing service to the changes of the holder of the name, which registers an instance in
    /// it.
    pub(super) fn create_services(&mut self, observation: &Observation) {
        let registers = |it: &&Change| it.stage() == Stage::Register;
        let places = self.changes.values().flatten().filter(registers).map(Change::place);
        let exists = |place: &Place| observation.registry.services.contains_key(&place.key);
        let missing: BTreeSet<Place> = places.filter(|it| !exists(it)).cloned().collect();
        for place in missing {
            let Some(holder) = observation.holders.holder(&place.key) else { continue };
            if let Some(service) = observation.new_service(&place.key, holder) {
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

/// The update that a service needs by the TTL that the cluster itself requests, and remarks on it.
///
/// # Errors
/// Returns the reason if the service must stay as it is.
fn update(
    service: &CloudMapService,
    own: Option<u32>,
    owner: &Owner,
) -> Result<(Option<ServiceUpdate>, Option<ServiceNote>), Reason> {
    let ttl = Ttl::of(service, own, owner);
    let (ServiceKind::Dns(records), Some(ttl)) = (service.kind, ttl) else {
        return Ok((None, None));
    };
    let present = service.ttls.clone();
    match (&service.tags, own) {
        (Tags::Unreadable(problem), _) => return Err(Reason::TagsUnreadable(problem.clone())),
        (_, Some(wanted)) if !service.is_tagged(&owner.id) => {
            return Err(Reason::TtlNotOurs { present: seconds(&present), wanted });
        }
        _ if !service.is_tagged(&owner.id) => return Ok((None, None)),
        _ => {}
    }
    let change = ttl.change();
    if change.is_some() && service.holds_instances_of_other_accounts() {
        let holds = "it holds instances that other accounts registered";
        return Err(Reason::UpdateRefused(holds.to_owned()));
    }
    let note = ttl.note(change);
    let update = change.map(|ttl| ServiceUpdate {
        description: service.description.clone(),
        records,
        ttl,
        health_check: service.health_check.clone(),
        present,
    });
    Ok((update, note))
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

/// The requests for the TTL of an existing service.
struct Ttl<'a> {
    service: &'a CloudMapService,
    own: Option<u32>,
    /// The other clusters of this installation with instances under the name.
    others: BTreeSet<ClusterArn>,
}

impl<'a> Ttl<'a> {
    /// The TTL that the holder of a name requests, and the other clusters that share it; `None` if the service has no
    /// records, or if these have the TTL that they should have. Otherwise the tags decide whether it is updated.
    fn of(service: &'a CloudMapService, own: Option<u32>, owner: &Owner) -> Option<Self> {
        if !matches!(service.kind, ServiceKind::Dns(_)) || service.ttls.is_empty() {
            return None;
        }
        let ttl = Self { service, own, others: other_clusters(service, owner) };
        let differs_from_own = own.is_some_and(|own| service.ttls != BTreeSet::from([own]));
        (differs_from_own || ttl.change().is_some()).then_some(ttl)
    }

    /// The TTL to set; `None` if it stays.
    fn change(&self) -> Option<u32> {
        let asked = &self.service.ttls_asked;
        let others = self.others.iter().filter_map(|other| *asked.get(other)?);
        let smallest = self.own.into_iter().chain(others).min()?;
        let (lowest, highest) = (*self.service.ttls.first()?, *self.service.ttls.last()?);
        let knows_all = self.others.iter().all(|other| asked.contains_key(other));
        let wanted = if knows_all { smallest } else { smallest.min(lowest) };
        // The cluster that requests less lowers it itself, in any order of reading; the last one read raises it.
        let is_ours = self.own == Some(smallest) || wanted > highest;
        (is_ours && self.service.ttls != BTreeSet::from([wanted])).then_some(wanted)
    }

    /// The note if this cluster does not get the TTL that it requests, since other clusters share the service.
    fn note(&self, change: Option<u32>) -> Option<ServiceNote> {
        let (wanted, ttls) = (self.own?, &self.service.ttls);
        let result = change.map_or(ttls.clone(), |ttl| BTreeSet::from([ttl]));
        let waits = !self.others.is_empty() && result != BTreeSet::from([wanted]);
        waits.then(|| ServiceNote::TtlWaits {
            wanted,
            present: seconds(&result),
            others: self.others.iter().map(|other| other.name().to_owned()).collect(),
        })
    }
}

/// The other clusters of this installation with instances in a service.
fn other_clusters(service: &CloudMapService, owner: &Owner) -> BTreeSet<ClusterArn> {
    let instances = service.instances.iter().flat_map(|instances| instances.values());
    let marked =
        instances.filter_map(|attributes| Owner::marked(&owner.id, owner.flow, attributes));
    marked.map(|marked| marked.cluster).filter(|it| *it != owner.cluster).collect()
}

impl Observation {
    /// The services in which the cluster has instances and claims nothing any more, each with the Service of one of
    /// these. If it is the last cluster of a run to be read, it alone knows what all clusters ask for there.
    pub fn left_by_claims(
        &self,
    ) -> impl Iterator<Item = (&ServiceKey, &CloudMapService, ServiceRef)> {
        let Observation { holders, affected, registry, .. } = self;
        let left = registry.services.iter().filter(|(key, service)| {
            !service.ttls_asked.is_empty()
                && holders.holder(key).is_none()
                && !self.marked_services(key).any(|it| holders.is_unclear(&it))
        });
        left.filter_map(|(key, service)| {
            let marked = self.marked_services(key).find(|it| affected.contains(it))?;
            Some((key, service, marked))
        })
    }
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
        let (key, held_back) = (&place.key, &mut comparison.held_back);
        let service = registry.services.get(key).zip(desired.claims(holder));
        if let Some((service, claims)) = service {
            let namespace = registry.namespaces.get(&key.namespace).into_iter();
            held_back.extend(namespace.flat_map(|it| remarks(service, it.kind, claims)));
            let (update, note) = update(service, claims.ttl, owner).unwrap_or_else(|reason| {
                held_back.push(reason);
                (None, None)
            });
            match update {
                Some(_) if rules.lacks_dns_rights => held_back.push(Reason::DnsNotAllowed),
                Some(update) => {
                    let place = place.clone();
                    self.add(holder.clone(), Change::UpdateService { place, update });
                }
                None => {}
            }
            self.unchanged.entry(place.clone()).or_default().notes.extend(note);
        }
    }

    /// Updates the services that the cluster's claims have left to what the other clusters ask for.
    pub fn update_left(&mut self, observation: &Observation) {
        for (key, service, marked) in observation.left_by_claims() {
            if let Ok((Some(update), _)) = update(service, None, &observation.owner) {
                let place = Place::of(key, &observation.registry);
                self.add(marked, Change::UpdateService { place, update });
            }
        }
    }

    /// The updates of services, without all else. A TTL that several clusters share is raised only by a run that knows
    /// what each of them asks for.
    #[must_use]
    pub fn updates_alone(self) -> Self {
        self.only(|change| change.stage() == Stage::Update)
    }

    /// Leaves the TTL to the others if a cluster has no instance under a name and gets none by this plan. Other
    /// clusters do not know of it, and would set theirs again at every run.
    pub fn leave_ttls_to_others(&mut self, observation: &Observation) {
        let is_accepted = |place: &Place, attributes: &Attributes| {
            let kind = observation.registry.services.get(&place.key).map(|it| it.kind);
            kind.is_none_or(|it| Reason::of_one_family(it, attributes).is_none())
        };
        let registers = self.changes.values().flatten().filter_map(|change| match change {
            Change::Register { place, attributes, .. } => {
                Some(place).filter(|it| is_accepted(it, attributes))
            }
            _ => None,
        });
        let registers: BTreeSet<Place> = registers.cloned().collect();
        let has_say = |place: &Place| registers.contains(place) || observation.has_ours(&place.key);
        self.take(|it| it.stage() == Stage::Update && !has_say(it.place()));
        for (place, unchanged) in &mut self.unchanged {
            let stays =
                |it: &ServiceNote| !matches!(it, ServiceNote::TtlWaits { .. }) || has_say(place);
            unchanged.notes.retain(stays);
        }
    }
}
