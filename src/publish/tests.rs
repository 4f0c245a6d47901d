//! The report of a plan and its outcomes: as text and as JSON, its counts, and whether it is complete.

use std::collections::{BTreeMap, BTreeSet};

use insta::assert_snapshot;

use super::report;
use crate::model::attributes::IPV4;
use crate::model::{
    Attributes, Foreign, Line, Namespace, NewService, Outcome, Place, RoutingPolicy, Selection,
    ServiceKey, ServiceKind, ServiceName, ServiceRef,
};
use crate::publish::group::SettledChange;
use crate::publish::plan::{
    Change, DeregisterReason, Difference, HeldBack, Plan, Reason, Unchanged, WaitsFor,
};
use crate::report::{ClusterReport, Counts, Dropped, Mode, Report, ServiceReport};

fn web() -> ServiceRef {
    ServiceRef::new("shop", "web")
}

fn place(name: &str) -> Place {
    let key = ServiceKey { namespace: "ns-1".into(), name: name.into() };
    Place::new("prod", name, key)
}

fn create() -> Change {
    let name = ServiceName::parse("new").expect("a name");
    let arn = Some("arn:ns-1".to_owned());
    let namespace = Namespace { id: "ns-1".into(), arn, ..Namespace::missing("prod") };
    let kind = ServiceKind::Http;
    let routing_policy = RoutingPolicy::Multivalue;
    let service = NewService { namespace, name, kind, ttl: 60, routing_policy };
    Change::CreateService { place: place("new"), service }
}

fn register() -> Change {
    let attributes = Attributes::from([(IPV4.to_owned(), "10.0.0.1".to_owned())]);
    Change::Register { place: place("new"), instance: "i-1".into(), attributes }
}

fn rewrite() -> Change {
    let difference = Difference {
        attribute: "REGION".into(),
        present: None,
        wanted: Some("eu-central-1".into()),
    };
    Change::Rewrite {
        place: place("web"),
        instance: "i-2".into(),
        attributes: Attributes::new(),
        differences: vec![difference],
        exchange: None,
        adopted: None,
    }
}

fn deregister(waits_for: Option<WaitsFor>) -> Change {
    let gone = ServiceRef::new("shop", "gone");
    Change::Deregister {
        place: place("web"),
        instance: "i-3".into(),
        marked: gone.clone(),
        address: "10.0.0.3".into(),
        because: DeregisterReason::ServiceGone(gone),
        waits_for: waits_for.map(Box::new),
    }
}

fn held_back(place: Option<Place>, reason: Reason) -> HeldBack {
    HeldBack { service: web(), place, reason }
}

/// A plan with changes, with unchanged instances in `prod/web`, and with items held back for the Service itself, in a
/// Cloud Map service, and because that could not be read.
fn plan() -> Plan {
    let foreign = BTreeMap::from([(Foreign::Ecs, 2), (Foreign::OtherCluster, 1)]);
    let holder = ServiceRef::new("shop", "old");
    let conflict = Reason::DomainConflict { holder };
    Plan {
        changes: BTreeMap::from([(web(), vec![create(), register(), rewrite(), deregister(None)])]),
        held_back: vec![
            held_back(None, Reason::PortNeeded { needed_by: "SRV records", ports: 2 }),
            held_back(Some(place("api")), conflict),
            held_back(Some(place("lost")), Reason::Unreadable("throttled".into())),
        ],
        unchanged: BTreeMap::from([(
            place("web"),
            Unchanged { ours: 3, foreign, present: 6, ..Unchanged::default() },
        )]),
        ..Plan::default()
    }
}

fn lines(applied: impl IntoIterator<Item = SettledChange>) -> report::ChangeLines {
    let mut lines = report::ChangeLines::default();
    lines.extend(applied);
    lines
}

fn applied(change: Change, outcome: Result<Outcome, Reason>) -> SettledChange {
    SettledChange { service: web(), change, outcome }
}

