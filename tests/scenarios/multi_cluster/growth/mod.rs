//! The cost of a clusterset against its formulas ([`figures`]), from which the documentation has the cost of a hundred
//! members: a run of any of these worlds that begins to cost more, or grows faster, fails here.

#[allow(
    dead_code,
    reason = "shared with the documentation and the benchmarks, which use other parts"
)]
pub mod figures;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::many::Many;
use super::{IMPORT, exported};
use crate::fleet::{pod_name, refs};
use crate::queue::{batch_of, failures};
use crate::run::{counts, synced};
use figures::{Clusterset, OTHER_REQUESTS, forced};
use testbed::cloud_map::Quotas;
use testbed::function::invoke;
use testbed::kubernetes::{ClusterIp, Pod};

const NAMESPACES: [&str; 4] = ["one", "two", "three", "four"];

/// A name has a second page of instances from eleven members on, and a member a second page of records from a hundred
/// exports on.
const WORLDS: [(usize, usize, usize); 5] =
    [(2, 2, 1), (4, 2, 1), (8, 2, 1), (11, 2, 10), (2, 100, 1)];

/// The clusters that a run reads at once.
const SIDE_BY_SIDE: usize = 8;

/// Each member exports the same Services, and all of them are in step.
async fn in_step((members, exports, endpoints): (usize, usize, usize)) -> World {
    let many = Many::start(members, &NAMESPACES, &[]).await;
    for namespace in [&many.fleet.http, &many.fleet.dns] {
        many.fleet.cloud_map.remove_namespace(namespace);
    }
    for (member, cluster) in many.clusters.iter().enumerate() {
        for export in 0..exports {
            let service = ClusterIp::new(NAMESPACES[export % 4], &format!("web-{export}"));
            let pods = (0..endpoints).map(|pod| address(member, export, pod));
            let pods: Vec<String> = pods.collect();
            exported(cluster, service.port_of("TCP", "http", 80, 8080), &refs(&pods));
        }
    }
    let size = Clusterset { members, exports, endpoints, namespaces: exports.min(4) };
    let world = World { many, size };
    synced(&world.many.function).await;
    world.many.forget();
    // It has nothing to hold, so messages need not look for instances, and knows the namespaces that the first one made.
    synced(&world.many.function).await;
    let mut expected = counts(size.in_step());
    if members > SIDE_BY_SIDE {
        // Their first sync has listed the namespaces that it made, and all services.
        expected.remove("ListNamespaces");
        expected.insert("ListServices".to_owned(), 1);
    }
    assert_eq!(world.many.cloud_map(), expected, "{size:?}");
    world
}

struct World {
    many: Many,
    size: Clusterset,
}

impl World {
    /// Gives the first export of the first member another pod, and returns the calls of the message about it.
    async fn add_pod(&self) -> BTreeMap<String, usize> {
        let pod = |number| {
            let address = address(0, 0, number);
            Pod::new(&pod_name("web-0", &address), &address)
        };
        let pods: Vec<Pod> = (0..=self.size.endpoints).map(pod).collect();
        self.many.clusters[0].pods(NAMESPACES[0], "web-0", &pods);
        let body = json!({ "cluster": "c0", "namespace": NAMESPACES[0], "service": "web-0" });
        self.many.forget();
        let answer = invoke(&self.many.function, &batch_of(&[body])).await;
        assert_eq!(failures(&answer), [""; 0], "{:?}", answer.report);
        self.many.cloud_map()
    }
}

fn address(member: usize, export: usize, pod: usize) -> String {
    format!("10.{member}.{export}.{pod}")
}

#[tokio::test(start_paused = true)]
async fn converged_full_sync_costs_what_the_formula_says() {
    for world in WORLDS {
        let world = Box::pin(in_step(world)).await;
        let many = &world.many;
        let size = world.size;
        many.forget();

        synced(&many.new_function(&[]).await).await;

        assert_eq!(many.cloud_map(), counts(size.in_step()), "{size:?}");
        for member in 0..size.members {
            let asked = many.asked(member);
            assert_eq!(asked.len(), size.requests() + OTHER_REQUESTS, "{size:?} {asked:#?}");
        }
        assert_eq!(many.instances("clusterset.shop-set"), size.records());
        assert_eq!(many.instances(NAMESPACES[0]), size.of_a_namespace(), "{size:?}");
        let slices = NAMESPACES.map(|it| many.clusters[0].objects("endpointslices", it)).concat();
        let of_imports = slices.iter().filter(|it| !it["metadata"]["labels"][IMPORT].is_null());
        assert_eq!(of_imports.count(), size.slices());
    }
}

#[tokio::test(start_paused = true)]
async fn changed_pod_costs_what_the_formula_says_and_is_imported_everywhere_at_once() {
    for world in [WORLDS[0], WORLDS[2], (9, 2, 1), WORLDS[3]] {
        let world = Box::pin(in_step(world)).await;
        let size = world.size;

        let calls = world.add_pod().await;

        assert_eq!(calls, counts(size.changed_pod()), "{size:?}");
        let new = address(0, 0, size.endpoints);
        let is_imported = |importer: usize| {
            let slices = world.many.clusters[importer].objects("endpointslices", NAMESPACES[0]);
            slices.iter().any(|it| it.to_string().contains(&new))
        };
        assert!((0..size.members).all(is_imported), "{size:?}");
    }
}

#[test]
fn rates_of_the_formulas_are_those_of_an_account() {
    let size = Clusterset { members: 100, exports: 100, endpoints: 10, namespaces: 4 };
    for calls in [size.in_step(), size.first_sync()] {
        let (seconds, _) = forced(&calls, 1.0);
        let stand_in = Quotas::of_an_account().forced_time(&counts(calls));
        assert_eq!(Duration::from_secs_f64(seconds), stand_in);
    }
}
