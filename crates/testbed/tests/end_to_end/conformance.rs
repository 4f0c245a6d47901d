//! The conformance suite of the Multi-Cluster Services API (kubernetes-sigs/mcs-api) as its project publishes it, against
//! two clusters that only the function's binary joins. `tests/conformance/run` builds it and starts the test.
//!
//! `blue` and `green` have control planes with their controllers, CoreDNS and a kubelet without containers; the role of
//! the function has the rights of `deploy/`, under the admission policy. A spec waits at most 20 s for an effect, so full
//! syncs follow each other while the suite runs. AWS would let the function list Cloud Map's namespaces only every
//! other second; `QUOTA_SHARE` takes these rates away, and the stand-in has none.
//!
//! The suite's process gets the addresses of the clusters, and its own report is the table of
//! `docs/multi-cluster-reference.md`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{fmt, fs};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::control_plane::ControlPlane;
use crate::real_cluster::RealCluster;
use crate::real_cluster::member::MEMBER_KINDS;
use crate::world::{World, blue};
use testbed::kubernetes::ClusterIdentity;

/// The ranges of pods' addresses, which route between the clusters.
const PODS_OF_BLUE: &str = "10.64.0.0/16,fd00:64::/112";
const PODS_OF_GREEN: &str = "10.65.0.0/16,fd00:65::/112";

#[tokio::test]
#[ignore = "tests/conformance/run builds the suite"]
async fn unmodified_suite_passes_in_two_clusters_that_the_function_joins() {
    let world = World::start().await;
    world
        .cloud_map
        .watch_over("cloud-map-sync", &[&blue().arn(), &ClusterIdentity::own("green").arn()]);
    let [blue, green] = clusters(&world).await;
    let settings = [
        ("CLUSTERS", "blue,green"),
        ("MULTI_CLUSTER", "on"),
        ("CREATE_NAMESPACES", "true"),
        ("QUOTA_SHARE", "1000"),
    ];
    let mut lambda = world.lambda(&settings).await;
    let sync = json!({"action": "sync"});

    let mut suite = Suite::start(&[("blue", &blue.control_plane), ("green", &green.control_plane)]);
    let mut syncs = 0;
    let mut failed = Vec::new();
    while suite.runs() {
        let report = lambda.invoke(sync.clone()).await;
        syncs += 1;
        if !report.as_ref().is_ok_and(|it| it["ok"] == true) {
            failed.push(json!(format!("{report:?}")));
        }
    }
    suite.keep("failed-syncs.json", &Value::from(failed.clone()));
    println!("{syncs} full syncs meanwhile, {} of them with a failure", failed.len());
    suite.report().assert_that_all_passed();

    for cluster in [&blue, &green] {
        cluster.wait_until_namespaces_are_gone("mcs-conformance-").await;
    }
    // Two of the namespaces may have gone since the last sync, with all that was left: the guard asks a person.
    let last = lambda.invoke(json!({"action": "confirm"})).await.expect("a report");
    assert_eq!(last["ok"], true, "{last:#}");
    for cluster in [&blue, &green] {
        for path in MEMBER_KINDS {
            assert_eq!(cluster.names_across_namespaces(path).await, [""; 0], "{path}");
        }
    }
    for id in ["blue", "green"] {
        let records = world.instances("clusterset.conformance", id);
        assert_eq!(records.keys().collect::<Vec<_>>(), ["cluster"], "the records of {id}");
    }
    world.assert_that_the_ecs_task_is_unchanged();
}

async fn clusters(world: &World) -> [RealCluster; 2] {
    let (blue, green) = tokio::join!(
        RealCluster::start_member(world, blue(), true),
        RealCluster::start_member(world, ClusterIdentity::own("green"), true),
    );
    let [blue, green] =
        [blue, green].map(|it| it.expect("Go built the suite, and builds a control plane"));
    tokio::join!(blue.join("blue", "conformance"), green.join("green", "conformance"));
    let network = [&blue.control_plane, &green.control_plane];
    for (cluster, pods) in [(&blue, PODS_OF_BLUE), (&green, PODS_OF_GREEN)] {
        let nameserver = cluster.control_plane.start_dns().await;
        cluster.control_plane.start_kubelet(nameserver, pods, &network).await;
    }
    [blue, green]
}

/// The report of an implementation names it, its organization and where it is documented, or it is not collected.
const PROJECT: &str = "cloud-map-sync";

/// Ends with the test, whatever it was doing.
pub(super) struct Suite {
    process: Child,
    results: PathBuf,
    is_whole: bool,
}

