//! Batches of messages about several clusters: each message is about one cluster and its names, and whatever none of
//! them names is as Cloud Map has it.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::many::Many;
use super::{Members, exported, imported, pods, sources, web};
use crate::queue::{batch, failures, message};
use crate::seeds::config_of;
use crate::worlds::play::on_a_runtime;
use testbed::function::invoke;
use testbed::kubernetes::{ClusterIp, Export};

const CREATED: &str = "2026-01-01T00:00:00Z";

fn about(cluster: &str, service: &str) -> Value {
    json!({ "cluster": cluster, "namespace": "shop", "service": service })
}

/// blue and green both export `web` and `api`, all in step.
async fn both_export() -> Members {
    let members = Members::start().await;
    for (number, cluster) in [(0, &members.blue), (1, &members.green)] {
        let api = ClusterIp::new("shop", "api").port_of("TCP", "http", 80, 8080);
        exported(cluster, web(), &[&format!("10.{number}.0.1")], CREATED);
        exported(cluster, api, &[&format!("10.{number}.0.2")], CREATED);
    }
    members.converge().await;
    members
}

#[tokio::test]
async fn message_about_a_cluster_says_nothing_of_its_other_names() {
    let batches: [&[Value]; 6] = [
        &[about("blue", "api"), about("green", "web")],
        &[json!({ "cluster": "blue", "namespace": "other" }), about("green", "web")],
        &[json!({ "action": "sync", "cluster": "blue" }), about("green", "web")],
        &[
            json!({ "cluster": "blue", "namespace": "shop", "service": "web", "import": true }),
            about("green", "api"),
        ],
        &[about("blue", "other"), about("green", "another")],
        &[about("blue", "other"), json!({ "cluster": "green", "namespace": "shop" })],
    ];
    for bodies in batches {
        let members = both_export().await;
        pods(&members.green, "web", &["10.1.0.1", "10.1.0.9"]);
        let records = bodies.iter().enumerate().map(|(id, body)| message(&id.to_string(), body));
        let records: Vec<_> = records.collect();

        let invoked = invoke(&members.function, &batch(&records)).await;

        assert_eq!(failures(&invoked), [""; 0], "{bodies:?}");
        let is_read = bodies.iter().any(|it| {
            it["cluster"] == "green" && (it["service"] == "web" || it["service"].is_null())
        });
        let of_green: &[&str] =
            if is_read { &["10.1.0.1:8080", "10.1.0.9:8080"] } else { &["10.1.0.1:8080"] };
        for cluster in [&members.blue, &members.green] {
            let web = sources([("blue", &["10.0.0.1:8080"]), ("green", of_green)]);
            assert_eq!(imported(cluster, "web"), web, "{bodies:?}");
            let api = sources([("blue", &["10.0.0.2:8080"]), ("green", &["10.1.0.2:8080"])]);
            assert_eq!(imported(cluster, "api"), api, "{bodies:?}");
        }
    }
}

/// The Services of a cluster, and the pods that they have now and had in the last full sync.
const NAMES: [&str; 3] = ["api", "cart", "web"];
const CLUSTERS: [&str; 3] = ["c0", "c1", "c2"];

/// A message, or a full sync, of a cluster.
#[derive(Clone, Copy, Debug)]
enum Body {
    Service(usize, usize),
    Namespace(usize),
    Everything(usize),
    Import(usize, usize),
}

impl Body {
    fn json(self) -> Value {
        let cluster = |cluster: usize| CLUSTERS[cluster];
        match self {
            Self::Service(of, name) => about(cluster(of), NAMES[name]),
            Self::Namespace(of) => json!({ "cluster": cluster(of), "namespace": "shop" }),
            Self::Everything(of) => json!({ "action": "sync", "cluster": cluster(of) }),
            Self::Import(of, name) => json!({
                "cluster": cluster(of), "namespace": "shop", "service": NAMES[name], "import": true,
            }),
        }
    }

    /// Whether it is about the exports of a name in a cluster.
    fn names(self, cluster: usize, name: usize) -> bool {
        match self {
            Self::Service(of, it) => (of, it) == (cluster, name),
            Self::Namespace(of) | Self::Everything(of) => of == cluster,
            Self::Import(..) => false,
        }
    }
}

/// Whether each cluster exports each name, before and now; the address of its pod changes with every batch.
type Exports = [[(bool, bool); 3]; 3];

fn body() -> impl Strategy<Value = Body> {
    prop_oneof![
        6 => (0..3_usize, 0..3_usize).prop_map(|(of, name)| Body::Service(of, name)),
        1 => (0..3_usize).prop_map(Body::Namespace),
        1 => (0..3_usize).prop_map(Body::Everything),
        2 => (0..3_usize, 0..3_usize).prop_map(|(of, name)| Body::Import(of, name)),
    ]
}

proptest! {
    #![proptest_config(config_of(24))]

    /// After a batch the imports of every member have of each exporter what the batch read there, and otherwise what
    /// the last full sync registered.
    #[test]
    fn each_name_of_each_cluster_is_as_it_was_read_or_as_it_was(
        exports in any::<Exports>(),
        bodies in vec(body(), 1..5),
    ) {
        on_a_runtime(play(&exports, &bodies));
    }
}

async fn play(exports: &Exports, bodies: &[Body]) {
    let guard = [("GUARD_MINIMUM", "1000")];
    let many = Many::start(CLUSTERS.len(), &["shop"], &guard).await;
    let address = |cluster: usize, name: usize, last: usize| format!("10.{cluster}.{name}.{last}");
    for (cluster, names) in exports.iter().enumerate() {
        for (name, (before, _)) in names.iter().enumerate() {
            let service = ClusterIp::new("shop", NAMES[name]).port_of("TCP", "http", 80, 8080);
            exported(&many.clusters[cluster], service, &[&address(cluster, name, 1)], CREATED);
            if !before {
                many.clusters[cluster].unexport("shop", NAMES[name]);
            }
        }
    }
    many.converge().await;
    for (cluster, names) in exports.iter().enumerate() {
        let server = &many.clusters[cluster];
        for (name, (before, now)) in names.iter().enumerate() {
            pods(server, NAMES[name], &[&address(cluster, name, 2)]);
            match (before, now) {
                (true, false) => _ = server.unexport("shop", NAMES[name]),
                (false, true) => {
                    server.put(Export::new("shop", NAMES[name]).created(CREATED).into());
                }
                _ => {}
            }
        }
    }
    let records =
        bodies.iter().enumerate().map(|(id, body)| message(&id.to_string(), &body.json()));
    let records: Vec<_> = records.collect();

    let invoked = invoke(&many.function, &batch(&records)).await;

    assert_eq!(failures(&invoked), [""; 0]);
    for name in 0..NAMES.len() {
        let is_imported = bodies.iter().any(|body| match body {
            Body::Import(..) => false,
            _ => (0..3).any(|cluster| body.names(cluster, name)),
        });
        if !is_imported {
            continue;
        }
        let mut expected = BTreeMap::new();
        for (cluster, names) in exports.iter().enumerate() {
            let is_read = bodies.iter().any(|body| body.names(cluster, name));
            let (before, now) = names[name];
            if if is_read { now } else { before } {
                let address = address(cluster, name, 1 + usize::from(is_read));
                let of_cluster = BTreeSet::from([format!("{address}:8080")]);
                expected.insert(CLUSTERS[cluster].to_owned(), of_cluster);
            }
        }
        for cluster in &many.clusters {
            assert_eq!(imported(cluster, NAMES[name]), expected, "{} {bodies:?}", NAMES[name]);
        }
    }
}
