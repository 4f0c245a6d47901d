//! The guard's notes. If a full sync holds the loss of a Service, it writes a note on one instance of that Service. The
//! note is an attribute of the instance, so every run that reads the instance reads the note, too. A note counts only
//! while the marks of the instance name its Service, and it is deleted with the instance. A foreign instance never gets
//! a note.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Change, Difference};
use super::observation::{Observation, Plan};
use crate::guard::{Age, Losses, Sighting, SightingNote, Sightings};
use crate::model::attributes::SIGHTING;
use crate::model::{Attributes, InstanceKey, Owner, Place, ServiceRef};

/// A note on an instance of ours.
struct Noted<'a> {
    at: InstanceKey,
    /// The Service in the marks of the instance.
    service: ServiceRef,
    text: &'a str,
}

/// The instances of ours, by the Service in their marks.
pub type OwnInstances<'a> = BTreeMap<ServiceRef, Vec<(InstanceKey, &'a Attributes)>>;

/// A planned removal of an instance.
struct Removal {
    /// The Service for which it is planned.
    planned_for: ServiceRef,
    /// Whether it waits for another change, so that it may not happen in this run.
    waits: bool,
}

fn noted(observation: &Observation) -> impl Iterator<Item = Noted<'_>> {
    observation.registry.services.keys().flat_map(move |key| {
        observation.our_instances(key).filter_map(move |(id, attributes)| {
            let text = attributes.get(SIGHTING)?;
            let service = observation.owner.service_of(attributes)?;
            Some(Noted { at: InstanceKey::new(key, id), service, text })
        })
    })
}

/// Returns the oldest sighting of each Service's loss, from the notes that have not expired.
pub fn sightings(observation: &Observation) -> Sightings {
    let mut sightings = Sightings::new();
    for Noted { service, text, .. } in noted(observation) {
        let sighting = SightingNote::parse(text).and_then(|note| note.sighting(&service));
        let counts = |sighting: &Sighting| {
            sighting.age(observation.rules.guard, observation.now) != Age::Stale
        };
        let Some(sighting) = sighting.filter(counts) else { continue };
        let oldest = sightings.entry(service).or_insert(sighting);
        if sighting.first_seen < oldest.first_seen {
            *oldest = sighting;
        }
    }
    sightings
}

/// Whether a change removes an instance with a note.
pub fn removes_note(observation: &Observation, change: &Change) -> bool {
    let instance = change.instance().unwrap_or_default();
    let present = observation.registry.instance(&change.place().key, instance);
    let has_note = |attributes: &Attributes| attributes.contains_key(SIGHTING);
    change.deregisters_instance_of().is_some() && present.is_some_and(has_note)
}

/// Whether an instance of the Service has room for a note.
pub fn has_room_for_note(observation: &Observation, service: &ServiceRef) -> bool {
    let text = SightingNote::of(&Losses::new(), observation.now).to_string() + LONGEST_ENTRY;
    let own = instances_of(observation, |marked| marked == service);
    own.values().flatten().any(|(_, attributes)| has_room(attributes, &text))
}

/// The instances of the Services for which `is_wanted` is true.
pub fn instances_of(
    observation: &Observation,
    is_wanted: impl Fn(&ServiceRef) -> bool,
) -> OwnInstances<'_> {
    let mut own = OwnInstances::new();
    for key in observation.registry.services.keys() {
        for instance in observation
            .our_instances_with_service(key)
            .filter(|instance| is_wanted(&instance.service))
        {
            let at = InstanceKey::new(key, instance.id);
            own.entry(instance.service).or_default().push((at, instance.attributes));
        }
    }
    own
}

/// Plans the changes of notes besides the other changes of a plan. It knows the instances that the plan removes or
/// passes to another Service, and the removals that the guard holds.
pub struct NoteChanges<'a> {
    observation: &'a Observation,
    removed: BTreeMap<InstanceKey, Removal>,
    /// The instances that pass to another Service.
    passed_on: BTreeSet<InstanceKey>,
    /// The instances whose removal the guard holds.
    held: BTreeSet<InstanceKey>,
}

impl<'a> NoteChanges<'a> {
    /// Prepares the notes for a plan from which the guard took the `held` removals.
    pub fn new(observation: &'a Observation, plan: &Plan, held: &[Change]) -> Self {
        let mut removed = BTreeMap::new();
        let mut passed_on = BTreeSet::new();
        for (planned_for, changes) in &plan.changes {
            for change in changes {
                let Some(at) = change.instance_key() else { continue };
                if change.losing_service().is_some() {
                    let waits = change.waits_for().is_some();
                    removed.insert(at, Removal { planned_for: planned_for.clone(), waits });
                } else if passes_on(observation, change) {
                    passed_on.insert(at);
                }
            }
        }
        let held = held.iter().filter_map(Change::instance_key).collect();
        Self { observation, removed, passed_on, held }
    }

    /// Whether the plan removes the instance.
    pub fn is_removed(&self, at: &InstanceKey) -> bool {
        self.removed.contains_key(at)
    }

