//! From the events of the watches to the Services that need a message. The version of each object is kept, so a list
//! that is read again after a broken watch reports only the changes since. Pure: no client, no clock.

use super::objects::Objects;
use super::place::Place;
use crate::model::ServiceRef;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Services, of which the annotated ones count.
    Services,
    /// `EndpointSlices` that Kubernetes makes for headless Services.
    HeadlessSlices,
    /// Other `EndpointSlices`: created by hand, or mirrored from Endpoints.
    OtherSlices,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A list begins; objects that are not in it are gone.
    ListBegins,
    Listed(Object),
    ListEnds,
    Changed(Object),
    Deleted(Object),
}

/// The relevant part of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub key: ServiceRef,
    /// Its `metadata.resourceVersion`, which changes with each write.
    pub version: String,
    /// Its Service; absent for a Service without our annotation, and for a slice without a Service.
    pub service: Option<ServiceRef>,
}

/// The known objects of the cluster.
#[derive(Debug, Default)]
pub struct Changes {
    services: Objects,
    headless_slices: Objects,
    other_slices: Objects,
    started: bool,
}

impl Changes {
    /// Records an event, and returns the places that need a message. The first lists return no single Services: once
    /// all are complete, the whole cluster needs a message, since earlier changes are unknown.
    pub fn record(&mut self, watch: Watch, seen: Seen) -> Vec<Place> {
        let objects = match watch {
            Watch::Services => &mut self.services,
            Watch::HeadlessSlices => &mut self.headless_slices,
            Watch::OtherSlices => &mut self.other_slices,
        };
        let was_listed = objects.was_listed();
        let mut changed = objects.record(seen);
        if watch != Watch::Services {
            changed.retain(|service| self.services.has(service));
        }
        if !self.started && self.all_were_listed() {
            self.started = true;
            return vec![Place::Cluster];
        }
        changed.into_iter().filter(|_| was_listed).map(Place::Service).collect()
    }

    fn all_were_listed(&self) -> bool {
        let all = [&self.services, &self.headless_slices, &self.other_slices];
        all.into_iter().all(Objects::was_listed)
    }
}

#[cfg(test)]
mod tests {
    use super::Watch::{HeadlessSlices, OtherSlices, Services};
    use super::*;

    fn object(name: &str, version: u32, service: Option<&str>) -> Object {
        Object {
            key: ServiceRef::new("shop", name),
            version: version.to_string(),
            service: service.map(|name| ServiceRef::new("shop", name)),
        }
    }

    fn web(version: u32) -> Object {
        object("web", version, Some("web"))
    }

    fn slice(version: u32) -> Object {
        object("web-x7k2p", version, Some("web"))
    }

    fn list(changes: &mut Changes, watch: Watch, objects: &[Object]) -> Vec<String> {
        let listed = objects.iter().cloned().map(Seen::Listed);
        let events = std::iter::once(Seen::ListBegins).chain(listed).chain([Seen::ListEnds]);
        events.flat_map(|seen| places(changes, watch, seen)).collect()
    }

    fn places(changes: &mut Changes, watch: Watch, seen: Seen) -> Vec<String> {
        changes.record(watch, seen).iter().map(Place::to_string).collect()
    }

    /// `shop/web` with one slice, after the message for the whole cluster.
    fn started() -> Changes {
        let mut changes = Changes::default();
        list(&mut changes, Services, &[web(1)]);
        list(&mut changes, HeadlessSlices, &[slice(2)]);
        list(&mut changes, OtherSlices, &[]);
        changes
    }

    #[test]
    fn the_start_reports_the_whole_cluster_once_after_all_lists() {
        let mut changes = Changes::default();
        assert!(list(&mut changes, HeadlessSlices, &[slice(2)]).is_empty());
        assert!(list(&mut changes, Services, &[web(1)]).is_empty());
        assert_eq!(list(&mut changes, OtherSlices, &[]), ["the whole cluster"]);
        assert!(list(&mut changes, OtherSlices, &[]).is_empty());
    }

