//! Each event of each watch against the scopes that it returns.

use super::Watch::{ClusterIpSlices, Exports, HeadlessSlices, OtherSlices, Services};
use super::*;

fn object(name: &str, version: u32, service: Option<&str>) -> WatchedObject {
    WatchedObject {
        key: ServiceRef::new("shop", name),
        version: version.to_string(),
        service: service.map(|name| ServiceRef::new("shop", name)),
    }
}

fn web(version: u32) -> WatchedObject {
    object("web", version, Some("web"))
}

fn slice(version: u32) -> WatchedObject {
    object("web-x7k2p", version, Some("web"))
}

fn list(changes: &mut Changes, watch: Watch, objects: &[WatchedObject]) -> Vec<String> {
    let listed = objects.iter().cloned().map(Event::InitApply);
    let events = std::iter::once(Event::Init).chain(listed).chain([Event::InitDone]);
    events.flat_map(|seen| scopes(changes, watch, seen)).collect()
}

fn scopes(changes: &mut Changes, watch: Watch, seen: Event<WatchedObject>) -> Vec<String> {
    changes.record(watch, seen).iter().map(SyncScope::to_string).collect()
}

/// `shop/web` with one slice, after the message for the whole cluster.
fn started() -> Changes {
    let mut changes = Changes::new(false);
    list(&mut changes, Services, &[web(1)]);
    list(&mut changes, HeadlessSlices, &[slice(2)]);
    list(&mut changes, OtherSlices, &[]);
    changes
}

#[test]
fn the_start_reports_the_whole_cluster_once_after_all_lists() {
    let mut changes = Changes::new(false);
    assert!(list(&mut changes, HeadlessSlices, &[slice(2)]).is_empty());
    assert!(list(&mut changes, Services, &[web(1)]).is_empty());
    assert_eq!(list(&mut changes, OtherSlices, &[]), ["the whole cluster"]);
    assert!(list(&mut changes, OtherSlices, &[]).is_empty());
}

#[test]
fn a_rejected_list_does_not_stop_other_changes() {
    let mut changes = Changes::new(false);
    list(&mut changes, Services, &[web(1)]);
    assert!(scopes(&mut changes, HeadlessSlices, Event::Init).is_empty());
    assert_eq!(scopes(&mut changes, Services, Event::Apply(web(3))), ["shop/web"]);
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
        ("a pod came or went", HeadlessSlices, Event::Apply(slice(9)), vec!["shop/web"]),
        ("its slice is gone", HeadlessSlices, Event::Delete(slice(9)), vec!["shop/web"]),
        ("a slice by hand", OtherSlices, Event::Apply(by_hand), vec!["shop/web"]),
        (
            "a slice without a Service now",
            HeadlessSlices,
            Event::Apply(without_service),
            vec!["shop/web"],
        ),
        ("a slice of another Service now", HeadlessSlices, Event::Apply(moved), vec!["shop/web"]),
        ("no annotated Service", HeadlessSlices, Event::Apply(of_plain), vec![]),
        ("an annotation changed", Services, Event::Apply(web(9)), vec!["shop/web"]),
        ("the annotation is gone", Services, Event::Apply(unannotated.clone()), vec!["shop/web"]),
        ("the Service is gone", Services, Event::Delete(web(9)), vec!["shop/web"]),
        ("a new annotated Service", Services, Event::Apply(cart), vec!["shop/cart"]),
        ("a new plain Service", Services, Event::Apply(object("plain", 9, None)), vec![]),
        ("the same again", Services, Event::Apply(web(1)), vec![]),
    ];
    for (case, watch, seen, expected) in rows {
        assert_eq!(scopes(&mut started(), watch, seen), expected, "{case}");
    }
}

