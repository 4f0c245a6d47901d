//! The sentence of each reason for which an import is held back, and the lines of the changes, as the report has them.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use insta::assert_snapshot;

use super::world;
use crate::clusterset::attributes::Skipped;
use crate::guard::{Circumstances, Guard, Loss, LossSubject, Losses, Verdict};
use crate::import::plan::change::{Change, Content, Kind, ObjectRef, Stage, Write};
use crate::import::plan::held_back::Reason;
use crate::model::{ClusterArn, Family, GuardState, Outcome, ServiceRef, Timestamp};

fn object(kind: Kind) -> ObjectRef {
    ObjectRef { kind, namespace: "shop".into(), name: "web".into() }
}

fn addresses(count: u8) -> Reason {
    let addresses = (1..=count).map(|last| IpAddr::from([10, 0, 0, last])).collect();
    Reason::AddressNotAllowed { cluster: world::cluster("blue"), addresses }
}

fn guard(endpoints: usize) -> Reason {
    let cluster = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";
    let service = ServiceRef::new("shop", "web");
    let loss = Loss { lost: 20, left: 0, was_read: true, has_room: true };
    let run = Circumstances {
        guard: Guard::default(),
        now: Timestamp::UNIX_EPOCH,
        cluster: ClusterArn::parse(cluster).expect("well formed"),
        subject: LossSubject::Endpoints,
    };
    let verdict = Verdict {
        state: GuardState::LeftToFullSync,
        held: [(service, loss)].into_iter().collect(),
        passed: Losses::default(),
        instances: 30,
        unread: 0,
        first_seen: None,
        new: BTreeSet::new(),
    };
    Reason::Guard { endpoints, status: Arc::new(verdict.status(run)) }
}

/// Each reason with its code.
fn sentences(reasons: impl IntoIterator<Item = Reason>) -> String {
    let line = |reason: Reason| format!("{}: {reason}", reason.code());
    reasons.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_reason_names_the_cause_and_a_remedy() {
    let exported = vec![Family::V6];
    let available = vec![Family::V4];
    let skipped = [("a", Skipped::NoAddress), ("b", Skipped::Missing("AWS_INSTANCE_PORT"))];
    assert_snapshot!(sentences([
        Reason::ForeignObject { object: object(Kind::EndpointSlice), manager: Some("helm".into()) },
        Reason::ForeignObject { object: object(Kind::Service), manager: None },
        Reason::LostLabel { object: object(Kind::Service), owner: "team-a".into() },
        Reason::IpFamilyNotSupported { exported, available: available.clone() },
        Reason::IpFamilyNotSupported { exported: vec![], available: vec![Family::V4, Family::V6] },
        Reason::ImpossibleName,
        Reason::AdmissionDenied { message: "the message".into() },
        Reason::Skipped { instances: skipped.map(|(id, why)| (id.to_owned(), why)).to_vec() },
        Reason::UnusableRecord { record: "its record".into() },
    ]), @r"
    ForeignObject: EndpointSlice shop/web is not ours: helm created it; if it is not needed: kubectl delete endpointslices.discovery.k8s.io web --namespace shop
    ForeignObject: Service shop/web is not ours: another writer created it; if it is not needed: kubectl delete services web --namespace shop
    ForeignObject: Service shop/web has lost the label cloud-map-sync/owner; if this installation made it: kubectl label services web --namespace shop cloud-map-sync/owner=team-a
    IPFamilyNotSupported: the exports have IPv6, and this cluster has IPv4: the import has no IP
    IPFamilyNotSupported: the exports have no IP family, and this cluster has IPv4 and IPv6: the import has no IP
    ImpossibleName: no Kubernetes object can have this name
    AdmissionDenied: the message
    Skipped: 2 instances are not imported: a (it has neither AWS_INSTANCE_IPV4 nor AWS_INSTANCE_IPV6), b (it lacks the attribute AWS_INSTANCE_PORT)
    UnusableRecord: its record; the part of its cluster stays in the import as it is
    ");
}

#[test]
fn numbers_of_endpoints_and_addresses_are_in_words() {
    assert_snapshot!(sentences([guard(0), guard(1), guard(2), addresses(1), addresses(3), addresses(5)]), @r"
    Guard: the import stays: import shop/web would lose 20 of 30 imported endpoints at once, past GUARD_SHARE (50 %) and GUARD_MINIMUM (10); this targeted sync leaves it to the full sync
    Guard: 1 endpoint stays: import shop/web would lose 20 of 30 imported endpoints at once, past GUARD_SHARE (50 %) and GUARD_MINIMUM (10); this targeted sync leaves it to the full sync
    Guard: 2 endpoints stay: import shop/web would lose 20 of 30 imported endpoints at once, past GUARD_SHARE (50 %) and GUARD_MINIMUM (10); this targeted sync leaves it to the full sync
    AddressNotAllowed: 1 address is not imported from cluster blue, since NAME_POLICY does not allow them for the Kubernetes namespace: 10.0.0.1
    AddressNotAllowed: 3 addresses are not imported from cluster blue, since NAME_POLICY does not allow them for the Kubernetes namespace: 10.0.0.1, 10.0.0.2, 10.0.0.3
    AddressNotAllowed: 5 addresses are not imported from cluster blue, since NAME_POLICY does not allow them for the Kubernetes namespace: 10.0.0.1, 10.0.0.2, 10.0.0.3 and 2 more
    ");
}

#[test]
fn line_of_a_change_has_its_sign_and_its_noun() {
    let line = |stage, kind, write| {
        let content = Content::default();
        let detail = "detail".into();
        let change = Change { stage, object: object(kind), write, content, detail };
        let line = change.line(&ServiceRef::new("shop", "web"), Outcome::Applied);
        format!("{line}\n{change}")
    };
    let lines = [
        line(Stage::CreateImport, Kind::ServiceImport, Write::Create),
        line(Stage::AddPorts, Kind::Service, Write::Patch),
        line(Stage::RemoveEndpoints, Kind::EndpointSlice, Write::Delete),
        line(Stage::Status, Kind::ServiceImport, Write::PatchStatus),
    ];
    assert_snapshot!(lines.join("\n"), @r"
    + import     shop/web  detail
    + ServiceImport shop/web: detail
    ~ service    shop/web  detail
    ~ Service shop/web: detail
    - slice      shop/web  detail
    - EndpointSlice shop/web: detail
    ~ status     shop/web  detail
    ~ ServiceImport shop/web status: detail
    ");
}