impl Suite {
    /// Starts it in the folder where it was built. The first cluster is the one that exports first.
    pub(super) fn start(clusters: &[(&str, &ControlPlane)]) -> Self {
        let variable = |name: &str| {
            std::env::var(name)
                .unwrap_or_else(|_| panic!("{name} is not set: run tests/conformance/run"))
        };
        let binary = PathBuf::from(variable("CONFORMANCE_SUITE"));
        let filter = variable("CONFORMANCE_FILTER");
        let results = binary.parent().expect("a folder").to_owned();
        let log =
            File::create(results.join("suite.log")).expect("the folder of the suite is writable");
        let names: Vec<&str> = clusters.iter().map(|(name, _)| *name).collect();
        let process = Command::new(&binary)
            .current_dir(&results)
            .arg("-kubeconfig")
            .arg(kubeconfig(clusters))
            .args(["-contexts", &names.join(",")])
            .args(["-organization", PROJECT, "-project", PROJECT])
            .args(["-version", env!("CARGO_PKG_VERSION"), "-url", &variable("CONFORMANCE_URL")])
            .args(["-ginkgo.v", "-ginkgo.no-color", "-ginkgo.label-filter", &filter])
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle of the log"))
            .stderr(log)
            .spawn()
            .expect("the suite starts");
        Self { process, results, is_whole: filter.is_empty() }
    }

    /// Whether it still runs.
    pub(super) fn runs(&mut self) -> bool {
        self.process.try_wait().expect("a child process").is_none()
    }

    /// Writes something beside its report.
    pub(super) fn keep(&self, name: &str, content: &Value) {
        let content = format!("{content:#}\n");
        fs::write(self.results.join(name), content).expect("the folder of the suite is writable");
    }

    /// What it says of itself, which is printed, too.
    pub(super) fn report(&self) -> Report {
        let report = Report::read(&self.results, self.is_whole);
        println!("{report}");
        report
    }
}

impl Drop for Suite {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One file with a context for each cluster, beside the first one's own.
fn kubeconfig(clusters: &[(&str, &ControlPlane)]) -> PathBuf {
    let mut merged =
        json!({"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []});
    let mut add =
        |kind: &str, entry: Value| merged[kind].as_array_mut().expect("a list").push(entry);
    for (name, cluster) in clusters {
        let own = read(&cluster.write_admin_kubeconfig());
        add("clusters", json!({"name": name, "cluster": own["clusters"][0]["cluster"]}));
        add("users", json!({"name": name, "user": own["users"][0]["user"]}));
        add("contexts", json!({"name": name, "context": {"cluster": name, "user": name}}));
    }
    let (_, first) = clusters[0];
    let path = first.write_admin_kubeconfig().with_file_name("suite.kubeconfig");
    fs::write(&path, merged.to_string()).expect("the folder of the control plane is writable");
    path
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).expect("a kubeconfig");
    serde_json::from_str(&text).expect("a kubeconfig in JSON")
}

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/multi-cluster-reference.md");
const BEGIN: &str = "<!-- conformance -->\n";
const END: &str = "<!-- end -->";

/// What is of interest of `report.yaml`.
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    groups: Vec<Group>,
    passed: usize,
    total: usize,
    #[serde(skip)]
    is_whole: bool,
}

#[derive(Debug, Deserialize)]
struct Group {
    name: String,
    tests: Vec<Spec>,
}

#[derive(Debug, Deserialize)]
struct Spec {
    desc: String,
    passed: bool,
    skipped: bool,
    conformant: bool,
}

impl Report {
    /// Reads it where the suite has left it; whole, if no filter kept specs out.
    pub(super) fn read(folder: &Path, is_whole: bool) -> Self {
        let text =
            fs::read_to_string(folder.join("report.yaml")).expect("the suite has left a report");
        let report = serde_saphyr::from_str(&text).expect("a report of the suite's form");
        Self { is_whole, ..report }
    }

    /// Every spec has passed that was not kept out; the page shows the whole report.
    pub(super) fn assert_that_all_passed(&self) {
        let specs = || self.groups.iter().flat_map(|group| &group.tests);
        let skipped = if self.is_whole { 0 } else { specs().filter(|it| it.skipped).count() };
        assert_eq!(self.passed + skipped, self.total, "the suite is not content");
        assert!(self.passed > 0, "no spec has run");
        if self.is_whole {
            self.check_page();
        }
    }

    fn check_page(&self) {
        let page = fs::read_to_string(PAGE).expect("the page");
        let start = page.find(BEGIN).expect("the beginning of the report") + BEGIN.len();
        let end = start + page[start..].find(END).expect("the end of the report");
        let report = self.to_string();
        if std::env::var_os("UPDATE_README").is_some() {
            let updated = format!("{}{report}{}", &page[..start], &page[end..]);
            fs::write(PAGE, updated).expect("the page can be written");
        } else {
            assert_eq!(
                &page[start..end],
                report,
                "{PAGE} has another report; UPDATE_README=1 writes it"
            );
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{} of {} specs passed.\n", self.passed, self.total)?;
        writeln!(out, "| | Passed | By DNS and kube-proxy's code |\n|---|---|---|")?;
        for Group { name, tests } in &self.groups {
            let passed = || tests.iter().filter(|spec| spec.passed && spec.conformant);
            let without_packets = passed().filter(|spec| spec.is_of_connections()).count();
            writeln!(
                out,
                "| {name} | {} of {} | {without_packets} |",
                passed().count(),
                tests.len()
            )?;
        }
        Ok(())
    }
}

impl Spec {
    /// Whether it connects. Pods do not run, so that kube-proxy's code decides where a connection would go.
    fn is_of_connections(&self) -> bool {
        self.desc.starts_with("Connectivity")
    }
}
