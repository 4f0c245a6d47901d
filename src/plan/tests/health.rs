//! Which endpoints are found, by what the cluster says of them.

use super::world::{World, pod, service};
use crate::model::Endpoint;

/// A pod with these conditions.
fn one(conditions: &str) -> Endpoint {
    let is = |word| conditions.contains(word);
    let conditions = (is("ready"), is("serving"), is("terminating"));
    let (ready, serving, terminating) = conditions;
    Endpoint { ready, serving, terminating, ..pod("one", "10.0.0.1") }
}

#[test]
fn ready_endpoints_are_found_and_terminating_ones_while_they_serve_where_that_is_asked_for() {
    let cases = [
        ("ready serving", true, true),
        ("ready", true, true),
        ("serving", false, false),
        ("", false, false),
        ("serving terminating", false, true),
        ("ready serving terminating", false, true),
        ("ready terminating", false, false),
        ("terminating", false, false),
    ];
    for (conditions, dropping, keeping) in cases {
        for (keeps_serving, expected) in [(false, dropping), (true, keeping)] {
            let web = service("shop/web", "http/web").keeps(keeps_serving, false);
            let found =
                !World::new().service(web.ready([one(conditions)])).plan().changes.is_empty();
            assert_eq!(found, expected, "{conditions:?}, keep-serving {keeps_serving}");
        }
    }
}
