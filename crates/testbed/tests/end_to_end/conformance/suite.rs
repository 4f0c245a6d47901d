//! The suite's process: told where the clusters are, and what it leaves.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::report::Report;
use crate::control_plane::ControlPlane;

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
