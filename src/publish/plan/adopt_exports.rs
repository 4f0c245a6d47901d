//! The adoption of the exports of a member: the instances that AWS's controller registered for it become ours, under
//! their ids. For their readers they are then endpoints of the member as before, so no name has a gap.
//!
//! All of them are adopted, also those that no endpoint asks for: nothing else deregisters them any more. The next sync
//! does, under the guard.

use std::collections::BTreeSet;

use super::adopt::{Former, NotAdopted};
use super::change::Change;
use super::instance::{beyond_limits, carry_over};
use super::observation::{Basis, Observation};
use super::ownership::{is_ecs, likely_owner, may_be_ecs};
use super::reason::Reason;
use super::result::Plan;
use super::wanted::{Wanted, wanted};
use crate::clusterset::attributes::read;
use crate::model::attributes::{EC2_INSTANCE, MARK_PREFIX};
use crate::model::clusterset::{ClusterId, ClustersetId, Member};
use crate::model::{Attributes, Marks, Place, ServiceKey, ServiceRef};

/// The exports of a member that are adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportAdoption {
    pub member: Member,
    /// The exports that have a record, so that their instances count for the member with our marks, too.
    pub recorded: BTreeSet<ServiceRef>,
}

/// Whether an instance without our marks is an endpoint of the member, as AWS's controller registers it.
fn is_of_aws(
    id: &str,
    attributes: &Attributes,
    (cluster, clusterset): (&ClusterId, &ClustersetId),
) -> bool {
    let is_marked = attributes.keys().any(|key| key.starts_with(MARK_PREFIX));
    if is_marked || is_ecs(id, attributes) || may_be_ecs(id, attributes) {
        return false;
    }
    let instance = read(attributes, clusterset).ok().flatten();
    instance.is_some_and(|instance| instance.cluster == *cluster)
}

/// The instances of AWS's controller for the member under a name.
fn of_aws<'a>(
    observation: &'a Observation,
    key: &ServiceKey,
    member: (&'a ClusterId, &'a ClustersetId),
) -> impl Iterator<Item = (&'a String, &'a Attributes)> {
    let instances = observation.registry.instances(key);
    instances.filter(move |(id, attributes)| is_of_aws(id, attributes, member))
}

/// An export under whose name AWS's controller registered instances for the same cluster waits until they are adopted:
/// otherwise each endpoint would be registered twice, and that controller would deregister ours if it came back.
///
/// # Errors
/// Returns the reason if there are such instances.
pub fn must_be_adopted(
    observation: &Observation,
    key: &ServiceKey,
    holder: &ServiceRef,
) -> Result<(), Reason> {
    let published = observation.desired.services.get(holder);
    let Some(exported) = published.and_then(|published| published.export.as_ref()) else {
        return Ok(());
    };
    let member = (&exported.export.cluster, &exported.clusterset);
    match of_aws(observation, key, member).count() {
        0 => Ok(()),
        instances => {
            let cluster = observation.owner.cluster.clone();
            Err(Reason::ExportNotAdopted { instances, cluster })
        }
    }
}

/// The exports with instances of AWS's controller, which have their records before these are adopted.
pub fn to_adopt(basis: Basis<'_>, member: &Member) -> BTreeSet<ServiceRef> {
    let Basis { observation, holders, .. } = basis;
    let member = (&member.cluster, &member.clusterset);
    let held = holders.held();
    let found = held.filter(|(key, _)| of_aws(observation, key, member).next().is_some());
    found.map(|(_, holder)| holder.clone()).collect()
}

/// Plans the adoption of all instances that AWS's controller registered for the member.
pub fn adopt_exports(basis: Basis<'_>, adoption: &ExportAdoption) -> Plan {
    let Basis { observation, holders, .. } = basis;
    let member = (&adoption.member.cluster, &adoption.member.clusterset);
    let mut plan = Plan::default();
    for (key, service) in &observation.registry.services {
        let place = Place::of(key, &observation.registry);
        if let Some(problem) = &service.unreadable {
            plan.unchanged.entry(place).or_default().unreadable = Some(problem.clone());
            continue;
        }
        let Some(namespace) = observation.registry.namespaces.get(&key.namespace) else { continue };
        let name = ServiceRef::new(&namespace.name, &service.name);
        let is_exported = observation.desired.services.contains_key(&name);
        if is_exported && !(holders.holds(key, &name) && adoption.recorded.contains(&name)) {
            continue;
        }
        let wanted = if is_exported { of_export(observation, key, &name) } else { Ok(None) };
        for (id, present) in of_aws(observation, key, member) {
            let adopted = match &wanted {
                Ok(wanted) => adopted(observation, &name, wanted.as_ref(), present)
                    .map_err(|why| Reason::NotAdopted { instance: id.clone(), why }),
                Err(reason) => Err(reason.clone()),
            };
            match adopted {
                Ok(attributes) => {
                    let (place, instance, present) = (place.clone(), id.clone(), present.clone());
                    let former = Former::Unmarked(likely_owner(id, &present));
                    let change = Change::Adopt { place, instance, present, attributes, former };
                    plan.changes.entry(name.clone()).or_default().push(change);
                }
                Err(reason) => plan.hold_back(&name, &place, reason),
            }
        }
    }
    observation.rules.policy.restrict(&mut plan);
    plan.note_present(&observation.registry);
    plan.in_order()
}

/// The instances that an export wants under its name.
fn of_export<'a>(
    observation: &'a Observation,
    key: &ServiceKey,
    name: &ServiceRef,
) -> Result<Option<Wanted<'a>>, Reason> {
    let wanted = wanted(observation, key, std::slice::from_ref(name))?.pop();
    match wanted.as_ref().and_then(|wanted| wanted.refused.clone()) {
        Some(refused) => Err(refused),
        None => Ok(wanted),
    }
}

/// The attributes of an instance after its adoption: those that a sync registers for its endpoint, so that the next one
/// finds no difference, or its own if no endpoint asks for it.
fn adopted(
    observation: &Observation,
    name: &ServiceRef,
    wanted: Option<&Wanted<'_>>,
    present: &Attributes,
) -> Result<Attributes, NotAdopted> {
    if present.contains_key(EC2_INSTANCE) {
        return Err(NotAdopted::Ec2Instance);
    }
    let mut marked = present.clone();
    marked.extend(&Marks { service: name.clone(), pod: None }.write(&observation.owner));
    let asked = wanted.and_then(|wanted| {
        let identity = wanted.identity_of(&marked);
        let mut instances = wanted.instances.values();
        Some(&instances.find(|(wanted, _)| *wanted == identity)?.1)
    });
    let attributes = asked.map_or(marked.clone(), |asked| carry_over(&marked, asked));
    match beyond_limits(&attributes) {
        Some(problem) => Err(NotAdopted::BeyondLimits(problem)),
        None => Ok(attributes),
    }
}
