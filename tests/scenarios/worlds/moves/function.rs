//! The function: its schedule, its messages, people who call it, its deployments and the ends of its processes.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::super::clusterset::{EXPORTED, OTHER_REGION};
use super::super::play::Scene;
use super::super::processes::PROCESSES;
use super::super::world::{CLUSTERS, NAMES, SHOP, Settings};
use super::{Flows, Move, Table};
use crate::queue::batch_of;
use testbed::function::{TIMEOUT, event};

pub fn table(flows: Flows) -> Table {
    let schedule: Table = kinds! { 2 schedule(); };
    let others: Table = kinds! {
        10 full_sync();
        12 messages(flows);
        3 overlap(flows);
        2 person();
        2 process_ends();
        3 deployment(flows);
        3 other_owner();
        3 dry_run();
        2 guard();
    };
    others.into_iter().chain(schedule.into_iter().filter(|_| flows.has_annotated)).collect()
}

/// The time of an invocation: as the template has it, or next to nothing.
fn time() -> impl Strategy<Value = u64> {
    select(&[300, 300, 300, 8][..])
}

fn full_sync() -> impl Strategy<Value = Move> {
    (0..PROCESSES, time()).prop_map(|(process, time)| {
        Move::new(format!("process {process} begins a full sync with {time} s"), move |scene| {
            scene.invoke(process, json!({ "action": "sync" }), Duration::from_secs(time));
        })
    })
}

fn schedule() -> impl Strategy<Value = Move> {
    (0..PROCESSES).prop_map(|process| {
        let sentence = format!("the schedule begins in process {process}");
        Move::new(sentence, move |scene| {
            scene.invoke(process, event("schedule-eventbridge-scheduler"), TIMEOUT);
        })
    })
}

/// A batch about Services of any clusters, also twice about one; what no queue delivers is simply not there.
fn messages(flows: Flows) -> impl Strategy<Value = Move> {
    (0..PROCESSES, bodies(flows), time()).prop_map(|(process, bodies, time)| {
        let sentence = format!("process {process} gets {} with {time} s", listed(&bodies));
        Move::new(sentence, move |scene| {
            scene.deliver(process, batch_of(&bodies), Duration::from_secs(time));
        })
    })
}

impl Scene {
    /// The ids of all Cloud Map services.
    pub fn service_ids(&self) -> Vec<String> {
        self.fleet.all_services().into_iter().map(|(_, it)| it.id).collect()
    }
}

/// Two processes whose calls come in an order of their own: full syncs, or a message beside one or another one.
fn overlap(flows: Flows) -> impl Strategy<Value = Move> {
    let cause = || prop_oneof![Just(Vec::new()), bodies(flows)];
    ([cause(), cause()], vec(1..12_usize, 2..12)).prop_map(|(causes, turns)| {
        let of_each = causes.each_ref().map(|bodies| listed(bodies));
        let sentence = format!("processes 0 and 1 get {of_each:?} and call by turns {turns:?}");
        Move::new(sentence, move |scene| {
            let payloads = causes.each_ref().map(|bodies| match &bodies[..] {
                [] => json!({ "action": "sync" }),
                bodies => batch_of(bodies),
            });
            scene.overlap(payloads, turns.clone());
        })
    })
}

fn listed(bodies: &[Value]) -> String {
    let all: Vec<String> = bodies.iter().map(ToString::to_string).collect();
    if all.is_empty() { "a full sync".to_owned() } else { all.join(" and ") }
}

fn bodies(flows: Flows) -> impl Strategy<Value = Vec<Value>> {
    let names = if flows.has_annotated { &NAMES[..] } else { &[] };
    let exported = if flows.has_exported { &EXPORTED[..] } else { &[] };
    let count = names.len() + exported.len();
    let body = move |(cluster, name): (usize, usize)| {
        body(cluster, names.iter().chain(exported).nth(name))
    };
    vec((0..CLUSTERS.len(), 0..=count).prop_map(body), 1..4)
}

/// The body of a message; one that anybody sent asks for what only a person may.
fn body(cluster: usize, name: Option<&&str>) -> Value {
    let cluster = CLUSTERS[cluster];
    match name {
        Some(name) => json!({"cluster": cluster, "namespace": SHOP, "service": name}),
        None => json!({"action": "purge", "cluster": cluster, "confirm": true}),
    }
}

