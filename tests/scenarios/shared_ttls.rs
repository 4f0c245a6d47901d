//! The TTL of a name under which several clusters stand: the smallest that they ask for.

use cloud_map_sync::function::Function;

use crate::fleet::{Fleet, annotated, give_pods};
use crate::run::{converge, held_back, settled, sync};
use testbed::kubernetes::KubernetesServer;

/// `web` of `blue` and of `green` under one name; their TTLs, none where it is 0.
async fn two_clusters(blue: u32, green: u32) -> (Fleet, KubernetesServer, Function) {
    let fleet = Fleet::start().await;
    let other = fleet.green().await;
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    other.service(annotated("web", "prod.local", "web"));
    give_pods(&other, "web", &["10.0.2.1"]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    ask(&fleet.cluster, blue);
    ask(&other, green);
    (fleet, other, function)
}

fn ask(cluster: &KubernetesServer, ttl: u32) {
    cluster.edit_service("shop", "web", |object| {
        let annotations = object["metadata"]["annotations"].as_object_mut().expect("annotations");
        let key = "cloudmap.controller/ttl".to_owned();
        match ttl {
            0 => _ = annotations.remove(&key),
            ttl => _ = annotations.insert(key, ttl.to_string().into()),
        }
    });
}

fn ttl(fleet: &Fleet) -> i64 {
    fleet.view("prod.local", "web").dns.expect("records").records[0].1
}

#[tokio::test]
async fn smallest_ttl_that_the_clusters_ask_for_is_set_once_and_stays() {
    for (blue, green, expected) in [(90, 15, 15), (15, 90, 15), (90, 120, 90), (120, 0, 120)] {
        let (fleet, _, function) = two_clusters(blue, green).await;
        let report = converge(&fleet, &function).await;
        assert_eq!(ttl(&fleet), expected, "{blue} {green}: {report}");
        assert_eq!(held_back(&report), [""; 0], "{report}");
        for _ in 0..4 {
            settled(&fleet, &function).await;
        }
    }
}

#[tokio::test]
async fn cluster_that_is_alone_under_the_name_again_gets_its_own() {
    let (fleet, green, function) = two_clusters(90, 15).await;
    converge(&fleet, &function).await;
    green.delete_service("shop", "web");
    sync(&function).await;
    converge(&fleet, &function).await;
    assert_eq!(ttl(&fleet), 90);
}
