//! Counting the room of whole namespaces. A turn sees a part of the registry only, and while turns are
//! taken what others do shows in some of the parts and not in others: so a turn is left with what the
//! plan of all gave it, and keeps count of what it does itself.

use std::collections::BTreeMap;

use crate::plan::{Change, Observation};

impl Observation {
    /// How many more instances each namespace takes; negative where it holds too many.
    pub fn room(&self) -> BTreeMap<String, isize> {
        let limit = signed(self.rules.limits.namespace);
        let ids = self.registry.namespaces.keys();
        let mut room: BTreeMap<String, isize> = ids.map(|id| (id.clone(), limit)).collect();
        for (key, service) in &self.registry.services {
            *room.entry(key.namespace.clone()).or_insert(limit) -= signed(service.held());
        }
        room.extend(self.registry.room.clone());
        room
    }

    /// Takes room up that others were given, by the namespace's id.
    pub fn take_up(&mut self, given: &BTreeMap<String, usize>) {
        let room = self.room().into_iter().filter_map(|(namespace, room)| {
            let given = signed(*given.get(&namespace)?);
            Some((namespace, room - given))
        });
        self.registry.room.extend(room.collect::<Vec<_>>());
    }

    /// Leaves a turn with what its changes were given of the room there is, and with what `left` nobody
    /// was given. What is too many stays to be made up for.
    pub fn leave_room_for(&mut self, changes: &[Change], left: &BTreeMap<String, isize>) {
        let given = registrations(changes);
        for change in changes.iter().filter(|it| matches!(it, Change::Register { .. })) {
            let namespace = &change.place().key.namespace;
            let given = signed(given.get(namespace).copied().unwrap_or(0));
            let left = left.get(namespace).copied().unwrap_or(0);
            self.registry.room.insert(namespace.clone(), given + left);
        }
    }

    /// How much of the room in each namespace the changes leave; negative where it holds too many.
    pub fn room_left_by<'a>(
        &self,
        changes: impl IntoIterator<Item = &'a Change>,
    ) -> BTreeMap<String, isize> {
        let mut left = self.room();
        for (namespace, count) in registrations(changes) {
            *left.entry(namespace).or_default() -= signed(count);
        }
        left
    }

    /// Keeps count of a change that was made.
    pub fn note(&mut self, change: &Change) {
        if let Some(room) = self.registry.room.get_mut(&change.place().key.namespace) {
            match change {
                Change::Register { .. } => *room -= 1,
                Change::Deregister { .. } => *room += 1,
                _ => {}
            }
        }
    }
}

/// How many instances are registered without waiting for room, by the namespace's id.
pub fn registrations<'a>(changes: impl IntoIterator<Item = &'a Change>) -> BTreeMap<String, usize> {
    let mut registrations = BTreeMap::new();
    for change in changes {
        if let Change::Register { place, waits_for: None, .. } = change {
            *registrations.entry(place.key.namespace.clone()).or_default() += 1;
        }
    }
    registrations
}

/// A count that can be subtracted from.
pub fn signed(count: usize) -> isize {
    isize::try_from(count).unwrap_or(isize::MAX)
}