    #[test]
    fn a_rejected_list_does_not_stop_other_changes() {
        let mut changes = Changes::default();
        list(&mut changes, Services, &[web(1)]);
        assert!(places(&mut changes, HeadlessSlices, Seen::ListBegins).is_empty());
        assert_eq!(places(&mut changes, Services, Seen::Changed(web(3))), ["shop/web"]);
    }

    #[test]
    fn each_change_reports_its_service() {
        let unannotated = object("web", 9, None);
        let cart = object("cart", 9, Some("cart"));
        let by_hand = object("web-manual", 9, Some("web"));
        let without_service = object("web-x7k2p", 9, None);
        let moved = object("web-x7k2p", 9, Some("cart"));
        let of_plain = object("plain-abcde", 9, Some("plain"));
        let rows = [
            ("a pod came or went", HeadlessSlices, Seen::Changed(slice(9)), vec!["shop/web"]),
            ("its slice is gone", HeadlessSlices, Seen::Deleted(slice(9)), vec!["shop/web"]),
            ("a slice by hand", OtherSlices, Seen::Changed(by_hand), vec!["shop/web"]),
            (
                "a slice without a Service now",
                HeadlessSlices,
                Seen::Changed(without_service),
                vec!["shop/web"],
            ),
            (
                "a slice of another Service now",
                HeadlessSlices,
                Seen::Changed(moved),
                vec!["shop/web"],
            ),
            ("no annotated Service", HeadlessSlices, Seen::Changed(of_plain), vec![]),
            ("an annotation changed", Services, Seen::Changed(web(9)), vec!["shop/web"]),
            (
                "the annotation is gone",
                Services,
                Seen::Changed(unannotated.clone()),
                vec!["shop/web"],
            ),
            ("the Service is gone", Services, Seen::Deleted(web(9)), vec!["shop/web"]),
            ("a new annotated Service", Services, Seen::Changed(cart), vec!["shop/cart"]),
            ("a new plain Service", Services, Seen::Changed(object("plain", 9, None)), vec![]),
            ("the same again", Services, Seen::Changed(web(1)), vec![]),
        ];
        for (case, watch, seen, expected) in rows {
            assert_eq!(places(&mut started(), watch, seen), expected, "{case}");
        }
    }

    #[test]
    fn a_service_that_loses_its_annotation_is_reported_once() {
        let mut changes = started();
        places(&mut changes, Services, Seen::Changed(object("web", 3, None)));
        assert!(places(&mut changes, Services, Seen::Changed(object("web", 4, None))).is_empty());
        assert!(places(&mut changes, HeadlessSlices, Seen::Changed(slice(5))).is_empty());
        assert!(places(&mut changes, Services, Seen::Deleted(object("web", 6, None))).is_empty());
    }

    #[test]
    fn a_list_that_is_read_again_reports_the_changes_since() {
        let cart = object("cart", 7, Some("cart"));
        let rows = [
            ("nothing", Services, vec![web(1)], vec![]),
            ("changed", Services, vec![web(7)], vec!["shop/web"]),
            ("new", Services, vec![web(1), cart], vec!["shop/cart"]),
            ("gone", Services, vec![], vec!["shop/web"]),
            ("annotation gone", Services, vec![object("web", 7, None)], vec!["shop/web"]),
            ("no slice changed", HeadlessSlices, vec![slice(2)], vec![]),
            ("slice changed", HeadlessSlices, vec![slice(7)], vec!["shop/web"]),
            ("slice gone", HeadlessSlices, vec![], vec!["shop/web"]),
        ];
        for (case, watch, objects, expected) in rows {
            assert_eq!(list(&mut started(), watch, &objects), expected, "{case}");
        }
    }

    #[test]
    fn an_interrupted_list_removes_no_objects() {
        let mut changes = started();
        assert!(places(&mut changes, Services, Seen::ListBegins).is_empty());
        assert!(list(&mut changes, Services, &[web(1)]).is_empty());
        assert_eq!(places(&mut changes, Services, Seen::Changed(web(8))), ["shop/web"]);
    }
}
