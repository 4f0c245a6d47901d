//! The guard's notes. The loss of a Service that a full sync holds is noted on one of that Service's own instances, as a
//! mark: so whoever reads the instances that would be lost reads the note as well. A note counts only on an instance with
//! the marks of its Service, and goes with it. Instances of other owners never get one.

use std::collections::BTreeSet;

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
        self.rooms(service, &text).next().is_some()
    }

    /// The instances of a Service that have room for a note.
    fn rooms(&self, service: &ServiceRef, text: &str) -> impl Iterator<Item = InstanceKey> {
        self.registry.services.keys().flat_map(move |key| {
            let own = self.marked(key).filter(move |instance| instance.service == *service);
            let with_room = own.filter(move |instance| {
                let mut noted = instance.attributes.clone();
                noted.insert(SIGHTING, text);
                noted.beyond_limits().is_none()
            });
            with_room.map(move |instance| InstanceKey::new(key, instance.id))
        })
    }

    /// Plans the note of a Service's loss in place of others that the Service has, on an instance for which `may_be_at` is
    /// true, and rather on one that the loss is about: with that it goes. Returns false if none has room for it.
    pub fn add_note(
        &self,
        service: &ServiceRef,
        note: &SightingNote,
        lost: &BTreeSet<InstanceKey>,
        may_be_at: impl Fn(&InstanceKey, &Plan) -> bool,
        plan: &mut Plan,
    ) -> bool {
        let text = note.to_string();
        let is_noted = |at: &InstanceKey| {
            let present = self.registry.instance(&at.service, &at.id);
            present.is_some_and(|attributes| attributes.contains_key(SIGHTING))
        };
        let rooms = self.rooms(service, &text).filter(|at| may_be_at(at, plan));
        let Some(at) = rooms.min_by_key(|at| (!is_noted(at), !lost.contains(at), at.clone()))
        else {
            return false;
        };
        self.take_notes_off(|noted, of| of == service && *noted != at, plan);
        self.put_note(&at, service, Some(text), plan)
    }

    /// Plans to take the notes off the instances for which `goes` is true.
    pub fn take_notes_off(
        &self,
        goes: impl Fn(&InstanceKey, &ServiceRef) -> bool,
        plan: &mut Plan,
    ) {
        for Noted { at, service, .. } in self.notes() {
            let goes_with_it = |change: &Change| {
                let is_removed = change.loses().is_some() && change.waits_for().is_none();
                change.is_about(&at) && (is_removed || self.passes_on(change))
            };
            let mut changes = plan.changes.values().flatten();
            if goes(&at, &service) && !changes.any(goes_with_it) {
                self.put_note(&at, &service, None, plan);
            }
        }
    }

    /// Whether the instance passes to another Service, which drops the note.
    pub fn passes_on(&self, change: &Change) -> bool {
        let Change::Rewrite { place, instance, attributes, .. } = change else { return false };
        let present = self.registry.instance(&place.key, instance);
        present.and_then(|present| self.owner.service_of(present))
            != self.owner.service_of(attributes)
    }

    /// Plans a note, in the turn in which the instance is deregistered if there is one. Returns false if the policy does not
    /// allow it.
    fn put_note(
        &self,
        at: &InstanceKey,
        service: &ServiceRef,
        text: Option<String>,
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
        let is_removed = |change: &Change| change.is_about(at) && change.loses().is_some();
        let turn = plan.changes.iter().find(|(_, changes)| changes.iter().any(is_removed));
        let turn = turn.map_or(service, |(turn, _)| turn).clone();
        plan.add(turn, change);
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

/// The longest entry of a Service in a note: a Cloud Map service has at most 1,000 instances, a Service at most 20 names.
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
