//! One change by itself: its call, its stage, its instance, and its lines for people.

use insta::assert_snapshot;

use super::world::{HTTP, World, foreign, key, named, ours, owner_of, with};
use crate::model::attributes::{EXPORT, HEARTBEAT, PORT};
use crate::model::{
    Attributes, Flow, Foreign, Marks, Namespace, NewService, Owner, Place, RoutingPolicy,
    ServiceName,
};
use crate::publish::plan::{Adopted, Change, DeregisterReason, Exchange, Former};

fn place() -> Place {
    Place::of(&key("http/web"), &World::new().0.registry)
}

fn creation(namespace: Namespace) -> Change {
    let service = NewService {
        namespace,
        name: ServiceName::parse("web").expect("a name"),
        kind: HTTP,
        ttl: 0,
        routing_policy: RoutingPolicy::default(),
    };
    Change::CreateService { place: place(), service }
}

fn rewrite(exchange: Option<Exchange>) -> Change {
    let instance = "a".into();
    let attributes = ours("shop/web", "10.0.0.1");
    let exchange = exchange.map(Box::new);
    Change::Rewrite {
        place: place(),
        instance,
        attributes,
        differences: vec![],
        exchange,
        adopted: None,
    }
}

fn changes() -> Vec<Change> {
    let instance = "a".to_owned();
    let attributes = ours("shop/web", "10.0.0.1");
    let marked = named("shop/old");
    let address = "10.0.0.2".to_owned();
    let because = DeregisterReason::Purged;
    let exchange = Exchange {
        newcomer: "b".into(),
        marked: marked.clone(),
        address: address.clone(),
        because: because.clone(),
    };
    let existing = World::new().0.registry.namespaces["ns-http"].clone();
    vec![
        Change::CreateNamespace { place: place(), name: "http".into() },
        creation(Namespace::missing("http")),
        creation(existing),
        Change::Register {
            place: place(),
            instance: instance.clone(),
            attributes: attributes.clone(),
        },
        rewrite(None),
        rewrite(Some(exchange)),
        Change::Rewrite {
            place: place(),
            instance: instance.clone(),
            attributes,
            differences: Vec::new(),
            exchange: None,
            adopted: Some(Box::new(Adopted {
                present: foreign("10.0.0.1"),
                former: Former::Unmarked(Foreign::Unknown),
            })),
        },
        Change::Deregister { place: place(), instance, marked, address, because, waits_for: None },
    ]
}

#[test]
fn what_each_change_is() {
    let lines = changes().into_iter().map(|change| {
        let registration = if change.is_registration() { ", a registration" } else { "" };
        let missing = change.missing_namespace().map(|it| format!(", needs namespace {it}"));
        let loses = change.losing_service().map(|service| format!(", {service} loses one"));
        let words = [missing, loses].into_iter().flatten().collect::<String>();
        let stage = change.stage();
        let difference = change.count_difference();
        format!("{change}: {stage:?}, {difference}{registration}{words}")
    });
    assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r"
    create-namespace http/web: CreateNamespace, 0, needs namespace http
    create http/web: Create, 0, needs namespace http
    create http/web: Create, 0
    register a in http/web: Register, 1, a registration
    rewrite a in http/web: Register, 0, a registration
    rewrite a in http/web: Register, 0, a registration, shop/old loses one
    adopt a in http/web: Adopt, 0, a registration
    deregister a in http/web: Deregister, -1, shop/old loses one
    ");
}

#[test]
fn instance_is_described_by_its_addresses_or_by_its_record() {
    let of = |flow| Owner { flow, ..owner_of("blue") };
    let record = |flow, key: &str| {
        let marks = Marks { service: named("shop/web"), pod: None };
        with(marks.write(&of(flow)), key, "2026-11-21T10:00:00Z")
    };
    let cases: [(Attributes, &str); 8] = [
        (foreign("10.0.0.1+fd00::1"), "10.0.0.1 and fd00::1"),
        (with(foreign("10.0.0.1"), PORT, "80"), "10.0.0.1 port 80"),
        (with(Attributes::new(), PORT, "80"), " port 80"),
        (
            record(Flow::Exports, HEARTBEAT),
            "the record of the cluster, synced at 2026-11-21T10:00:00Z",
        ),
        (record(Flow::Exports, EXPORT[0]), "the record of the export shop/web"),
        (record(Flow::Exports, "other"), ""),
        (with(Attributes::new(), EXPORT[0], "x"), ""),
        (with(record(Flow::Exports, HEARTBEAT), "AWS_INSTANCE_IPV4", "10.0.0.1"), "10.0.0.1"),
    ];
    for (attributes, expected) in cases {
        assert_eq!(attributes.describe(), expected, "{attributes:?}");
    }
}
