//! Where the guard remembers: as a mark on one of the instances that it holds, never on anything of
//! others. The mark is written once while the loss is held, is carried over on a rewrite, and goes when
//! the loss is over or let pass.

use super::sighting::Sighting;
use super::verdict::Verdict;
use crate::model::attributes::SIGHTING;
use crate::model::{Attributes, Marks, ServiceKey};
use crate::plan::{Change, Difference, Observation, Place, Plan, health, rewrite};

/// An instance, by Cloud Map service and id.
type InstanceKey = (ServiceKey, String);

/// What was remembered before.
pub fn recall(observation: &Observation) -> Option<Sighting> {
    let marks = marked(observation).filter_map(|(_, text)| Sighting::parse(text));
    marks.min_by_key(|sighting| sighting.first_seen)
}

/// Adds to the plan what a verdict means for the memory; `held` are the removals that were taken out.
pub fn keep(
    observation: &Observation,
    verdict: Option<&Verdict>,
    held: &[Change],
    plan: &mut Plan,
) {
    let memory = Memory(observation);
    match verdict.filter(|verdict| verdict.stand.holds()) {
        // What still waits when the loss is let pass is let pass later, too.
        None if verdict.is_some() && waits(plan) => {}
        None => memory.unmark(None, plan),
        Some(verdict) if verdict.is_new => {
            memory.mark(&Sighting::of(&verdict.held, observation.now), held, plan);
        }
        Some(_) => {}
    }
}

fn waits(plan: &Plan) -> bool {
    let mut changes = plan.changes.values().flatten();
    changes.any(|change| matches!(change, Change::Deregister { waits_for: Some(_), .. }))
}

/// The instances of ours that carry the mark.
fn marked(observation: &Observation) -> impl Iterator<Item = (InstanceKey, &String)> {
    let registry = &observation.registry;
    registry.services.keys().flat_map(move |key| {
        let instances = registry.instances(key);
        let ours = instances.filter(|(_, attributes)| observation.owner.owns(attributes));
        ours.filter_map(|(id, attributes)| {
            Some(((key.clone(), id.clone()), attributes.get(SIGHTING)?))
        })
    })
}

struct Memory<'a>(&'a Observation);

impl Memory<'_> {
    /// Marks an instance that is held: the one that was marked before, else the first that has room.
    fn mark(&self, sighting: &Sighting, held: &[Change], plan: &mut Plan) {
        let text = sighting.to_string();
        let rooms = held.iter().filter_map(|change| {
            let at = (change.place().key.clone(), change.instance()?.to_owned());
            let mut attributes = self.attributes(&at)?.clone();
            let was_marked = attributes.insert(SIGHTING.to_owned(), text.clone()).is_some();
            rewrite::beyond_limits(&attributes).is_none().then_some((!was_marked, at))
        });
        let at = rooms.min().map(|(_, at)| at);
        if let Some(at) = &at {
            self.rewrite(at, Some(&text), plan);
        }
        self.unmark(at.as_ref(), plan);
    }

    /// Takes the mark off every instance that stays, but for one.
    fn unmark(&self, except: Option<&InstanceKey>, plan: &mut Plan) {
        for (at, _) in marked(self.0).filter(|(at, _)| Some(at) != except) {
            self.rewrite(&at, None, plan);
        }
    }

    /// Sets or takes away the mark of an instance: in the rewrite that is planned for it, or in one of
    /// its own. An instance that goes takes its mark along.
    fn rewrite(&self, at: &InstanceKey, mark: Option<&str>, plan: &mut Plan) {
        let Some(present) = self.attributes(at) else { return };
        let difference = difference(present, mark);
        let mut planned = plan.changes.values_mut().flatten().filter(|change| {
            change.place().key == at.0 && change.instance() == Some(at.1.as_str())
        });
        match planned.next() {
            Some(Change::Rewrite { attributes, differences, .. }) => {
                set(attributes, mark);
                differences.push(difference);
            }
            Some(Change::Deregister { waits_for: None, .. }) => {}
            _ => self.add_rewrite(at, present, mark, plan),
        }
    }

    fn add_rewrite(
        &self,
        at: &InstanceKey,
        present: &Attributes,
        mark: Option<&str>,
        plan: &mut Plan,
    ) {
        let service = self.0.registry.services.get(&at.0);
        let mut attributes = health::as_it_is(service, &at.1, present);
        set(&mut attributes, mark);
        let (place, instance) = (Place::of(&at.0, &self.0.registry), at.1.clone());
        let differences = vec![difference(present, mark)];
        let change = Change::Rewrite { place, instance, attributes, differences };
        let marks = Marks::read(present, &self.0.owner);
        if let Some(marks) = marks.filter(|_| self.0.rules.policy.allows(&change)) {
            plan.changes.entry(marks.service).or_default().push(change);
        }
    }

    fn attributes(&self, (key, id): &InstanceKey) -> Option<&Attributes> {
        self.0.registry.instance(key, id)
    }
}

fn set(attributes: &mut Attributes, mark: Option<&str>) {
    match mark {
        Some(mark) => _ = attributes.insert(SIGHTING.to_owned(), mark.to_owned()),
        None => _ = attributes.remove(SIGHTING),
    }
}

/// What a person wants to know of the mark: when the loss was first seen.
fn difference(present: &Attributes, mark: Option<&str>) -> Difference {
    let time = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
    Difference {
        attribute: SIGHTING.to_owned(),
        present: present.get(SIGHTING).map(|text| time(text)),
        wanted: mark.map(time),
    }
}
