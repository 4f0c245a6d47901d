//! Notes of the function for its later runs. A note is a mark on an instance of ours, set and removed by ordinary
//! changes of the plan. If no instance of ours has room for one, it is an attribute of a Cloud Map service that is tagged
//! ours. Instances and services of other owners never get one.

use super::change::{Change, Difference};
use super::observation::{Observation, Plan};
use crate::model::attributes::SIGHTING;
use crate::model::{Attributes, Flow, InstanceKey, Owner, Place, ServiceAttributes, ServiceKey};

/// The longest value of an attribute, and so the longest note.
const LONGEST: usize = 1024;
/// Cloud Map's limit for the attributes of a service.
const MAX_SERVICE_ATTRIBUTES: usize = 30;

/// The place of a note.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotePlace {
    Instance(InstanceKey),
    Service(ServiceKey),
}

impl Observation {
    /// The places with a note of ours, each with its text.
    pub fn notes(&self, mark: &'static str) -> impl Iterator<Item = (NotePlace, &str)> {
        let attribute = service_attribute(&self.owner, mark);
        self.registry.services.iter().flat_map(move |(key, service)| {
            let on_instances = self.ours(key).filter_map(move |(id, attributes)| {
                Some((NotePlace::Instance(InstanceKey::new(key, id)), attributes.get(mark)?))
            });
            let on_service = service.attributes.get(&attribute);
            on_instances.chain(on_service.map(|text| (NotePlace::Service(key.clone()), text)))
        })
    }

    /// The Cloud Map services with instances of ours, of which the first that is tagged ours gets the notes, and whether a
    /// verdict lacks a note, which may be on any of them. There are none if an instance has room for any note and no
    /// verdict depends on one.
    pub fn services_for_notes(&self) -> (Vec<ServiceKey>, bool) {
        let longest = "x".repeat(LONGEST);
        let keys = self.registry.services.keys().filter(|key| self.has_ours(key));
        let lacks_note = keys.clone().next().is_some() && self.lacks_note();
        let mut instances = keys.clone().flat_map(|key| self.ours(key));
        if !lacks_note && instances.any(|(_, it)| has_room(it, SIGHTING, &longest)) {
            return (Vec::new(), false);
        }
        let mut keys: Vec<ServiceKey> = keys.cloned().collect();
        // One that all leave for other names comes last: with the last of them its note would be out of sight.
        keys.sort_by_key(|key| {
            let mut marked = self.marked_services(key);
            marked.all(|it| self.holders.claims(&it).is_some_and(|names| !names.contains(key)))
        });
        (keys, lacks_note)
    }

    /// The error that keeps a service of ours from having notes.
    pub fn unreadable_notes(&self) -> Option<&str> {
        let mut services = self.registry.services.values();
        services.find_map(|service| service.attributes.problem()).map(String::as_str)
    }

