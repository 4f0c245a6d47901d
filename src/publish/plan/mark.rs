//! The guard's notes. The loss of a Service that a full sync holds is noted on one of that Service's own instances, as a
//! mark: so whoever reads the instances that would be lost reads the note as well. A note counts only on an instance with
//! the marks of its Service, and goes with it. Instances of other owners never get one.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Change, Difference};
use super::observation::{Observation, Plan};
use crate::guard::{Age, Losses, Sighting, SightingNote, Sightings};
use crate::model::attributes::SIGHTING;
use crate::model::{Attributes, InstanceKey, Place, ServiceRef};

/// A note on an instance of ours.
struct Noted<'a> {
    at: InstanceKey,
    /// The Service in the marks of the instance.
    service: ServiceRef,
    text: &'a str,
}

/// The instances of ours, by the Service in their marks.
pub type OwnInstances<'a> = BTreeMap<ServiceRef, Vec<(InstanceKey, &'a Attributes)>>;

/// The instances that a plan takes from their Services, or would take.
#[derive(Default)]
pub struct Leaving {
    pub removed: BTreeMap<InstanceKey, Removal>,
    /// Those that pass to another Service.
    pub passed_on: BTreeSet<InstanceKey>,
    /// Those that would be removed, and that the guard holds.
    pub held: BTreeSet<InstanceKey>,
}

/// A planned removal of an instance.
pub struct Removal {
    /// The Service for which it is planned.
    planned_for: ServiceRef,
    /// Whether it waits for something.
    waits: bool,
}

