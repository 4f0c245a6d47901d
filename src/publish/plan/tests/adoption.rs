//! The instances of other owners that are adopted, their new attributes, and the reasons why others are not.

use insta::assert_snapshot;

use super::world::{
    HTTP, World, foreign, lines_of, named, of_other_cluster, ours, own, owner_of, pod, service,
    tagged, with, written,
};
use crate::model::attributes::{
    AVAILABILITY_ZONE, EC2_INSTANCE, INITIAL_HEALTH, PORT, SCHEMA, SIGHTING,
};
use crate::model::{Attributes, Marks, Owner, Selection};
use crate::publish::plan::{Adoption, Plan, Policy, Rules};

const TASK: &str = "0123456789abcdef0123456789abcdef";
const OF_2019: &str = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
const UUID: &str = "7d444840-9dc0-11d1-b245-5ffdce74fad2";
/// Of an installation that adopted it.
const ADOPTED: &str = "c9a646d3-9c61-4cb7-bfcd-ee2522c8f633";

impl World {
    pub fn adoption(&self) -> Plan {
        self.adoption_from(None)
    }

    fn adoption_from(&self, owner: Option<&str>) -> Plan {
        let adoption = Adoption { owner: owner.map(str::to_owned) };
        adoption.plan(&self.observed(&Selection::Everything))
    }
}

/// An instance that an installation with another `OWNER_ID` registered for the Service.
fn of_owner(id: &str, cluster: &str, addresses: &str) -> Attributes {
    let owner = Owner { id: id.into(), ..owner_of(cluster) };
    let mut attributes = Marks { service: named("shop/web"), pod: None }.write(&owner);
    attributes.extend(&foreign(addresses));
    attributes
}

/// `shop/web` with three ready pods and one of every kind of instance under its name.
fn crowded() -> World {
    let pods = [pod("one", "10.0.0.1"), pod("two", "10.0.0.2"), pod("three", "10.0.0.3")];
    World::of(service("shop/web", "http/web").ready(pods))
        .http(
            "web",
            [
                own("a", "shop/web", "10.0.0.1"),
                ("b", with(foreign("10.0.0.2"), "color", "red")),
                ("c", foreign("10.0.0.9")),
                ("d", with(foreign("10.0.0.2"), "ECS_SERVICE_NAME", "web")),
                ("e", of_other_cluster("shop/web", "10.0.0.2")),
                ("f", of_owner("team-a", "blue", "10.0.0.2")),
                ("g", of_owner("team-a", "green", "10.0.0.2")),
                ("h", with(foreign("10.0.0.3"), EC2_INSTANCE, "i-0123")),
                ("i", with(foreign("10.0.0.3"), "appmesh.k8s.aws/mesh", "shop")),
                ("j", with(foreign("10.0.0.3"), PORT, "8080")),
                (TASK, foreign("10.0.0.3")),
                (UUID, foreign("10.0.0.3")),
                (OF_2019, with(with(foreign("10.0.0.3"), "REGION", "x"), AVAILABILITY_ZONE, "x")),
                (ADOPTED, of_owner("team-a", "blue", "10.0.0.3")),
            ],
        )
        .http("other", [("k", foreign("10.0.0.1"))])
}

