//! How long deciding about imports takes: all importing clusters of a clusterset, each with the imports of all members,
//! in step. The objects of each cluster are those that a first plan creates, as an API server stores them.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Duration;

use cloud_map_sync::guard::{Extent, Guard};
use cloud_map_sync::import::observe::Objects;
use cloud_map_sync::import::plan::{GuardedRun, Kind, ObjectRef, OwnerLabel, Present, Write};
use cloud_map_sync::import::sources::{Importer, Members};
use cloud_map_sync::import::{Imported, Importing};
use cloud_map_sync::kubernetes::Kubernetes;
use cloud_map_sync::model::{Flow, Owner, Policy, Selection, Timestamp};
use cloud_map_sync::time::Deadline;
use criterion::{BenchmarkId, Criterion};
use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::clusterset::{Clusterset, NAMESPACES};

/// Members, exports of each and endpoints of each.
const SIZES: [(usize, usize, usize); 3] = [(3, 100, 10), (16, 100, 10), (40, 100, 10)];

/// The clusters of an invocation, with the objects of their imports.
struct World {
    clusterset: Clusterset,
    objects: Vec<Objects>,
    kubernetes: Kubernetes,
    owner: OwnerLabel,
    runtime: Runtime,
}

impl World {
    fn in_step((members, exports, endpoints): (usize, usize, usize)) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let kubernetes = runtime.block_on(async {
            let config = kube::Config::new("http://127.0.0.1:9".parse().expect("an address"));
            Kubernetes::new(kube::Client::try_from(config).expect("a client"))
        });
        let clusterset = Clusterset::new(members, exports, endpoints);
        let owner = OwnerLabel::new("cloud-map-sync");
        let objects = (0..members).map(|_| without_imports()).collect();
        let mut world = Self { clusterset, objects, kubernetes, owner, runtime };
        world.objects = world.plan_all().into_iter().map(stored).collect();
        let all = world.plan_all();
        let is_quiet = |it: &Imported| {
            it.imports.values().all(|import| import.made.is_empty() && import.held_back.is_empty())
        };
        let count =
            |it: &Imported| it.imports.values().map(|import| import.endpoints).sum::<usize>();
        assert!(all.iter().all(is_quiet), "a world in step needs no change");
        assert!(all.iter().all(|it| count(it) == members * exports * endpoints));
        world
    }

    /// Plans the imports of all members, as one invocation does.
    fn plan_all(&self) -> Vec<Imported> {
        let Clusterset { id, members, read, served } = &self.clusterset;
        let known = Members::new(read, id, served, Timestamp::UNIX_EPOCH);
        let read_again = |_, _| std::future::ready(None).boxed_local();
        let importers = members.iter().zip(&self.objects);
        let all = importers.map(|((member, arn), objects)| {
            let guard = GuardedRun {
                may_read_more: false,
                cluster: arn,
                guard: Guard::default(),
                extent: Extent::Everything,
                now: Timestamp::UNIX_EPOCH,
            };
            let cluster = arn.clone();
            let of_records = Owner { id: "cloud-map-sync".into(), cluster, flow: Flow::Exports };
            let importing = Importing {
                kubernetes: &self.kubernetes,
                owner_label: &self.owner,
                importer: Importer { member, owner: &of_records, name_policy: None },
                objects,
                writes: false,
                policy: Policy::Sync,
                guard,
                now: Timestamp::UNIX_EPOCH,
                deadline: Deadline::after(Duration::from_mins(10)),
            };
            self.runtime.block_on(importing.run(&known, &Selection::Everything, &read_again))
        });
        all.collect()
    }
}

/// A cluster with the namespaces alone.
fn without_imports() -> Objects {
    let namespaces = NAMESPACES.map(|name| json!({"metadata": {"name": name}}));
    let mut objects = Objects::default();
    objects.crd_has_slice_objects = true;
    objects.add_list(Kind::Namespace, namespaces.to_vec());
    objects
}

/// The objects of a cluster after the changes of its first plan.
fn stored(imported: Imported) -> Objects {
    let mut stored: BTreeMap<ObjectRef, Value> = BTreeMap::new();
    for import in imported.imports.into_values() {
        let mut present = Present::default();
        for made in import.made {
            let object = made.change.object.clone();
            let number = stored.len();
            let body = present.body(&made.change).expect("a complete request");
            match made.change.write {
                Write::Create => _ = stored.insert(object.clone(), created(body, number)),
                Write::Patch | Write::PatchStatus => {
                    merge(stored.get_mut(&object).expect("an object"), body);
                }
                Write::Delete => panic!("a first plan deletes nothing"),
            }
            present.store(object.kind, &stored[&object]);
        }
    }
    let mut objects = without_imports();
    for kind in [Kind::ServiceImport, Kind::Service, Kind::EndpointSlice] {
        let of_kind = stored.iter().filter(|(object, _)| object.kind == kind);
        objects.add_list(kind, of_kind.map(|(_, value)| value.clone()).collect::<Vec<_>>());
    }
    objects
}

fn created(mut body: Value, number: usize) -> Value {
    body["metadata"]["uid"] = json!(format!("uid-{number}"));
    body["metadata"]["resourceVersion"] = json!("1");
    if body["kind"] == "Service" {
        let address = 0xac10_0000 + u32::try_from(number).expect("a small world");
        body["spec"]["clusterIPs"] = json!([Ipv4Addr::from_bits(address)]);
    }
    body
}

/// A JSON merge patch that removes nothing.
fn merge(object: &mut Value, patch: Value) {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, patch) => *object = patch,
    }
}

pub fn imports(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("imports");
    group.sample_size(10).measurement_time(Duration::from_secs(5));
    for size in SIZES {
        let (members, exports, endpoints) = size;
        let name = format!("{members} x {exports} x {endpoints}");
        let world = World::in_step(size);
        group.bench_with_input(BenchmarkId::new("in step", &name), &world, |it, world| {
            it.iter(|| black_box(world).plan_all().len());
        });
    }
    group.finish();
}
