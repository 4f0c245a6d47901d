//! From the events of the watches to the Services that need a message. The version of each object is kept, so a list
//! that is read again after a broken watch reports only the changes since. Pure: no client, no clock.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::delivery::SyncScope;
use cloud_map_sync::model::ServiceRef;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Services, of which the annotated and the exported ones count.
    Services,
    /// `EndpointSlices` that Kubernetes makes for headless Services.
    HeadlessSlices,
    /// Other `EndpointSlices`: created by hand, or mirrored from Endpoints.
    OtherSlices,
    /// `ServiceExports`, each for the Service of its name.
    Exports,
    /// `EndpointSlices` that Kubernetes makes for Services that are not headless.
    ClusterIpSlices,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A list begins; objects that are not in it are gone.
    ListBegins,
    Listed(WatchedObject),
    ListEnds,
    /// The cluster does not have this kind of object.
    NotServed,
    Changed(WatchedObject),
    Deleted(WatchedObject),
}

/// The relevant part of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedObject {
    pub key: ServiceRef,
    /// A text that changes with each write, such as `metadata.resourceVersion`.
    pub version: String,
    /// Its Service; absent for a Service without our annotation, and for a slice without a Service.
    pub service: Option<ServiceRef>,
}

/// The known objects of the cluster.
#[derive(Debug, Default)]
pub struct Changes {
    services: WatchedObjects,
    headless_slices: WatchedObjects,
    other_slices: WatchedObjects,
    /// What exports need besides, if they are followed.
    exports: Option<FollowedExports>,
    started: bool,
}

#[derive(Debug, Default)]
struct FollowedExports {
    /// The `ServiceExports`.
    known: WatchedObjects,
    /// All Services, annotated or not.
    services: WatchedObjects,
    slices: WatchedObjects,
}

impl Changes {
    pub fn new(follows_exports: bool) -> Self {
        Self { exports: follows_exports.then(FollowedExports::default), ..Self::default() }
    }

    /// Records an event, and returns the places that need a message. The first lists return no single Services: once
    /// all are complete, the whole cluster needs a message, since earlier changes are unknown.
    pub fn record(&mut self, watch: Watch, seen: Seen) -> Vec<SyncScope> {
        let was_listed = self.was_listed(watch);
        let changed = self.changed(watch, seen);
        if !self.started && self.all_were_listed() {
            self.started = true;
            return vec![SyncScope::Cluster];
        }
        changed.into_iter().filter(|_| was_listed).map(SyncScope::Service).collect()
    }

    /// The annotated and the exported Services with changed objects.
    fn changed(&mut self, watch: Watch, seen: Seen) -> BTreeSet<ServiceRef> {
        let exports = self.exports.as_mut();
        match watch {
            Watch::Services => {
                let of_exports = exports.map(|it| it.record_service(seen.clone()));
                let mut changed = self.services.record(seen);
                changed.extend(of_exports.into_iter().flatten());
                changed
            }
            Watch::HeadlessSlices | Watch::OtherSlices => {
                let slices = match watch {
                    Watch::HeadlessSlices => &mut self.headless_slices,
                    _ => &mut self.other_slices,
                };
                let mut changed = slices.record(seen);
                changed.retain(|service| {
                    self.services.has(service) || exports.as_ref().is_some_and(|it| it.has(service))
                });
                changed
            }
            Watch::Exports => exports.map(|it| it.known.record(seen)).unwrap_or_default(),
            Watch::ClusterIpSlices => exports.map(|it| it.record_slice(seen)).unwrap_or_default(),
        }
    }

    fn was_listed(&self, watch: Watch) -> bool {
        let exports = self.exports.as_ref();
        match watch {
            Watch::Services => self.services.was_listed(),
            Watch::HeadlessSlices => self.headless_slices.was_listed(),
            Watch::OtherSlices => self.other_slices.was_listed(),
            Watch::Exports => exports.is_some_and(|it| it.known.was_listed()),
            Watch::ClusterIpSlices => exports.is_some_and(|it| it.slices.was_listed()),
        }
    }

    fn all_were_listed(&self) -> bool {
        let always = [Watch::Services, Watch::HeadlessSlices, Watch::OtherSlices];
        let for_exports = [Watch::Exports, Watch::ClusterIpSlices];
        let for_exports = for_exports.into_iter().filter(|_| self.exports.is_some());
        always.into_iter().chain(for_exports).all(|watch| self.was_listed(watch))
    }
}

impl FollowedExports {
    fn has(&self, service: &ServiceRef) -> bool {
        self.known.has(service)
    }

    /// The exported Services that an event of the Services is about.
    fn record_service(&mut self, seen: Seen) -> BTreeSet<ServiceRef> {
        let named =
            |object: WatchedObject| WatchedObject { service: Some(object.key.clone()), ..object };
        let mut changed = self.services.record(match seen {
            Seen::Listed(object) => Seen::Listed(named(object)),
            Seen::Changed(object) => Seen::Changed(named(object)),
            other => other,
        });
        changed.retain(|service| self.known.has(service));
        changed
    }

    fn record_slice(&mut self, seen: Seen) -> BTreeSet<ServiceRef> {
        let mut changed = self.slices.record(seen);
        changed.retain(|service| self.known.has(service));
        changed
    }
}

/// The objects of one watch. Objects without a Service are not kept.
#[derive(Debug, Default)]
struct WatchedObjects {
    kept: BTreeMap<ServiceRef, KnownObject>,
    listing: BTreeSet<ServiceRef>,
    listed: bool,
}

#[derive(Debug)]
struct KnownObject {
    version: String,
    service: ServiceRef,
}

impl WatchedObjects {
    /// Records an event, and returns the Services with changed objects.
    fn record(&mut self, seen: Seen) -> BTreeSet<ServiceRef> {
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
    fn was_listed(&self) -> bool {
        self.listed
    }

    fn has(&self, key: &ServiceRef) -> bool {
        self.kept.contains_key(key)
    }

    fn replace(&mut self, object: WatchedObject) -> BTreeSet<ServiceRef> {
        let WatchedObject { key, version, service } = object;
        let Some(service) = service else { return self.remove(&key) };
        let known = self
            .kept
            .insert(key, KnownObject { version: version.clone(), service: service.clone() });
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