#[test]
fn unmarked_instances_are_adopted_at_addresses_that_the_service_wants() {
    assert_snapshot!(lines_of(&crowded().adoption()), @r"
    shop/web: adopt http/web b: 10.0.0.2: of no known owner; REGION nothing -> eu-central-1
    shop/web: adopt http/web i: 10.0.0.3: of the App Mesh controller, which must not run any more; REGION nothing -> eu-central-1
    ! shop/web http/web: instance 0123456789abcdef0123456789abcdef is not adopted: it is a task of ECS (NotAdopted)
    ! shop/web http/web: instance 3f2504e0-4f89-41d3-9a0c-0305e82c3301 is not adopted: it is a task of ECS (NotAdopted)
    ! shop/web http/web: instance 7d444840-9dc0-11d1-b245-5ffdce74fad2 is not adopted: it may be a task of ECS, since its id is a UUID (NotAdopted)
    ! shop/web http/web: instance c is not adopted: the Service has no ready endpoint with this address and port to register (NotAdopted)
    ! shop/web http/web: instance c9a646d3-9c61-4cb7-bfcd-ee2522c8f633 is not adopted: it is marked as another cluster's or another owner's (NotAdopted)
    ! shop/web http/web: instance d is not adopted: it is a task of ECS (NotAdopted)
    ! shop/web http/web: instance e is not adopted: it is marked as another cluster's or another owner's (NotAdopted)
    ! shop/web http/web: instance f is not adopted: it is marked as another cluster's or another owner's (NotAdopted)
    ! shop/web http/web: instance g is not adopted: it is marked as another cluster's or another owner's (NotAdopted)
    ! shop/web http/web: instance h is not adopted: Cloud Map allows no marks together with its AWS_EC2_INSTANCE_ID (NotAdopted)
    ! shop/web http/web: instance j is not adopted: the Service has no ready endpoint with this address and port to register (NotAdopted)
    ");
}

#[test]
fn instances_of_an_owner_from_before_are_adopted_where_it_is_named_and_no_others() {
    assert_snapshot!(lines_of(&crowded().adoption_from(Some("team-a"))), @r"
    shop/web: adopt http/web c9a646d3-9c61-4cb7-bfcd-ee2522c8f633: 10.0.0.3: of the owner team-a; REGION nothing -> eu-central-1
    shop/web: adopt http/web f: 10.0.0.2: of the owner team-a; REGION nothing -> eu-central-1
    ! shop/web http/web: instance 0123456789abcdef0123456789abcdef is not adopted: it is a task of ECS (NotAdopted)
    ! shop/web http/web: instance 3f2504e0-4f89-41d3-9a0c-0305e82c3301 is not adopted: it is a task of ECS (NotAdopted)
    ! shop/web http/web: instance 7d444840-9dc0-11d1-b245-5ffdce74fad2 is not adopted: it may be a task of ECS, since its id is a UUID (NotAdopted)
    ! shop/web http/web: instance b is not adopted: it is not marked as team-a's for this cluster (NotAdopted)
    ! shop/web http/web: instance c is not adopted: it is not marked as team-a's for this cluster (NotAdopted)
    ! shop/web http/web: instance d is not adopted: it is a task of ECS (NotAdopted)
    ! shop/web http/web: instance e is not adopted: it is not marked as team-a's for this cluster (NotAdopted)
    ! shop/web http/web: instance g is not adopted: it is not marked as team-a's for this cluster (NotAdopted)
    ! shop/web http/web: instance h is not adopted: it is not marked as team-a's for this cluster (NotAdopted)
    ! shop/web http/web: instance i is not adopted: it is not marked as team-a's for this cluster (NotAdopted)
    ! shop/web http/web: instance j is not adopted: it is not marked as team-a's for this cluster (NotAdopted)
    ");
}

/// The marks decide whose it is.
#[test]
fn instance_with_marks_and_the_attributes_of_a_task_is_adopted_from_its_owner() {
    let marked = with(of_owner("team-a", "blue", "10.0.0.1"), "ECS_SERVICE_NAME", "web");
    assert_snapshot!(lines_of(&one(marked).adoption_from(Some("team-a"))), @"shop/web: adopt dns/web theirs: 10.0.0.1: of the owner team-a; REGION nothing -> eu-central-1");
}

/// `shop/web` with one ready pod, in a service with one instance of another party.
fn one(attributes: Attributes) -> World {
    World::of(service("shop/web", "dns/web").ready([pod("one", "10.0.0.1")]))
        .dns("web", [("theirs", attributes)])
}

#[test]
fn what_others_set_is_kept_and_what_a_sync_would_repair_is_right_at_once() {
    let theirs = with(foreign("10.0.0.1"), "color", "red");
    let theirs = with(with(theirs, INITIAL_HEALTH, "HEALTHY"), PORT, "9");
    let world = one(with(theirs, "REGION", "elsewhere"));
    let mut adopted = written(&world.adoption(), "dns/web");
    let expected = with(ours("shop/web", "10.0.0.1"), "color", "red");
    let expected = with(with(expected, INITIAL_HEALTH, "HEALTHY"), "cloud-map-sync/pod", "one");
    assert_eq!(adopted["theirs"], expected);
    let adopted = adopted.remove("theirs").expect("adopted");
    assert_eq!(one(adopted).planned(), "");
}

/// A registration resets the health of an instance to the value of this attribute.
#[test]
fn no_ready_endpoint_becomes_unhealthy_by_its_adoption() {
    let world = one(with(foreign("10.0.0.1"), INITIAL_HEALTH, "UNHEALTHY"));
    let adopted = written(&world.adoption(), "dns/web");
    assert_eq!(adopted["theirs"].get(INITIAL_HEALTH), Some("HEALTHY"));
}

#[test]
fn marks_of_a_later_release_are_kept() {
    let later = with(of_owner("team-a", "blue", "10.0.0.1"), SCHEMA, "7");
    let later = with(later, SIGHTING, "2026-11-21T10:51:00Z 1 x");
    let world = one(with(later, "cloud-map-sync/later", "x"));
    let adopted = written(&world.adoption_from(Some("team-a")), "dns/web");
    assert_eq!(adopted["theirs"].get(SIGHTING), None, "what their guard saw is not ours");
    let kept = [SCHEMA, "cloud-map-sync/later"].map(|key| adopted["theirs"].get(key));
    assert_eq!(kept, ["7", "x"].map(Some));
}

#[test]
fn an_instance_without_room_for_our_marks_stays() {
    let full = (0..26).fold(foreign("10.0.0.1"), |it, n| with(it, &format!("key-{n}"), "x"));
    assert_snapshot!(lines_of(&one(full).adoption()), @"! shop/web dns/web: instance theirs is not adopted: with our marks it would have 33 attributes, and Cloud Map allows 30 (NotAdopted)");
}

#[test]
fn of_an_adopted_instance_and_one_of_ours_beside_it_one_goes() {
    let world = |theirs: &'static str| {
        World::of(service("shop/web", "dns/web").ready([pod("one", "10.0.0.1")]))
            .dns("web", [own("m", "shop/web", "10.0.0.1"), (theirs, foreign("10.0.0.1"))])
            .dns("old", [own("x", "shop/gone", "10.0.0.1")])
    };
    assert_snapshot!(lines_of(&world("a").adoption()), @r"
    shop/web: adopt dns/web a: 10.0.0.1: of no known owner; REGION nothing -> eu-central-1
    shop/web: deregister dns/web m: 10.0.0.1: another instance of ours has the same address and port
    ");
    assert_snapshot!(lines_of(&world("z").adoption()), @r"
    shop/web: adopt dns/web z: 10.0.0.1: of no known owner; REGION nothing -> eu-central-1
    shop/web: deregister dns/web z: 10.0.0.1 (pod one): another instance of ours has the same address and port
    ");
}

#[test]
fn nothing_is_adopted_for_a_service_that_wants_nothing_there() {
    let with_claim = |change: fn(super::world::Kubernetes) -> super::world::Kubernetes| {
        let web = service("shop/web", "http/web").ready([pod("one", "10.0.0.1")]);
        World::of(change(web)).http("web", [("theirs", foreign("10.0.0.1"))])
    };
    let withdrawn = with_claim(|web| web.levers(false, None));
    assert_snapshot!(lines_of(&withdrawn.adoption()), @"! shop/web http/web: instance theirs is not adopted: the Service has no ready endpoint with this address and port to register (NotAdopted)");
    let idle = with_claim(|web| web.ready([]));
    assert_snapshot!(lines_of(&idle.adoption()), @"! shop/web http/web: instance theirs is not adopted: the Service has no ready endpoint with this address and port to register (NotAdopted)");
    let connect = with_claim(|web| web).with("http/web", |service| service.tags = tagged("ECS"));
    assert_snapshot!(lines_of(&connect.adoption()), @"! shop/web http/web: ECS Service Connect manages this Cloud Map service (tag AmazonECSManaged); choose another name (ServiceConnect)");
    let unread = with_claim(|web| web).with("http/web", |service| service.instances = None);
    assert_snapshot!(lines_of(&unread.adoption()), @"! shop/web http/web: the instances of this Cloud Map service could not be read: they were not requested (Unreadable)");
}

#[test]
fn what_is_beyond_the_maximum_is_not_adopted() {
    let pods = || [pod("one", "10.0.0.1"), pod("two", "10.0.0.2")];
    let world = World::of(service("shop/web", "http/web").ready(pods()).levers(true, Some(1)))
        .http("web", [own("a", "shop/web", "10.0.0.1"), ("b", foreign("10.0.0.2"))]);
    assert_snapshot!(lines_of(&world.adoption()), @"! shop/web http/web: instance b is not adopted: the Service has no ready endpoint with this address and port to register (NotAdopted)");
}

#[test]
fn an_instance_under_the_id_that_we_would_give_is_adopted() {
    let empty =
        World::of(service("shop/web", "dns/web").ready([pod("one", "10.0.0.1")])).dns("web", []);
    let id = empty.id_given("dns/web", "10.0.0.1");
    let world = empty.dns("web", [(&id, foreign("10.0.0.1"))]);
    assert!(written(&world.adoption(), "dns/web").contains_key(&id));
}

#[test]
fn a_policy_that_rewrites_nothing_adopts_nothing() {
    let under = |policy| {
        lines_of(&one(foreign("10.0.0.1")).under(Rules { policy, ..Rules::default() }).adoption())
    };
    assert_snapshot!(under(Policy::UpsertOnly), @"shop/web: adopt dns/web theirs: 10.0.0.1: of no known owner; REGION nothing -> eu-central-1");
    assert_snapshot!(under(Policy::CreateOnly), @"! shop/web dns/web: POLICY=create-only does not allow this: adopt theirs in dns/web (Policy)");
}

#[test]
fn adoption_removes_duplicates_however_many_instances_a_sync_would_lose() {
    let world = ["web", "mail"].into_iter().fold(World::new(), |world, name| {
        let of = format!("shop/{name}");
        let place = format!("http/{name}");
        let ready = service(&of, &place).ready([pod("one", "10.0.0.1")]);
        world.service(ready).cloud_map(&place, HTTP, []).with(&place, |it| {
            let lost =
                (2..20).map(|last| (format!("i-{last}"), ours(&of, &format!("10.0.0.{last}"))));
            let same =
                [("a".to_owned(), ours(&of, "10.0.0.1")), ("b".to_owned(), foreign("10.0.0.1"))];
            it.instances = Some(lost.chain(same).collect());
        })
    });
    assert_snapshot!(lines_of(&world.adoption()), @r"
    shop/mail: adopt http/mail b: 10.0.0.1: of no known owner; REGION nothing -> eu-central-1
    shop/mail: deregister http/mail b: 10.0.0.1 (pod one): another instance of ours has the same address and port
    shop/web: adopt http/web b: 10.0.0.1: of no known owner; REGION nothing -> eu-central-1
    shop/web: deregister http/web b: 10.0.0.1 (pod one): another instance of ours has the same address and port
    ");
}
