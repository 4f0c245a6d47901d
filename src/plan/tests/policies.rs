//! What a policy takes out of a plan.

use insta::assert_snapshot;

use super::world::{HTTP, World, ours, own, pod, service, tell, with};
use crate::plan::{Policy, Rules};

#[test]
fn policies_take_changes_out_and_say_so() {
    let world = World::new()
        .service(
            service("shop/web", "http/web")
                .ready([pod("one", "10.0.0.1"), pod("four", "10.0.0.4")]),
        )
        .service(service("shop/new", "http/new").ready([pod("one", "10.0.0.1")]))
        .cloud_map(
            "http/web",
            HTTP,
            [
                ("a", with(ours("shop/web", "10.0.0.1"), "REGION", "elsewhere")),
                own("b", "shop/web", "10.0.0.2"),
                own("c", "shop/gone", "10.0.0.3"),
                own("d", "shop/web", "10.0.0.1"),
            ],
        )
        .cloud_map(
            "http/old",
            HTTP,
            [own("e", "shop/web", "10.0.0.1"), own("f", "shop/gone", "10.0.0.3")],
        );
    let under = |policy| tell(&world.clone().under(Rules { policy, ..Rules::default() }).plan());
    assert_snapshot!(under(Policy::Sync), @r"
    shop/gone: deregister http/old f: 10.0.0.3: Service shop/gone is gone, or no longer annotated and headless
    shop/new: create http/new: an HTTP service
    shop/new: register http/new: 10.0.0.1 (pod one)
    shop/web: deregister http/old e: 10.0.0.1: Service shop/web asks for another name now; stays until every endpoint is registered under the new name of Service shop/web
    shop/web: rewrite http/web a: REGION elsewhere -> eu-central-1, cloud-map-sync/pod nothing -> one
    shop/web: register http/web: 10.0.0.4 (pod four)
    shop/web: deregister http/web b: 10.0.0.2: no ready endpoint has this address and port
    shop/web: deregister http/web c: 10.0.0.3: Service shop/gone is gone, or no longer annotated and headless
    shop/web: deregister http/web d: 10.0.0.1: another instance of ours has the same address and port
    ");
    assert_snapshot!(under(Policy::UpsertOnly), @r"
    shop/new: create http/new: an HTTP service
    shop/new: register http/new: 10.0.0.1 (pod one)
    shop/web: rewrite http/web a: REGION elsewhere -> eu-central-1, cloud-map-sync/pod nothing -> one
    shop/web: register http/web: 10.0.0.4 (pod four)
    shop/web: deregister http/web b: 10.0.0.2: no ready endpoint has this address and port
    shop/web: deregister http/web d: 10.0.0.1: another instance of ours has the same address and port
    ! shop/gone http/old: policy upsert-only does not allow this: deregister f in http/old (Policy)
    ! shop/web http/old: policy upsert-only does not allow this: deregister e in http/old (Policy)
    ! shop/web http/web: policy upsert-only does not allow this: deregister c in http/web (Policy)
    ");
    assert_snapshot!(under(Policy::CreateOnly), @r"
    shop/new: create http/new: an HTTP service
    shop/new: register http/new: 10.0.0.1 (pod one)
    shop/web: register http/web: 10.0.0.4 (pod four)
    ! shop/gone http/old: policy create-only does not allow this: deregister f in http/old (Policy)
    ! shop/web http/old: policy create-only does not allow this: deregister e in http/old (Policy)
    ! shop/web http/web: policy create-only does not allow this: deregister b in http/web (Policy)
    ! shop/web http/web: policy create-only does not allow this: deregister c in http/web (Policy)
    ! shop/web http/web: policy create-only does not allow this: deregister d in http/web (Policy)
    ! shop/web http/web: policy create-only does not allow this: rewrite a in http/web (Policy)
    ");
}