fn person() -> impl Strategy<Value = Move> {
    let actions = [
        json!({ "action": "plan" }),
        json!({ "action": "confirm" }),
        json!({ "action": "adopt" }),
        json!({ "action": "adopt", "confirm": true }),
        json!({ "action": "purge", "cluster": "green" }),
        json!({ "action": "purge", "cluster": "green", "confirm": true }),
        json!({ "action": "purge", "cluster": "blue", "confirm": true }),
        json!({ "action": "status" }),
    ];
    (0..PROCESSES, select(actions.to_vec())).prop_map(|(process, payload)| {
        Move::new(format!("a person sends {payload} to process {process}"), move |scene| {
            let is_elsewhere = scene.world.settings.clusters.contains(OTHER_REGION);
            // By it a person says that the other Cloud Map is right.
            if is_elsewhere && payload["action"] == "confirm" {
                return;
            }
            if payload["action"] == "purge" {
                // The records are gone by which the right one of two namespaces is known.
                if scene.world.clusterset.has_second_namespace || is_elsewhere {
                    return;
                }
                scene.world.clusterset.has_lost_records = true;
                for name in NAMES {
                    scene.unsettle_name(name);
                }
                (0..EXPORTED.len()).for_each(|name| scene.imports.unsettle(name));
            }
            if payload["action"] == "adopt" {
                scene.is_adopting = true;
                scene.allow_adoption();
            }
            scene.invoke(process, payload.clone(), Duration::from_mins(5));
        })
    })
}

fn process_ends() -> impl Strategy<Value = Move> {
    (0..PROCESSES).prop_map(|process| {
        Move::new(format!("process {process} is killed, and another one starts"), move |scene| {
            scene.kill(process);
        })
    })
}

/// While `DRY_RUN` is on, nothing is written, whoever asks.
fn dry_run() -> impl Strategy<Value = Move> {
    any::<bool>().prop_map(|is_dry| {
        Move::new(format!("the function is deployed with DRY_RUN {is_dry}"), move |scene| {
            if scene.world.settings.is_dry != is_dry {
                scene.world.settings.is_dry = is_dry;
                scene.deploy();
                scene.take_writes();
            }
            scene.invoke(0, json!({ "action": "sync" }), Duration::from_mins(5));
        })
    })
}

/// The guard holds what is lost at once, however little.
fn guard() -> impl Strategy<Value = Move> {
    select(&[0_u32, 1, 2][..]).prop_map(|minimum| {
        let sentence = format!("the function is deployed with GUARD_MINIMUM {minimum}");
        Move::new(sentence, move |scene| {
            scene.world.settings.guard_minimum = minimum;
            scene.deploy();
        })
    })
}

type Change = (&'static str, fn(&mut Settings));

/// One setting is changed, or changed back.
fn deployment(flows: Flows) -> impl Strategy<Value = Move> {
    const CHANGES: [Change; 20] = [
        ("POLICY upsert-only", |it| it.policy = "upsert-only"),
        ("POLICY create-only", |it| it.policy = "create-only"),
        ("POLICY sync", |it| it.policy = "sync"),
        ("ANNOTATION_PREFIX example.com/", |it| it.prefix = "example.com/"),
        ("CLUSTERS green,blue", |it| it.clusters = "green,blue"),
        ("CLUSTERS blue", |it| it.clusters = "blue"),
        ("CLUSTERS with a name beside its ARN", |it| {
            it.clusters = "blue,green,arn:aws:eks:eu-central-1:111122223333:cluster/green";
        }),
        ("CLUSTERS with a role for green", |it| {
            it.clusters = r#"["blue", {"cluster": "green", "roleArn": "arn:aws:iam::111122223333:role/reader"}]"#;
        }),
        ("CLOUD_MAP_NAMESPACES prod", |it| it.namespaces = Some("prod")),
        ("CLOUD_MAP_NAMESPACES prod.local", |it| it.namespaces = Some("prod.local")),
        ("all CLOUD_MAP_NAMESPACES", |it| it.namespaces = None),
        ("all CLOUD_MAP_NAMESPACES and CLUSTERS", |it| {
            (it.namespaces, it.clusters) = (None, "blue,green");
        }),
        ("a NAME_POLICY without web", |it| it.denied = Some("web")),
        ("a NAME_POLICY without pay", |it| it.denied = Some("pay")),
        ("no NAME_POLICY", |it| it.denied = None),
        ("GUARD_MINIMUM 2", |it| it.guard_minimum = 2),
        ("CREATE_NAMESPACES", |it| it.creates_namespaces = !it.creates_namespaces),
        ("EVENTS none", |it| it.events = "none"),
        ("EVENTS warnings", |it| it.events = "warnings"),
        ("EVENTS all", |it| it.events = "all"),
    ];
    // Of the last ones exports alone make nothing.
    let count = if flows.has_annotated { CHANGES.len() } else { 16 };
    select(&CHANGES[..count]).prop_map(|(sentence, change)| {
        Move::new(format!("the function is deployed with {sentence}"), move |scene| {
            change(&mut scene.world.settings);
            scene.deploy();
        })
    })
}

/// The stand-in watches over the instances of one owner: nothing of the other one may be under way. Exports and
/// imports of the other one would be held back.
fn other_owner() -> impl Strategy<Value = Move> {
    select(&["other", "cloud-map-sync"][..]).prop_map(|owner| {
        Move::new(format!("the function is deployed with OWNER_ID {owner}"), move |scene| {
            let is_certain = scene.is_idle() && !scene.world.clusterset.is_on;
            if is_certain && scene.world.settings.owner != owner {
                scene.world.settings.owner = owner;
                scene.deploy();
            }
        })
    })
}