    /// Whether the plan leaves the instance to its Service.
    pub fn stays(&self, at: &InstanceKey) -> bool {
        !self.is_removed(at) && !self.passed_on.contains(at)
    }

    /// Plans the note of a Service's loss on one of the instances that `may_be_at` accepts, and removes the Service's
    /// other notes. Prefers an instance that already has a note, then one whose removal the guard holds, since the note
    /// is then deleted with the instance. Returns false if no such instance has room, or if the policy does not allow
    /// the note.
    pub fn add(
        &self,
        service: &ServiceRef,
        own: &[(InstanceKey, &Attributes)],
        note: &SightingNote,
        may_be_at: impl Fn(&InstanceKey) -> bool,
        plan: &mut Plan,
    ) -> bool {
        let text = note.to_string();
        let candidates =
            own.iter().filter(|(at, attributes)| has_room(attributes, &text) && may_be_at(at));
        let chosen = candidates.min_by_key(|(at, attributes)| {
            (!attributes.contains_key(SIGHTING), !self.held.contains(at), at.clone())
        });
        let Some((chosen, _)) = chosen else { return false };
        for (at, attributes) in own {
            if at != chosen && attributes.contains_key(SIGHTING) {
                self.remove(at, service, plan);
            }
        }
        self.put(chosen, service, Some(text), plan)
    }

    /// Plans the removal of the notes of the Services for which `is_obsolete` is true.
    pub fn remove_all(&self, is_obsolete: impl Fn(&ServiceRef) -> bool, plan: &mut Plan) {
        for Noted { at, service, .. } in noted(self.observation) {
            if is_obsolete(&service) {
                self.remove(&at, &service, plan);
            }
        }
    }

    /// Plans the removal of a note, unless the plan already removes it with its instance.
    fn remove(&self, at: &InstanceKey, service: &ServiceRef, plan: &mut Plan) {
        let is_removed = self.removed.get(at).is_some_and(|removal| !removal.waits);
        if !is_removed && !self.passed_on.contains(at) {
            self.put(at, service, None, plan);
        }
    }

    /// Plans a note, or its removal. If the plan deregisters the instance for another Service, the note is planned
    /// under that Service instead. Returns false if the policy does not allow the change.
    fn put(
        &self,
        at: &InstanceKey,
        service: &ServiceRef,
        text: Option<String>,
        plan: &mut Plan,
    ) -> bool {
        let registry = &self.observation.registry;
        let present = registry.instance(&at.service, &at.id);
        let present = present.and_then(|attributes| attributes.get(SIGHTING));
        if present == text.as_deref() {
            return true;
        }
        let change = Change::Note {
            place: Place::of(&at.service, registry),
            instance: at.id.clone(),
            service: service.clone(),
            difference: difference(present, text.as_deref()),
            text,
        };
        if !self.observation.rules.policy.allows(&change) {
            return false;
        }
        let planned_for =
            self.removed.get(at).map_or(service, |removal| &removal.planned_for).clone();
        plan.add(planned_for, change);
        true
    }
}

/// Whether the instance passes to another Service. The rewrite then drops the note.
fn passes_on(observation: &Observation, change: &Change) -> bool {
    let Change::Rewrite { place, instance, attributes, .. } = change else { return false };
    let owner = &observation.owner;
    let present = observation.registry.instance(&place.key, instance);
    present.and_then(|present| owner.service_of(present)) != owner.service_of(attributes)
}

/// Returns the present attributes of an instance with the note, or without it if `text` is `None`. Returns `None` if
/// the instance no longer belongs to the Service.
pub fn with_note(
    owner: &Owner,
    service: &ServiceRef,
    present: &Attributes,
    text: Option<&str>,
) -> Option<Attributes> {
    if owner.service_of(present).as_ref() != Some(service) {
        return None;
    }
    let mut attributes = present.clone();
    set_note(&mut attributes, text);
    Some(attributes)
}

/// Whether an instance with a note of this text stays within Cloud Map's limits.
fn has_room(attributes: &Attributes, text: &str) -> bool {
    let mut noted = attributes.clone();
    noted.insert(SIGHTING, text);
    noted.beyond_limits().is_none()
}

/// An example of the longest entry of a note: a space, the hash of a Service, `+` and the number of instances after the
/// loss. The number has five digits: a Service may want at most 5,000 instances, but it may have had more before.
const LONGEST_ENTRY: &str = " 3fa9c1+20000";

/// Sets the note of an instance, or removes it.
pub fn set_note(attributes: &mut Attributes, text: Option<&str>) {
    match text {
        Some(text) => attributes.insert(SIGHTING, text),
        None => attributes.remove(SIGHTING),
    }
}

/// The difference in a note for the report, which shows only the time at the start of the note.
fn difference(present: Option<&str>, text: Option<&str>) -> Difference {
    let time = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
    let present = present.map(time);
    let wanted = text.map(time);
    Difference { attribute: SIGHTING.to_owned(), present, wanted }
}