fn address_taken() -> Reason {
    Reason::AddressTaken { instance: "i-1".into(), message: "no".into() }
}

/// Every outcome once.
fn outcomes() -> Vec<SettledChange> {
    vec![
        applied(create(), Ok(Outcome::Applied)),
        applied(register(), Ok(Outcome::failed("cannot register: throttled"))),
        applied(rewrite(), Ok(Outcome::Applied)),
        applied(deregister(None), Ok(Outcome::not_attempted("the time is used up"))),
        applied(register(), Err(address_taken())),
    ]
}

fn rest() -> Plan {
    Plan { changes: BTreeMap::new(), ..plan() }
}

#[test]
fn a_plan_prints_itself_as_a_table() {
    let report = Report::new(Mode::Plan, vec![report::of_plan("blue", plan())]);
    assert_snapshot!(report, @r"
    cluster blue
      prod/api
        ! held back  shop/web (DomainConflict): Service shop/old of this cluster holds the name; this one takes over when that ends
      prod/lost
        ! held back  shop/web (Unreadable): the instances of this Cloud Map service could not be read: throttled
      prod/new
        + create     service  an HTTP service
        + register   i-1  10.0.0.1
      prod/web
        ~ rewrite    i-2  REGION nothing -> eu-central-1
        - deregister i-3  10.0.0.3: Service shop/gone is gone, or no longer annotated and headless
        = 3 unchanged
        = left alone, not ours: 2 ECS, 1 of another cluster
      ! held back  shop/web (PortNeeded): SRV records need a port: the Service has 2 ports, so name one with the port annotation
    plan, incomplete: 1 to create, 1 to register, 1 to rewrite, 1 to deregister, 3 unchanged, 3 not ours, 2 held back, 1 failed
    ");
}

#[test]
fn sync_prints_the_outcome_of_each_change() {
    let cluster = report::of_results("blue", rest(), lines(outcomes()));
    assert_snapshot!(Report::new(Mode::Sync, vec![cluster]), @r"
    cluster blue
      prod/api
        ! held back  shop/web (DomainConflict): Service shop/old of this cluster holds the name; this one takes over when that ends
      prod/lost
        ! held back  shop/web (Unreadable): the instances of this Cloud Map service could not be read: throttled
      prod/new
        + create     service  an HTTP service
        + register   i-1  10.0.0.1  ! failed: cannot register: throttled
        ! held back  shop/web (AddressTaken): instance i-1: the DNS change was refused, since another instance may have the same address (INVALID_CHANGE_BATCH: no)
      prod/web
        ~ rewrite    i-2  REGION nothing -> eu-central-1
        - deregister i-3  10.0.0.3: Service shop/gone is gone, or no longer annotated and headless  ! not done: the time is used up
        = 3 unchanged
        = left alone, not ours: 2 ECS, 1 of another cluster
      ! held back  shop/web (PortNeeded): SRV records need a port: the Service has 2 ports, so name one with the port annotation
    synced, incomplete: 1 created, 1 rewritten, 3 unchanged, 3 not ours, 3 held back, 2 failed, 1 not done
    ");
}

#[test]
fn waiting_removal_prints_its_reason() {
    let waiting = deregister(Some(WaitsFor::Holder(web())));
    let plan = Plan { changes: BTreeMap::from([(web(), vec![waiting])]), ..Plan::default() };
    assert_snapshot!(report::of_plan("blue", plan), @r"
    prod/web
      - deregister i-3  10.0.0.3: Service shop/gone is gone, or no longer annotated and headless; stays until Service shop/web has an instance under this name
    ");
}

#[test]
fn name_without_instances_or_changes_prints_nothing_to_do() {
    let unchanged = BTreeMap::from([(place("web"), Unchanged::default())]);
    let plan = Plan { unchanged, ..Plan::default() };
    assert_snapshot!(report::of_plan("blue", plan), @r"
    prod/web
      = nothing to do
    ");
}

#[test]
fn clusters_messages_and_modes_are_distinguished() {
    let error = std::io::Error::other("connection refused");
    let clusters = || {
        let read = report::of_plan("blue", Plan::default());
        vec![read, ClusterReport::unreadable("green", &error)]
    };
    let mut report = Report::new(Mode::Sync, clusters());
    let detail = "it names no Service".to_owned();
    report.dropped = vec![Dropped { message: "m-1".into(), reason: "NotJson".into(), detail }];
    assert_snapshot!(report, @r"
    cluster blue
      no Service is annotated, and no instance of ours is registered
    cluster green
      ! not read, so nothing was changed in Cloud Map: connection refused
    ! dropped    message m-1 (NotJson): it names no Service
    synced, incomplete: 1 cluster not read
    ");
    assert_snapshot!(Report::new(Mode::DryRun, clusters()), @r"
    cluster blue
      no Service is annotated, and no instance of ours is registered
    cluster green
      ! not read, so nothing was changed in Cloud Map: connection refused
    dry run, incomplete: 1 cluster not read
    ");
    assert_snapshot!(Report::new(Mode::DryRun, Vec::new()), @"dry run: nothing to do");
}

/// Additions that were made before the rest of Cloud Map could not be read.
#[test]
fn cluster_that_was_not_read_to_the_end_shows_what_was_changed() {
    let error = std::io::Error::other("connection refused");
    let registered = lines(vec![applied(register(), Ok(Outcome::Applied))]);
    let made = report::of_results("green", Plan::default(), registered);
    let mut cluster = ClusterReport::unreadable("green", &error).with(made);
    cluster.lines.push(Line::warning("a warning"));
    assert_snapshot!(Report::new(Mode::Sync, vec![cluster]), @r"
    cluster green
      ! not read to the end, so only additions were made in Cloud Map: connection refused
      prod/new
        + register   i-1  10.0.0.1
      ! warning    a warning
    synced, incomplete: 1 registered, 1 cluster not read
    ");
}

#[test]
fn changes_in_a_service_serialise() {
    let holder = ServiceRef::new("shop", "old");
    let conflict = Reason::DomainConflict { holder };
    let plan = Plan { held_back: vec![held_back(Some(place("web")), conflict)], ..rest() };
    let failed = Ok(Outcome::failed("cannot rewrite: throttled"));
    let removed = applied(deregister(None), Ok(Outcome::Applied));
    let report = report::of_results("blue", plan, lines(vec![removed, applied(rewrite(), failed)]));
    assert_snapshot!(serde_json::to_string_pretty(&report.services).expect("JSON"), @r#"
    [
      {
        "namespace": "prod",
        "name": "web",
        "unchanged": 3,
        "foreign": {
          "ecs": 2,
          "other_cluster": 1
        },
        "lines": [
          {
            "service": {
              "namespace": "shop",
              "name": "gone"
            },
            "object": "i-3",
            "sign": "-",
            "code": "deregister",
            "text": "10.0.0.3: Service shop/gone is gone, or no longer annotated and headless",
            "outcome": "applied"
          },
          {
            "service": {
              "namespace": "shop",
              "name": "web"
            },
            "object": "i-2",
            "sign": "~",
            "code": "rewrite",
            "text": "REGION nothing -> eu-central-1",
            "outcome": {
              "failed": {
                "error": "cannot rewrite: throttled"
              }
            }
          },
          {
            "service": {
              "namespace": "shop",
              "name": "web"
            },
            "sign": "!",
            "code": "DomainConflict",
            "text": "Service shop/old of this cluster holds the name; this one takes over when that ends",
            "outcome": "kept_out"
          }
        ]
      }
    ]
    "#);
}

#[test]
fn absent_fields_are_not_serialised() {
    let error = std::io::Error::other("connection refused");
    let report = Report::new(Mode::Sync, vec![ClusterReport::unreadable("green", &error)]);
    let report = serde_json::to_value(&report).expect("JSON");
    let keys = |value: &serde_json::Value| -> BTreeSet<String> {
        value.as_object().expect("an object").keys().cloned().collect()
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(keys(&report), names(&["mode", "whole", "ok", "counts", "clusters"]));
    let cluster = &report["clusters"][0];
    assert_eq!(keys(cluster), names(&["cluster", "error", "counts", "services", "lines"]));
}

/// What is counted in each cluster is in the last lines above.
#[test]
fn counts_of_clusters_add_up() {
    let counts = report::of_results("blue", rest(), lines(outcomes())).counts;
    let expected = Counts {
        created: 1,
        rewritten: 1,
        unchanged: 3,
        foreign: 3,
        held_back: 3,
        failed: 2,
        undone: 1,
        ..Counts::default()
    };
    assert_eq!(counts, expected);
    let twice: Counts = [counts, counts].into_iter().sum();
    assert_eq!((twice.created, twice.held_back, twice.undone), (2, 6, 2));
}

#[test]
fn a_report_is_complete_where_a_retry_could_not_help() {
    let failed = || Ok(Outcome::failed("throttled"));
    let unreadable = || held_back(Some(place("web")), Reason::Unreadable("throttled".into()));
    let conflict = || held_back(Some(place("web")), Reason::CnameService);
    let cases = [
        (Vec::new(), vec![applied(register(), Ok(Outcome::Applied))], true),
        (Vec::new(), vec![applied(register(), failed())], false),
        (Vec::new(), vec![applied(register(), Ok(Outcome::not_attempted("no time")))], false),
        (Vec::new(), vec![applied(register(), Err(Reason::CnameService))], true),
        (vec![conflict()], Vec::new(), true),
        (vec![unreadable()], Vec::new(), false),
    ];
    for (held_back, applied, expected) in cases {
        let case = format!("{held_back:?} {applied:?}");
        let report =
            report::of_results("blue", Plan { held_back, ..Plan::default() }, lines(applied));
        assert_eq!(report.is_complete(), expected, "{case}");
        assert_eq!(report.is_complete_for(&Selection::service(web())), expected, "{case}");
        assert!(report.is_complete_for(&Selection::namespace("ops")), "{case}");
        assert_eq!(Report::new(Mode::Sync, vec![report]).ok, expected, "{case}");
    }
}

#[test]
fn name_is_emptied_when_its_last_instance_is_removed_and_none_registered() {
    let new_name = || Some(WaitsFor::NewName(web()));
    let removed = |outcome| vec![applied(deregister(None), outcome)];
    let planned = |wait| vec![applied(deregister(wait), Ok(Outcome::Planned))];
    let mut comes = applied(register(), Ok(Outcome::Applied));
    if let Change::Register { place: at, .. } = &mut comes.change {
        *at = place("web");
    }
    let cases = [
        (1, removed(Ok(Outcome::Applied)), true),
        (1, removed(Ok(Outcome::Planned)), true),
        (2, removed(Ok(Outcome::Applied)), false),
        (1, removed(Ok(Outcome::failed("throttled"))), false),
        (1, removed(Ok(Outcome::not_attempted("no time"))), false),
        (1, [removed(Ok(Outcome::Applied)), vec![comes]].concat(), false),
        (1, planned(Some(WaitsFor::FirstRegistration)), false),
        (1, planned(new_name()), true),
        // The removal was decided again, and the instance stays.
        (1, Vec::new(), false),
    ];
    for (present, applied, expected) in cases {
        let case = format!("{present} {applied:?}");
        let unchanged =
            BTreeMap::from([(place("web"), Unchanged { present, ..Unchanged::default() })]);
        let plan = Plan { unchanged, ..Plan::default() };
        let report = report::of_results("blue", plan, lines(applied));
        let emptied = report.services.iter().any(ServiceReport::is_emptied);
        assert_eq!(emptied, expected, "{case}");
        assert_eq!(report.counts.emptied, usize::from(expected), "{case}");
        let line = "! emptied    no instance is left under this name";
        assert_eq!(report.to_string().contains(line), expected, "{case}");
    }
}
