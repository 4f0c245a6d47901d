//! Differences between an existing service and its holders' annotations. The TTL of its records is repaired if the
//! service has our tag, and reported otherwise. All other settings are fixed when a service is created, and are only
//! reported.
//!
//! If other clusters of this installation have instances under the name, the TTL is the smallest that any of them requests.
//! A run that has not read all of those clusters only lowers it: otherwise each cluster would set its own TTL in turn,
//! forever.

use std::collections::BTreeSet;

use super::change::{Change, Stage};
use super::compare::Comparison;
use super::observation::Observation;
use super::reason::Reason;
use super::result::{Plan, ServiceNote};
use crate::model::{
    Attributes, Claims, CloudMapService, ClusterArn, NamespaceKind, Owner, Place, ServiceKey,
    ServiceKind, ServiceRef, ServiceUpdate, Tags, seconds,
};

/// Whether an update of a service, or a remark on it, depends on its tags.
pub fn depends_on_tags(service: &CloudMapService, own: Option<u32>, owner: &Owner) -> bool {
    Ttl::of(service, own, owner).is_some()
}

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
    /// records, or if these have the TTL that they should have.
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
    /// Compares an existing service with the annotations of a holder of its name: the oldest one decides.
    pub fn add_settings(
        &mut self,
        observation: &Observation,
        place: &Place,
        holder: &ServiceRef,
        comparison: &mut Comparison,
    ) {
        let Observation { registry, desired, holders, owner, rules, .. } = observation;
        let (key, held_back) = (&place.key, &mut comparison.held_back);
        let other = holders.holder(key).filter(|oldest| *oldest != holder);
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
                Some(update) if other.is_none() => {
                    let place = place.clone();
                    self.add(holder.clone(), Change::UpdateService { place, update });
                }
                _ => {}
            }
            let note = note.filter(|_| other.is_none());
            self.unchanged.entry(place.clone()).or_default().notes.extend(note);
        }
        held_back.extend(other.and_then(|it| observation.overridden_settings(key, holder, it)));
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