#[test]
fn a_service_that_loses_its_annotation_is_reported_once() {
    let mut changes = started();
    scopes(&mut changes, Services, Event::Apply(object("web", 3, None)));
    assert!(scopes(&mut changes, Services, Event::Apply(object("web", 4, None))).is_empty());
    assert!(scopes(&mut changes, HeadlessSlices, Event::Apply(slice(5))).is_empty());
    assert!(scopes(&mut changes, Services, Event::Delete(object("web", 6, None))).is_empty());
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
    assert!(scopes(&mut changes, Services, Event::Init).is_empty());
    assert!(list(&mut changes, Services, &[web(1)]).is_empty());
    assert_eq!(scopes(&mut changes, Services, Event::Apply(web(8))), ["shop/web"]);
}

/// `shop/web` without annotations, exported, with one slice; `shop/plain` is not exported.
fn exporting() -> Changes {
    let mut changes = Changes::new(true);
    list(&mut changes, Services, &[object("web", 1, None), object("plain", 1, None)]);
    list(&mut changes, HeadlessSlices, &[]);
    list(&mut changes, OtherSlices, &[]);
    list(&mut changes, ClusterIpSlices, &[slice(2)]);
    assert_eq!(list(&mut changes, Exports, &[web(3)]), ["the whole cluster"]);
    changes
}

#[test]
fn each_change_of_an_export_reports_its_service() {
    let none = Vec::new;
    let web_is = || vec!["shop/web"];
    let new = || Event::Apply(object("cart", 9, Some("cart")));
    let of_plain = || Event::Apply(object("plain-x", 9, Some("plain")));
    let rows = [
        ("a pod came or went", ClusterIpSlices, Event::Apply(slice(9)), web_is()),
        ("its slice is gone", ClusterIpSlices, Event::Delete(slice(2)), web_is()),
        ("it is headless now", HeadlessSlices, Event::Apply(slice(9)), web_is()),
        ("a slice by hand", OtherSlices, Event::Apply(slice(9)), web_is()),
        ("its Service", Services, Event::Apply(object("web", 9, None)), web_is()),
        ("its Service is gone", Services, Event::Delete(object("web", 9, None)), web_is()),
        ("the export", Exports, Event::Apply(web(9)), web_is()),
        ("the export is gone", Exports, Event::Delete(web(3)), web_is()),
        ("a new export", Exports, new(), vec!["shop/cart"]),
        ("its status alone", Exports, Event::Apply(web(3)), none()),
        (
            "a Service that is not exported",
            Services,
            Event::Apply(object("plain", 9, None)),
            none(),
        ),
        ("a slice of it", ClusterIpSlices, of_plain(), none()),
        ("a headless one of it", HeadlessSlices, of_plain(), none()),
    ];
    for (case, watch, seen, expected) in rows {
        assert_eq!(scopes(&mut exporting(), watch, seen.clone()), expected, "{case}");
        if !matches!(watch, Services | HeadlessSlices | OtherSlices) {
            assert!(scopes(&mut started(), watch, seen).is_empty(), "off: {case}");
        }
    }
}

#[test]
fn service_is_followed_until_its_export_ends() {
    let mut changes = exporting();
    scopes(&mut changes, Exports, Event::Delete(web(3)));
    assert!(scopes(&mut changes, ClusterIpSlices, Event::Apply(slice(9))).is_empty());
    assert!(scopes(&mut changes, Services, Event::Apply(object("web", 9, None))).is_empty());
}

#[test]
fn exports_that_the_cluster_does_not_have_delay_nothing_and_are_followed_once_it_has_them() {
    let mut changes = Changes::new(true);
    for watch in [Services, HeadlessSlices, OtherSlices] {
        assert!(list(&mut changes, watch, &[]).is_empty());
    }
    assert!(list(&mut changes, Exports, &[]).is_empty());
    assert_eq!(list(&mut changes, ClusterIpSlices, &[slice(2)]), ["the whole cluster"]);
    assert!(list(&mut changes, Exports, &[]).is_empty());
    assert_eq!(list(&mut changes, Exports, &[web(1)]), ["shop/web"]);
    assert_eq!(scopes(&mut changes, ClusterIpSlices, Event::Apply(slice(9))), ["shop/web"]);
}
