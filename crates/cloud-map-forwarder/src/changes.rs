//! Finds the Services that need a message in the events of the watches. It keeps the version of each object, so that a
//! new list after a broken watch reports only the objects that have changed since. Pure: no client, no clock.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use kube::runtime::watcher::Event;

use super::SyncScope;
use cloud_map_sync::model::ServiceRef;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watch {
    /// Services. Only a change of an annotated or exported Service needs a message.
    Services,
    /// `EndpointSlices` that Kubernetes makes for headless Services.
    HeadlessSlices,
    /// Other `EndpointSlices`: created by hand, or mirrored from Endpoints.
    OtherSlices,
    /// `ServiceExports`. Each exports the Service that has its name.
    Exports,
    /// `EndpointSlices` that Kubernetes makes for Services that are not headless.
    ClusterIpSlices,
}

/// The part of a watched object that `Changes` needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedObject {
    /// The namespace and name of the object itself, whatever its kind.
    pub key: ServiceRef,
    /// A text that differs after each relevant write, such as `metadata.resourceVersion`.
    pub version: String,
    /// The Service of the object. `None` for a Service without our annotation, and for a slice without a Service.
    pub service: Option<ServiceRef>,
}

/// The known objects of the cluster.
#[derive(Debug)]
pub struct Changes {
    /// The objects of each watch.
    watched: BTreeMap<Watch, WatchedObjects>,
    /// All Services, annotated or not. Empty unless exports are followed.
    all_services: WatchedObjects,
    /// Whether the first lists of all watches are complete.
    started: bool,
}

impl Changes {
    pub fn new(follows_exports: bool) -> Self {
        let mut watches = vec![Watch::Services, Watch::HeadlessSlices, Watch::OtherSlices];
        if follows_exports {
            watches.extend([Watch::Exports, Watch::ClusterIpSlices]);
        }
        let watched = watches.into_iter().map(|watch| (watch, WatchedObjects::default())).collect();
        Self { watched, all_services: WatchedObjects::default(), started: false }
    }

    pub fn watches(&self) -> impl Iterator<Item = Watch> {
        self.watched.keys().copied()
    }

    /// Records an event, and returns the scopes to sync. The events of the first list of a watch return no scope. The
    /// event that completes the first lists of all watches returns the whole cluster, since earlier changes are
    /// unknown.
    pub fn record(&mut self, watch: Watch, event: Event<WatchedObject>) -> Vec<SyncScope> {
        let was_listed = self.watched.get(&watch).is_some_and(|objects| objects.listed);
        let changed = self.changed(watch, event);
        if !self.started && self.watched.values().all(|objects| objects.listed) {
            self.started = true;
            return vec![SyncScope::Cluster];
        }
        changed.into_iter().filter(|_| was_listed).map(SyncScope::Service).collect()
    }

    /// Records an event, and returns the annotated and the exported Services whose objects it changes.
    fn changed(&mut self, watch: Watch, event: Event<WatchedObject>) -> BTreeSet<ServiceRef> {
        let keeps_all_services =
            watch == Watch::Services && self.watched.contains_key(&Watch::Exports);
        let changed_services =
            keeps_all_services.then(|| self.all_services.record(with_own_name(event.clone())));
        let objects = self.watched.get_mut(&watch);
        let mut changed = objects.map(|objects| objects.record(event)).unwrap_or_default();
        let has = |watch: Watch, service: &ServiceRef| {
            self.watched.get(&watch).is_some_and(|objects| objects.kept.contains_key(service))
        };
        let is_exported = |service: &ServiceRef| has(Watch::Exports, service);
        match watch {
            Watch::Services => {
                changed.extend(changed_services.into_iter().flatten().filter(is_exported));
            }
            Watch::HeadlessSlices | Watch::OtherSlices => {
                changed.retain(|service| has(Watch::Services, service) || is_exported(service));
            }
            Watch::ClusterIpSlices => changed.retain(is_exported),
            Watch::Exports => {}
        }
        changed
    }
}

/// Sets each object's `service` to its own key, so that Services without our annotation are kept, too.
fn with_own_name(event: Event<WatchedObject>) -> Event<WatchedObject> {
    let named =
        |object: WatchedObject| WatchedObject { service: Some(object.key.clone()), ..object };
    match event {
        Event::InitApply(object) => Event::InitApply(named(object)),
        Event::Apply(object) => Event::Apply(named(object)),
        other => other,
    }
}

/// The objects of one watch. Objects without a Service are not kept.
#[derive(Debug, Default)]
struct WatchedObjects {
    kept: BTreeMap<ServiceRef, WatchedObject>,
    /// The keys of the list that is being read.
    listing: BTreeSet<ServiceRef>,
    /// Whether a list was read completely at least once.
    listed: bool,
}

impl WatchedObjects {
    /// Records an event, and returns the Services whose objects it changes.
    fn record(&mut self, event: Event<WatchedObject>) -> BTreeSet<ServiceRef> {
        match event {
            Event::Init => {
                self.listing.clear();
                BTreeSet::new()
            }
            Event::InitApply(object) => {
                self.listing.insert(object.key.clone());
                self.replace(object)
            }
            Event::InitDone => self.end_list(),
            Event::Apply(object) => self.replace(object),
            Event::Delete(object) => self.remove(&object.key),
        }
    }

    fn replace(&mut self, object: WatchedObject) -> BTreeSet<ServiceRef> {
        if object.service.is_none() {
            return self.remove(&object.key);
        }
        match self.kept.insert(object.key.clone(), object.clone()) {
            Some(known) if known.version == object.version => BTreeSet::new(),
            known => {
                known.into_iter().chain([object]).filter_map(|object| object.service).collect()
            }
        }
    }

    fn remove(&mut self, key: &ServiceRef) -> BTreeSet<ServiceRef> {
        self.kept.remove(key).into_iter().filter_map(|known| known.service).collect()
    }

    fn end_list(&mut self) -> BTreeSet<ServiceRef> {
        self.listed = true;
        let listed = std::mem::take(&mut self.listing);
        let gone: Vec<ServiceRef> =
            self.kept.keys().filter(|key| !listed.contains(*key)).cloned().collect();
        gone.iter().flat_map(|key| self.remove(key)).collect()
    }
}
