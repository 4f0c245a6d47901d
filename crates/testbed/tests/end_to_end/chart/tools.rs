//! Helm, kustomize and kubectl, built from the Go modules that `tests/deploy_tools` names; and the definitions of other
//! projects, from those that `tests/gitops` does.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::sync::OnceCell;

use testbed::programs::skip;

pub const CHART: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/charts/cloud-map-forwarder");
pub const BASE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/forwarders/cloud-map-forwarder");
/// The name of the release in most tests, and of all objects of the base.
pub const RELEASE: &str = "cloud-map-forwarder";
/// The namespace of the base.
pub const NAMESPACE: &str = "cloud-map-sync";

/// The built tools.
#[derive(Clone)]
pub struct Tools(PathBuf);

impl Tools {
    /// Builds what is out of date. None where Go is missing or too old, which a test then says and passes, but not in
    /// CI.
    pub async fn build() -> Option<Self> {
        static BUILT: OnceCell<Option<Tools>> = OnceCell::const_new();
        BUILT.get_or_init(install).await.clone()
    }

    /// Where a tool is.
    pub fn path(&self, tool: &str) -> PathBuf {
        self.0.join(tool)
    }

    /// Packs the chart as a release has it, into a folder.
    pub async fn pack(&self, folder: &Path) {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let packed = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/release"))
            .args(["chart", "ghcr.io/example/cloud-map-sync/cloud-map-forwarder", &digest])
            .env("DIST", folder)
            .status();
        assert!(packed.await.expect("bash runs it").success());
    }

    /// Runs Helm, with `values` on its standard input. What it printed, or its errors.
    pub async fn helm(&self, arguments: &[&str], values: &Value) -> Result<String, String> {
        self.run("helm", arguments, &values.to_string()).await
    }

    /// The objects of the chart, with a release's name and `values`.
    pub async fn template(&self, release: &str, values: &Value) -> Result<Vec<Value>, String> {
        let arguments = ["template", release, CHART, "--namespace", NAMESPACE, "--values", "-"];
        self.helm(&arguments, values).await.map(|text| objects(&text))
    }

    /// The objects of a folder.
    pub async fn kustomize(&self, folder: &str) -> Result<Vec<Value>, String> {
        self.run("kustomize", &["build", folder], "").await.map(|text| objects(&text))
    }

    async fn run(&self, tool: &str, arguments: &[&str], input: &str) -> Result<String, String> {
        let mut process = Command::new(self.0.join(tool))
            .args(arguments)
            .env_clear()
            // Helm keeps caches and configuration, and no test may see those of whoever runs it.
            .env("HOME", self.0.join("home"))
            // kustomize gets remote bases with git.
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it was built");
        let mut stdin = process.stdin.take().expect("it is piped");
        // One that reads no values may have ended.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        printed(process.wait_with_output().await.expect("its output"))
    }
}

/// What a program printed, or its errors if it failed.
pub fn printed(output: Output) -> Result<String, String> {
    let text = |bytes| String::from_utf8(bytes).expect("text");
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

async fn install() -> Option<Tools> {
    let folder = Path::new(testbed::ROOT).join("target/deploy-tools");
    let usable = go("deploy_tools", &["list", "-m"]).stdout(Stdio::null()).status().await;
    if !usable.is_ok_and(|status| status.success()) {
        skip("Helm and kustomize (tests/deploy_tools) need Go 1.25 or newer");
        return None;
    }
    // As in .ci/run, so that nothing is built twice.
    let mut install = go("deploy_tools", &["install", "-ldflags=-s -w", "tool"]);
    let status = install.env("GOBIN", &folder).status().await.expect("go runs");
    assert!(status.success(), "Helm and kustomize cannot be built: {status}");
    Some(Tools(folder))
}

/// Files with definitions, each of a module.
pub async fn definitions(files: &[(&str, &str)]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (module, file) in files {
        let output = go("gitops", &["mod", "download", "-json", module]).output().await;
        let output = output.expect("go runs").stdout;
        let download: Value = serde_json::from_slice(&output).expect("JSON");
        let folder = download["Dir"].as_str().unwrap_or_else(|| panic!("{download}"));
        found.push(Path::new(folder).join(file));
    }
    found
}

/// The go command in a module of the tests.
fn go(module: &str, arguments: &[&str]) -> Command {
    let mut go = Command::new("go");
    go.args(arguments)
        .current_dir(Path::new(testbed::ROOT).join("tests").join(module))
        .env("GOTOOLCHAIN", "local")
        .env("GOWORK", "off")
        .env("CGO_ENABLED", "0");
    go
}

/// The container of the Deployment.
pub fn container(objects: &[Value]) -> &Value {
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment");
    &deployment.expect("a Deployment")["spec"]["template"]["spec"]["containers"][0]
}

/// The objects in what Helm or kustomize printed.
pub fn objects(text: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
    documents.into_iter().filter(|document| !document.is_null()).collect()
}
