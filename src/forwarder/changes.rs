//! From what the watches see to the Services that a message is due for. Remembers each object's
//! version, so that a list that is read again, after a watch broke off, tells only what changed
//! meanwhile. Pure: no client, no clock.

use super::followed::Followed;
use super::place::Place;
use crate::model::ServiceRef;

/// One of the watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Services, of which the annotated ones count.
    Services,
    /// `EndpointSlices` that Kubernetes makes for headless Services.
    HeadlessSlices,
    /// `EndpointSlices` that others made: by hand, or mirrored from Endpoints.
    OtherSlices,
}

/// What a watch sees, object by object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A list begins; what is not in it is gone.
    ListBegins,
    /// An object in the list.
    Listed(Object),
    /// The list is whole.
    ListEnds,
    /// An object that is new or was changed.
    Changed(Object),
    /// An object that is gone.
    Deleted(Object),
}

/// An object, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its namespace and name.
    pub key: ServiceRef,
    /// Its `metadata.resourceVersion`: another one for each write, of any object.
    pub version: String,
    /// The Service it belongs to; none for a Service that is not annotated, or nobody's slice.
    pub service: Option<ServiceRef>,
}

/// What is known of the cluster.
#[derive(Debug, Default)]
pub struct Changes {
    services: Followed,
    headless_slices: Followed,
    other_slices: Followed,
    started: bool,
}

impl Changes {
    /// What a message is due for after this. A first list tells nothing of single objects; once all
    /// were read, the whole cluster is due, since nobody knows what changed before.
    pub fn take(&mut self, watch: Watch, seen: Seen) -> Vec<Place> {
        let followed = match watch {
            Watch::Services => &mut self.services,
            Watch::HeadlessSlices => &mut self.headless_slices,
            Watch::OtherSlices => &mut self.other_slices,
        };
        let told = followed.was_listed();
        let mut changed = followed.take(seen);
        if watch != Watch::Services {
            changed.retain(|service| self.services.has(service));
        }
        if !self.started && self.all_were_listed() {
            self.started = true;
            return vec![Place::Cluster];
        }
        changed.into_iter().filter(|_| told).map(Place::Service).collect()
    }

    fn all_were_listed(&self) -> bool {
        let all = [&self.services, &self.headless_slices, &self.other_slices];
        all.into_iter().all(Followed::was_listed)
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
        events.flat_map(|seen| told(changes, watch, seen)).collect()
    }

    fn told(changes: &mut Changes, watch: Watch, seen: Seen) -> Vec<String> {
        changes.take(watch, seen).iter().map(Place::to_string).collect()
    }

    /// `shop/web` with one slice, and the whole cluster told.
    fn started() -> Changes {
        let mut changes = Changes::default();
        list(&mut changes, Services, &[web(1)]);
        list(&mut changes, HeadlessSlices, &[slice(2)]);
        list(&mut changes, OtherSlices, &[]);
        changes
    }

    #[test]
    fn the_start_tells_the_whole_cluster_once_and_only_when_all_is_listed() {
        let mut changes = Changes::default();
        assert!(list(&mut changes, HeadlessSlices, &[slice(2)]).is_empty());
        assert!(list(&mut changes, Services, &[web(1)]).is_empty());
        assert_eq!(list(&mut changes, OtherSlices, &[]), ["the whole cluster"]);
        assert!(list(&mut changes, OtherSlices, &[]).is_empty());
    }

    #[test]
    fn a_list_that_is_refused_keeps_no_other_change_from_being_told() {
        let mut changes = Changes::default();
        list(&mut changes, Services, &[web(1)]);
        assert!(told(&mut changes, HeadlessSlices, Seen::ListBegins).is_empty());
        assert_eq!(told(&mut changes, Services, Seen::Changed(web(3))), ["shop/web"]);
    }

    #[test]
    fn each_change_tells_the_service_it_belongs_to() {
        let unannotated = object("web", 9, None);
        let cart = object("cart", 9, Some("cart"));
        let by_hand = object("web-manual", 9, Some("web"));
        let nobodys = object("web-x7k2p", 9, None);
        let moved = object("web-x7k2p", 9, Some("cart"));
        let of_plain = object("plain-abcde", 9, Some("plain"));
        let rows = [
            ("a pod came or went", HeadlessSlices, Seen::Changed(slice(9)), vec!["shop/web"]),
            ("its slice is gone", HeadlessSlices, Seen::Deleted(slice(9)), vec!["shop/web"]),
            ("a slice by hand", OtherSlices, Seen::Changed(by_hand), vec!["shop/web"]),
            (
                "a slice that is nobody's now",
                HeadlessSlices,
                Seen::Changed(nobodys),
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
        for (what, watch, seen, expected) in rows {
            assert_eq!(told(&mut started(), watch, seen), expected, "{what}");
        }
    }

    #[test]
    fn a_service_that_is_not_annotated_any_more_is_told_once() {
        let mut changes = started();
        told(&mut changes, Services, Seen::Changed(object("web", 3, None)));
        assert!(told(&mut changes, Services, Seen::Changed(object("web", 4, None))).is_empty());
        assert!(told(&mut changes, HeadlessSlices, Seen::Changed(slice(5))).is_empty());
        assert!(told(&mut changes, Services, Seen::Deleted(object("web", 6, None))).is_empty());
    }

    #[test]
    fn a_list_that_is_read_again_tells_what_changed_meanwhile() {
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
        for (what, watch, objects, expected) in rows {
            assert_eq!(list(&mut started(), watch, &objects), expected, "{what}");
        }
    }

    #[test]
    fn a_list_that_broke_off_says_nothing_of_what_it_did_not_reach() {
        let mut changes = started();
        assert!(told(&mut changes, Services, Seen::ListBegins).is_empty());
        assert!(list(&mut changes, Services, &[web(1)]).is_empty());
        assert_eq!(told(&mut changes, Services, Seen::Changed(web(8))), ["shop/web"]);
    }
}
