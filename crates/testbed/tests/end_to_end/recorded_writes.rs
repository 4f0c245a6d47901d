//! The writes that the stand-ins of the other tests have accepted, on a real API server: by dry run, as the function's
//! role and under the admission policy. A stand-in checks only what the function reacts to, so what else Kubernetes
//! refuses of an object is found here, and in no other test.
//!
//! `KUBERNETES_WRITES` names the folder that the other tests have recorded them in.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::real_cluster::member::{as_function, request_of};
use crate::real_cluster::{NAMESPACE, RealCluster};
use crate::world::{World, blue};
use testbed::programs::skip;

/// Every kind of write that the function makes.
const KINDS: [&str; 9] = [
    "PATCH endpointslices",
    "PATCH serviceexports/status",
    "PATCH serviceimports",
    "PATCH serviceimports/status",
    "PATCH services",
    "POST endpointslices",
    "POST events",
    "POST serviceimports",
    "POST services",
];
/// The Services are in the first one, since a cluster IP can be given to one at a time.
const LANES: u64 = 8;
const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recorded {
    method: String,
    path: String,
    query: String,
    content_type: String,
    body: Value,
    /// Null for a creation.
    before: Value,
    /// The answer of the stand-in.
    after: Value,
}

#[tokio::test]
async fn real_api_server_accepts_each_write_that_a_stand_in_has_accepted() {
    let Some(folder) = std::env::var_os("KUBERNETES_WRITES") else {
        return skip("KUBERNETES_WRITES names no folder");
    };
    let recorded = recorded(Path::new(&folder));
    let kinds: BTreeSet<String> = recorded.iter().map(Recorded::kind).collect();
    assert_eq!(kinds.iter().collect::<Vec<_>>(), KINDS, "the scenarios make every kind of write");

    let world = World::start().await;
    let Some(cluster) = RealCluster::start_quiet_member(&world, blue()).await else { return };
    cluster.join("blue", "shop-set").await;
    let known = ["default", "kube-system", NAMESPACE];
    let namespaces: BTreeSet<&str> = recorded.iter().map(Recorded::namespace).collect();
    for namespace in namespaces.into_iter().filter(|it| !known.contains(it)) {
        cluster.create_object("/api/v1/namespaces", json!({"metadata": {"name": namespace}})).await;
    }
    let mut lanes = BTreeMap::<u64, Vec<Recorded>>::new();
    for write in recorded {
        lanes.entry(write.lane()).or_default().push(write);
    }
    let admin = cluster.control_plane.admin();
    let lanes = lanes.into_values().map(|writes| refusals(admin.clone(), writes));
    let refusals: Vec<String> =
        lanes.collect::<JoinSet<_>>().join_all().await.into_iter().flatten().collect();
    assert!(refusals.is_empty(), "{} refusals:\n{}", refusals.len(), refusals.join("\n"));
}

/// The records of all processes but this one. The last line of a process that still runs may not be whole.
fn recorded(folder: &Path) -> Vec<Recorded> {
    let own = format!("{}.jsonl", std::process::id());
    let mut lines = BTreeSet::new();
    for file in std::fs::read_dir(folder).expect("the folder of KUBERNETES_WRITES") {
        let file = file.expect("a file");
        if *file.file_name() != *own {
            let text = std::fs::read_to_string(file.path()).expect("recorded writes");
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            lines.extend(whole.lines().map(ToOwned::to_owned));
        }
    }
    lines.iter().map(|line| serde_json::from_str(line).expect("a recorded write")).collect()
}

/// The refused writes of a lane, one after the other: each with the object before it, which is then deleted.
async fn refusals(admin: kube::Client, writes: Vec<Recorded>) -> Vec<String> {
    let mut refusals = Vec::new();
    for write in writes {
        let wrong = match write.play(&admin).await {
            Ok(after) => write.difference(after),
            Err(error) => Some(error.to_string()),
        };
        refusals.extend(wrong.map(|wrong| format!("{wrong}\n  {write:?}")));
    }
    refusals
}

impl Recorded {
    /// The path without the sub-resource.
    fn object_path(&self) -> &str {
        self.path.strip_suffix("/status").unwrap_or(&self.path)
    }

    fn collection(&self) -> &str {
        match self.method.as_str() {
            "POST" => &self.path,
            _ => self.object_path().rsplit_once('/').expect("the path of an object").0,
        }
    }

    fn kind(&self) -> String {
        let plural = self.collection().rsplit('/').next().unwrap_or_default();
        let part = if self.path.ends_with("/status") { "/status" } else { "" };
        format!("{} {plural}{part}", self.method)
    }

    fn namespace(&self) -> &str {
        let after = self.path.split_once("/namespaces/").expect("a path in a namespace").1;
        after.split('/').next().unwrap_or_default()
    }

    /// Whether the status is written by itself.
    fn is_custom(&self) -> bool {
        self.path.starts_with("/apis/multicluster.x-k8s.io/")
    }

    fn lane(&self) -> u64 {
        if self.collection().ends_with("/services") {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        (self.collection(), self.after["metadata"]["name"].as_str()).hash(&mut hasher);
        1 + hasher.finish() % (LANES - 1)
    }

    async fn play(&self, admin: &kube::Client) -> Result<Value, kube::Error> {
        if !self.before.is_null() {
            self.prepare(admin).await?;
        }
        let query = format!("{}&dryRun=All&fieldValidation=Strict", self.query);
        let path = format!("{}?{}", self.path, query.trim_start_matches('&'));
        let request = request_of(&self.method, &path, &self.content_type, &self.body);
        let answer = admin.request::<Value>(as_function(request)).await;
        if !self.before.is_null() {
            let deletion = request_of("DELETE", self.object_path(), JSON, &json!({}));
            admin.request::<Value>(deletion).await?;
        }
        answer
    }

    /// The first part that differs between the answers of the real server and of the stand-in. A cluster IP that the
    /// server chooses is any.
    fn difference(&self, mut real: Value) -> Option<String> {
        let mut stand_in = self.after.clone();
        let is_chosen =
            [&self.before, &self.body].iter().all(|it| it["spec"]["clusterIP"].is_null());
        for object in [&mut real, &mut stand_in] {
            let Some(ips) = object.pointer_mut("/spec/clusterIPs") else { continue };
            *ips = ips.as_array().map_or(0, Vec::len).into();
            if is_chosen {
                object["spec"]["clusterIP"].take();
            }
        }
        let parts = ["spec", "status", "addressType", "endpoints", "ports"];
        let differs = parts.into_iter().find(|part| real[part] != stand_in[part])?;
        Some(format!("{differs}: {} here, {} of the stand-in", real[differs], stand_in[differs]))
    }

    /// Creates the object that the write has found, with its status.
    async fn prepare(&self, admin: &kube::Client) -> Result<(), kube::Error> {
        admin.request::<Value>(request_of("POST", self.collection(), JSON, &self.before)).await?;
        if self.is_custom() && !self.before["status"].is_null() {
            let mut status = json!({"status": self.before["status"]});
            let mut path = format!("{}/status", self.object_path());
            let mut kind = MERGE;
            if self.content_type == APPLY {
                // By the same manager, whose conditions go if it applies them no longer.
                kind = APPLY;
                path = format!("{path}?{}", self.query.trim_start_matches('&'));
                status["apiVersion"] = self.body["apiVersion"].clone();
                status["kind"] = self.body["kind"].clone();
            }
            admin.request::<Value>(request_of("PATCH", &path, kind, &status)).await?;
        }
        Ok(())
    }
}
