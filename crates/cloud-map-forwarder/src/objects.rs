//! The objects of one watch, each with its last version. An event of the watch is compared with them, and gives the
//! Services with changed objects.

use std::collections::{BTreeMap, BTreeSet};

use super::changes::{Object, Seen};
use cloud_map_sync::model::ServiceRef;

/// The objects of one watch. Objects without a Service are not kept.
#[derive(Debug, Default)]
pub(super) struct Objects {
    kept: BTreeMap<ServiceRef, Kept>,
    listing: BTreeSet<ServiceRef>,
    listed: bool,
}

#[derive(Debug)]
struct Kept {
    version: String,
    service: ServiceRef,
}

impl Objects {
    /// Records an event, and returns the Services with changed objects.
    pub(super) fn record(&mut self, seen: Seen) -> BTreeSet<ServiceRef> {
        match seen {
            Seen::ListBegins => {
                self.listing.clear();
                BTreeSet::new()
            }
            Seen::Listed(object) => {
                self.listing.insert(object.key.clone());
                self.replace(object)
            }
            Seen::ListEnds => self.end_list(),
            // What was known may have gone with its definition, and its Services are read by the function anyway.
            Seen::NotServed => {
                self.listing.clear();
                self.end_list()
            }
            Seen::Changed(object) => self.replace(object),
            Seen::Deleted(object) => self.remove(&object.key),
        }
    }

    /// Whether a list was read completely.
    pub(super) fn was_listed(&self) -> bool {
        self.listed
    }

    pub(super) fn has(&self, key: &ServiceRef) -> bool {
        self.kept.contains_key(key)
    }

    fn replace(&mut self, object: Object) -> BTreeSet<ServiceRef> {
        let Object { key, version, service } = object;
        let Some(service) = service else { return self.remove(&key) };
        let known =
            self.kept.insert(key, Kept { version: version.clone(), service: service.clone() });
        match known {
            Some(known) if known.version == version => BTreeSet::new(),
            Some(known) => BTreeSet::from([known.service, service]),
            None => BTreeSet::from([service]),
        }
    }

    fn remove(&mut self, key: &ServiceRef) -> BTreeSet<ServiceRef> {
        self.kept.remove(key).into_iter().map(|known| known.service).collect()
    }

    fn end_list(&mut self) -> BTreeSet<ServiceRef> {
        self.listed = true;
        let listed = std::mem::take(&mut self.listing);
        let gone: Vec<ServiceRef> =
            self.kept.keys().filter(|key| !listed.contains(*key)).cloned().collect();
        gone.iter().flat_map(|key| self.remove(key)).collect()
    }
}