impl Observation {
    fn notes(&self) -> impl Iterator<Item = Noted<'_>> {
        self.registry.services.keys().flat_map(|key| {
            let noted = self
                .ours(key)
                .filter_map(|(id, attributes)| Some((id, attributes, attributes.get(SIGHTING)?)));
            noted.filter_map(|(id, attributes, text)| {
                let service = self.owner.service_of(attributes)?;
                Some(Noted { at: InstanceKey::new(key, id), service, text })
            })
        })
    }

    /// What full syncs have seen of the loss of each Service, as far as its notes count: the oldest of them.
    pub fn sightings(&self) -> Sightings {
        let mut sightings = Sightings::new();
        for Noted { service, text, .. } in self.notes() {
            let sighting = SightingNote::parse(text).and_then(|note| note.sighting(&service));
            let counts =
                |sighting: &Sighting| sighting.age(self.rules.guard, self.now) != Age::Stale;
            let Some(sighting) = sighting.filter(counts) else { continue };
            let oldest = sightings.entry(service).or_insert(sighting);
            if sighting.first_seen < oldest.first_seen {
                *oldest = sighting;
            }
        }
        sightings
    }

    /// Whether a change removes an instance with a note.
    pub fn removes_note(&self, change: &Change) -> bool {
        let instance = change.instance().unwrap_or_default();
        let present = self.registry.instance(&change.place().key, instance);
        change.marked().is_some() && present.is_some_and(|it| it.contains_key(SIGHTING))
    }

    /// Whether an instance of the Service has room for a note.
    pub fn has_room_for_note(&self, service: &ServiceRef) -> bool {
        let text = SightingNote::of(&Losses::new(), self.now).to_string() + LONGEST_ENTRY;
        let own = self.instances_of(|marked| marked == service);
        own.values().flatten().any(|(_, attributes)| has_room(attributes, &text))
    }

    /// The instances of the Services for which `is_meant` is true.
    pub fn instances_of(&self, is_meant: impl Fn(&ServiceRef) -> bool) -> OwnInstances<'_> {
        let mut own = OwnInstances::new();
        for key in self.registry.services.keys() {
            for instance in self.marked(key).filter(|instance| is_meant(&instance.service)) {
                let at = InstanceKey::new(key, instance.id);
                own.entry(instance.service).or_default().push((at, instance.attributes));
            }
        }
        own
    }

    /// The instances that a plan takes from their Services.
    pub fn leaving(&self, plan: &Plan) -> Leaving {
        let mut leaving = Leaving::default();
        for (planned_for, changes) in &plan.changes {
            for change in changes {
                let Some(at) = change.instance_key() else { continue };
                if change.loses().is_some() {
                    let waits = change.waits_for().is_some();
                    leaving.removed.insert(at, Removal { planned_for: planned_for.clone(), waits });
                } else if self.passes_on(change) {
                    leaving.passed_on.insert(at);
                }
            }
        }
        leaving
    }

    /// Plans the note of a Service's loss in place of others that the Service has, on one of its instances for which
    /// `may_be_at` is true, and rather on one that the guard holds: with that it goes. Returns false if none has room for
    /// it.
    pub fn add_note(
        &self,
        service: &ServiceRef,
        own: &[(InstanceKey, &Attributes)],
        note: &SightingNote,
        leaving: &Leaving,
        may_be_at: impl Fn(&InstanceKey) -> bool,
        plan: &mut Plan,
    ) -> bool {
        let text = note.to_string();
        let rooms =
            own.iter().filter(|(at, attributes)| has_room(attributes, &text) && may_be_at(at));
        let chosen = rooms.min_by_key(|(at, attributes)| {
            (!attributes.contains_key(SIGHTING), !leaving.held.contains(at), at.clone())
        });
        let Some((chosen, _)) = chosen else { return false };
        for (at, attributes) in own {
            if at != chosen && attributes.contains_key(SIGHTING) {
                self.take_note_off(at, service, leaving, plan);
            }
        }
        self.put_note(chosen, service, Some(text), leaving, plan)
    }

    /// Plans to take off the notes of the Services for which `goes` is true.
    pub fn take_notes_off(&self, goes: impl Fn(&ServiceRef) -> bool, plan: &mut Plan) {
        let leaving = self.leaving(plan);
        for Noted { at, service, .. } in self.notes().filter(|noted| goes(&noted.service)) {
            self.take_note_off(&at, &service, &leaving, plan);
        }
    }

    /// Plans to take a note off, unless it goes with its instance.
    fn take_note_off(
        &self,
        at: &InstanceKey,
        service: &ServiceRef,
        leaving: &Leaving,
        plan: &mut Plan,
    ) {
        let is_removed = leaving.removed.get(at).is_some_and(|removal| !removal.waits);
        if !is_removed && !leaving.passed_on.contains(at) {
            self.put_note(at, service, None, leaving, plan);
        }
    }

    /// Whether the instance passes to another Service, which drops the note.
    fn passes_on(&self, change: &Change) -> bool {
        let Change::Rewrite { place, instance, attributes, .. } = change else { return false };
        let present = self.registry.instance(&place.key, instance);
        present.and_then(|present| self.owner.service_of(present))
            != self.owner.service_of(attributes)
    }

    /// Plans a note, for the Service for which the instance is deregistered if there is one. Returns false if the policy does not
    /// allow it.
    fn put_note(
        &self,
        at: &InstanceKey,
        service: &ServiceRef,
        text: Option<String>,
        leaving: &Leaving,
        plan: &mut Plan,
    ) -> bool {
        let present = self.registry.instance(&at.service, &at.id);
        let present = present.and_then(|attributes| attributes.get(SIGHTING));
        let difference = difference(present, text.as_deref());
        if present == text.as_deref() {
            return true;
        }
        let (place, instance) = (Place::of(&at.service, &self.registry), at.id.clone());
        let change = Change::Note { place, instance, service: service.clone(), difference, text };
        if !self.rules.policy.allows(&change) {
            return false;
        }
        let planned_for =
            leaving.removed.get(at).map_or(service, |removal| &removal.planned_for).clone();
        plan.add(planned_for, change);
        true
    }

    /// The attributes that write a note on an instance as Cloud Map has it; `None` if it is not an instance of this Service
    /// any more.
    pub fn with_note(
        &self,
        service: &ServiceRef,
        present: &Attributes,
        text: Option<&str>,
    ) -> Option<Attributes> {
        if self.owner.service_of(present).as_ref() != Some(service) {
            return None;
        }
        let mut attributes = present.clone();
        set_note(&mut attributes, text);
        Some(attributes)
    }
}

/// Whether an instance with one more attribute stays within Cloud Map's limits.
fn has_room(attributes: &Attributes, text: &str) -> bool {
    let mut noted = attributes.clone();
    noted.insert(SIGHTING, text);
    noted.beyond_limits().is_none()
}

/// The longest entry of a Service in a note. A Service wants at most 5,000 instances, and may have had more.
const LONGEST_ENTRY: &str = " 3fa9c1+20000";

/// Sets the note of an instance, or takes it off.
pub fn set_note(attributes: &mut Attributes, text: Option<&str>) {
    match text {
        Some(text) => attributes.insert(SIGHTING, text),
        None => attributes.remove(SIGHTING),
    }
}

/// The difference in a note for the report: only the time at its start.
fn difference(present: Option<&str>, text: Option<&str>) -> Difference {
    let time = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
    let (present, wanted) = (present.map(time), text.map(time));
    Difference { attribute: SIGHTING.to_owned(), present, wanted }
}