    /// The place for a note: one of `instances`, else any instance of ours that the plan does not change, else a Cloud
    /// Map service of ours.
    pub fn place_for_note(
        &self,
        (mark, text): (&'static str, &str),
        instances: impl Iterator<Item = InstanceKey>,
        plan: &Plan,
    ) -> Option<NotePlace> {
        let registry = &self.registry;
        let rooms = instances.filter_map(|at| {
            let present = registry.instance(&at.service, &at.id)?;
            has_room(present, mark, text).then(|| (!present.contains_key(mark), at))
        });
        if let Some((_, at)) = rooms.min() {
            return Some(NotePlace::Instance(at));
        }
        let mut others = registry.services.keys().flat_map(|key| {
            let ours = self.ours(key).filter(|(_, present)| has_room(present, mark, text));
            ours.map(move |(id, _)| InstanceKey::new(key, id))
        });
        let is_changed =
            |at: &InstanceKey| plan.changes.values().flatten().any(|it| it.is_about(at));
        let is_current = |at: &InstanceKey| registry.services[&at.service].is_current();
        if let Some(at) = others.find(|at| is_current(at) && !is_changed(at)) {
            return Some(NotePlace::Instance(at));
        }
        let attribute = service_attribute(&self.owner, mark);
        let mut services = registry.services.iter();
        let found = services.find(|(_, service)| match &service.attributes {
            ServiceAttributes::Read(attributes) => {
                attributes.len() < MAX_SERVICE_ATTRIBUTES || attributes.contains_key(&attribute)
            }
            ServiceAttributes::Unread | ServiceAttributes::Unreadable(_) => false,
        });
        found.map(|(key, _)| NotePlace::Service(key.clone()))
    }

    /// Sets or removes a note at a place.
    pub fn put_note(&self, at: &NotePlace, note: (&'static str, Option<&str>), plan: &mut Plan) {
        match at {
            NotePlace::Instance(at) => self.put_on_instance(at, note, plan),
            NotePlace::Service(key) => self.put_on_service(key, note, plan),
        }
    }

    /// Removes a note from the places for which `goes` is true.
    pub fn remove_notes(
        &self,
        mark: &'static str,
        goes: impl Fn(&NotePlace) -> bool,
        plan: &mut Plan,
    ) {
        for (at, _) in self.notes(mark).filter(|(at, _)| goes(at)) {
            self.put_note(&at, (mark, None), plan);
        }
    }

    /// Takes over the guard's notes on instances that an earlier plan of the run has left open, unless the plan has
    /// one.
    pub fn keep_notes(&self, open: &[Change], plan: &mut Plan) {
        let noted = |change: &Change| {
            let Change::Rewrite { attributes, differences, .. } = change else { return None };
            let is_noted = |it: &Difference| it.attribute == SIGHTING && it.wanted.is_some();
            let text = attributes.get(SIGHTING).filter(|_| differences.iter().any(is_noted))?;
            Some((change.instance_key()?, text.to_owned()))
        };
        if plan.changes.values().flatten().any(|it| noted(it).is_some()) {
            return;
        }
        for (at, text) in open.iter().filter_map(noted) {
            self.put_on_instance(&at, (SIGHTING, Some(&text)), plan);
        }
    }

    /// In the rewrite that is planned for the instance, or in an additional one. A deregistered instance loses its
    /// mark.
    fn put_on_instance(
        &self,
        at: &InstanceKey,
        (mark, text): (&'static str, Option<&str>),
        plan: &mut Plan,
    ) {
        let Some(present) = self.registry.instance(&at.service, &at.id) else { return };
        let difference = difference(mark, present.get(mark), text);
        let planned = plan.changes.iter_mut().find_map(|(turn, changes)| {
            let mut changes = changes.iter_mut();
            let change = changes.find(|change| {
                let is_new = matches!(change, Change::Register { .. });
                !is_new && change.is_about(at)
            });
            Some((turn.clone(), change?))
        });
        let (turn, planned) = planned.unzip();
        match planned {
            Some(Change::Rewrite { attributes, differences, .. }) => {
                set(attributes, mark, text);
                differences.push(difference);
            }
            Some(Change::Deregister { waits_for: None, .. }) if text.is_none() => {}
            _ => {
                let mut attributes = present.clone();
                set(&mut attributes, mark, text);
                let place = Place::of(&at.service, &self.registry);
                let change = Change::rewrite(place, at.id.clone(), attributes, vec![difference]);
                let marked = self.owner.service_of(present);
                if let Some(marked) = marked.filter(|_| self.rules.policy.allows(&change)) {
                    // In the turn that deregisters it: a rewrite in another turn could register it again afterwards.
                    plan.add(turn.unwrap_or(marked), change);
                }
            }
        }
    }

    /// In the turn of a Service with instances there.
    fn put_on_service(
        &self,
        key: &ServiceKey,
        (mark, text): (&'static str, Option<&str>),
        plan: &mut Plan,
    ) {
        let attribute = service_attribute(&self.owner, mark);
        let present = self.registry.services.get(key);
        let present = present.and_then(|service| service.attributes.get(&attribute));
        let difference = difference(&attribute, present, text);
        let place = Place::of(key, &self.registry);
        let change = Change::NoteOnService { place, difference, text: text.map(str::to_owned) };
        let turn = self.marked_services(key).next();
        if let Some(turn) = turn.filter(|_| self.rules.policy.allows(&change)) {
            plan.add(turn, change);
        }
    }
}

/// Whether an instance with one more mark stays within Cloud Map's limits for attributes.
fn has_room(present: &Attributes, mark: &str, text: &str) -> bool {
    let mut attributes = present.clone();
    set(&mut attributes, mark, Some(text));
    attributes.beyond_limits().is_none()
}

/// The attribute of a service for a note about a cluster: several clusters may have instances in the service.
fn service_attribute(owner: &Owner, mark: &str) -> String {
    let flow = match owner.flow {
        Flow::Annotations => "",
        Flow::Exports => "exports/",
    };
    format!("{mark}/{flow}{}", owner.cluster)
}

fn set(attributes: &mut Attributes, mark: &str, text: Option<&str>) {
    match text {
        Some(text) => attributes.insert(mark, text),
        None => attributes.remove(mark),
    }
}

/// The difference in a note for the report: only the time at its start.
fn difference(attribute: &str, present: Option<&str>, text: Option<&str>) -> Difference {
    let time = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
    let (present, wanted) = (present.map(time), text.map(time));
    Difference { attribute: attribute.to_owned(), present, wanted }
}
