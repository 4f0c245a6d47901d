//! What follows from a reason for which something is held back: if it keeps an endpoint out of its name, if the owner of
//! the Service is notified by an event, if the run counts as failed.

use std::sync::Arc;

use insta::assert_snapshot;

use super::guard::shops;
use super::world::{A, BOTH, HTTP, foreign, named};
use crate::model::{
    BadAnnotation, FirstNames, Outcome, PortReference, RepeatedNamespace, UnresolvedNamespace,
};
use crate::publish::plan::names::MaximumSource;
use crate::publish::plan::services::TtlObstacle;
use crate::publish::plan::{Policy, Reason, ResolvedBy};

fn reasons() -> Vec<Reason> {
    let held = shops(&[("a", 4, Some(0)), ("b", 4, Some(0))]).plan().guard.expect("it is held");
    let maximum = |set_by| Reason::Maximum { maximum: 1, set_by, wanted: 2 };
    let annotation =
        BadAnnotation { annotation: "port".into(), value: "x".into(), problem: "no port".into() };
    let missing =
        UnresolvedNamespace::Missing { reference: "prod".into(), visible: None, not_created: None };
    vec![
        Reason::BadAnnotation(annotation),
        Reason::Namespace(missing),
        Reason::DomainConflict { holder: named("shop/web") },
        Reason::TooManyNames { asked: 2, maximum: 1, by_policy: false },
        Reason::AddressNotAllowed { address: [10, 0, 0, 1].into(), ranges: "none".into() },
        Reason::NotPublishable([127, 0, 0, 1].into()),
        Reason::AddressMalformed("010.1.0.5".into()),
        Reason::AddressNotCheckable,
        Reason::AddressTypeFqdn,
        Reason::NoSuchPort { port: PortReference::Number(1), available: "none".into() },
        Reason::PortNeeded { needed_by: "SRV records", ports: 0 },
        Reason::CnameService,
        Reason::ServiceConnect,
        Reason::DnsNotAllowed,
        Reason::IdTaken("a".into()),
        maximum(MaximumSource::Annotation),
        maximum(MaximumSource::NamePolicy),
        maximum(MaximumSource::LimitPerService),
        Reason::TooManyEndpoints { found: 2, maximum: 1 },
        Reason::ServiceFull { wanted: 2, fit: 1, limit: 1, others: 0 },
        Reason::NoneReady { kept: 1 },
        Reason::EndpointsTruncated,
        Reason::AttributeLimit { instance: "a".into(), problem: "too many".into() },
        Reason::InstancesOfAws { instances: 1 },
        Reason::FinalizerOfAws,
        Reason::Policy { policy: Policy::UpsertOnly, action: "remove".into() },
        Reason::Guard { instances: 4, status: Arc::clone(&held) },
        Reason::Waiting { instance: "a".into(), waits_for: "until then".into() },
        Reason::AddressTaken { instance: "a".into(), message: "no".into() },
        Reason::InvalidInput("no".into()),
        Reason::LimitExceeded { wanted: 2, fit: 1, message: "no".into(), old: None },
        Reason::QuotaExceeded("no".into()),
        Reason::NamespaceInDeletion("team".to_owned()),
        Reason::Unreadable("no".into()),
        Reason::NotInDns,
        Reason::PortNotServed { records: A, port: PortReference::Number(1) },
        Reason::RepeatedNamespace(
            RepeatedNamespace::of("web.shop.local", "shop.local").expect("it repeats it"),
        ),
        Reason::UnknownAnnotation(FirstNames::of(["a/claim"]).expect("a name")),
        Reason::NamespaceByInstances {
            reference: "prod".to_owned(),
            chosen: "ns-1".to_owned(),
            candidates: FirstNames::of(["ns-1", "ns-2"]).expect("names"),
        },
        Reason::TtlStays { present: "60".to_owned(), wanted: 15, why: TtlObstacle::NotOurs },
        Reason::TagsUnreadable("no".into()),
    ]
}

#[test]
fn what_follows_from_each_reason() {
    let lines = reasons().into_iter().map(|reason| {
        let follows = [
            (reason.keeps_out(), "kept out"),
            (reason.resolved_by() == ResolvedBy::Owner, "event"),
            (reason.is_about_capacity(), "capacity"),
            (reason.outcome() == Outcome::Unread, "failed"),
            (reason.outcome() == Outcome::Remark, "remark"),
        ];
        let follows = follows.into_iter().filter_map(|(holds, word)| holds.then_some(word));
        let follows = follows.collect::<Vec<_>>().join(", ");
        format!("{}: {}", reason.code(), if follows.is_empty() { "none" } else { &follows })
    });
    assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
    BadAnnotation: kept out, event
    NamespaceMissing: kept out, event
    DomainConflict: kept out, event
    TooManyNames: kept out, event
    AddressNotAllowed: event
    NotPublishable: event
    AddressMalformed: kept out, event
    AddressNotCheckable: kept out, event
    AddressTypeFqdn: kept out, event
    NoSuchPort: kept out, event
    PortNeeded: kept out, event
    CnameService: kept out, event
    ServiceConnect: kept out, event
    DnsNotAllowed: kept out, event
    IdTaken: kept out, event
    MaxInstances: none
    MaxInstances: event
    MaxInstances: event
    TooManyEndpoints: event, capacity
    ServiceFull: kept out, event, capacity
    NoneReady: kept out, event
    EndpointsTruncated: kept out, event
    AttributeLimit: kept out, event
    AnotherController: kept out
    AnotherController: kept out
    Policy: kept out
    Guard: kept out
    Waiting: kept out
    AddressTaken: kept out, event
    InvalidInput: kept out, event
    LimitExceeded: kept out, event, capacity
    LimitExceeded: kept out, event
    NamespaceInDeletion: kept out, event
    Unreadable: kept out, failed
    NotInDns: event, remark
    PortNotServed: event, remark
    RepeatedNamespace: event, remark
    UnknownAnnotation: event, remark
    NamespaceByInstances: event, remark
    TtlStays: event, remark
    TagsUnreadable: failed
    ");
}

#[test]
fn instance_of_one_family_may_be_refused_by_records_of_both() {
    let of = |kind, addresses: &str| {
        Reason::record_type_mismatch(kind, &foreign(addresses)).map(|reason| reason.to_string())
    };
    assert_snapshot!(of(BOTH, "10.0.0.1").expect("a reason"), @"A+AAAA records cannot contain the endpoint's addresses 10.0.0.1");
    assert!(of(BOTH, "fd00::1").is_some());
    for (kind, addresses) in [(BOTH, "10.0.0.1+fd00::1"), (A, "10.0.0.1"), (HTTP, "10.0.0.1")] {
        assert_eq!(of(kind, addresses), None, "{kind} {addresses}");
    }
}
