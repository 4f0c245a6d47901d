//! The files of `deploy/gitops`: the definitions of Argo CD and Flux admit them, and what they point at is there, under
//! the tag of this version.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::process::Command;

use super::tools::{RELEASE, Tools, definitions};
use crate::real_cluster::RealCluster;
use crate::world::World;

use testbed::ROOT;
use testbed::programs::files_below;

const URL: &str = "https://github.com/YOUR-ORGANIZATION/cloud-map-sync.git";
const TAG: &str = concat!("v", env!("CARGO_PKG_VERSION"));

const OF_ARGO_CD_AND_FLUX: [(&str, &str); 3] = [
    ("github.com/argoproj/argo-cd/v3", "manifests/crds/application-crd.yaml"),
    (
        "github.com/fluxcd/source-controller",
        "config/crd/bases/source.toolkit.fluxcd.io_gitrepositories.yaml",
    ),
    (
        "github.com/fluxcd/kustomize-controller",
        "config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml",
    ),
];

/// What the definitions of Argo CD and Flux make the API server serve.
const SERVED: [&str; 3] = [
    "/apis/argoproj.io/v1alpha1/applications",
    "/apis/source.toolkit.fluxcd.io/v1/gitrepositories",
    "/apis/kustomize.toolkit.fluxcd.io/v1/kustomizations",
];

fn documents(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(format!("{ROOT}/deploy/gitops/{file}")).expect(file);
    serde_saphyr::from_multiple(&text).expect("YAML")
}

#[tokio::test]
async fn files_of_argo_cd_and_flux_are_admitted_with_their_definitions() {
    let Some(_) = Tools::build().await else { return };
    let world = World::start().await;
    let Some(cluster) = RealCluster::start(&world, false).await else { return };
    let control_plane = &cluster.control_plane;
    for file in definitions(&OF_ARGO_CD_AND_FLUX).await {
        control_plane.create_from(file).await;
    }
    for name in ["argocd", "flux-system"] {
        cluster.create_object("/api/v1/namespaces", json!({"metadata": {"name": name}})).await;
    }
    let are_served = async || {
        for path in SERVED {
            if !control_plane.serves(path, "items").await {
                return false;
            }
        }
        true
    };
    control_plane.wait_until("for the definitions to be served", are_served).await;
    for file in ["argocd.yaml", "flux.yaml"] {
        let created = control_plane.create_from(format!("{ROOT}/deploy/gitops/{file}")).await;
        assert_eq!(created.len(), documents(file).len());
    }
}

#[tokio::test]
async fn applications_of_argo_cd_point_at_what_is_there() {
    let Some(tools) = Tools::build().await else { return };
    let applications = documents("argocd.yaml");
    for application in &applications {
        let source = &application["spec"]["source"];
        assert_eq!((&source["repoURL"], &source["targetRevision"]), (&json!(URL), &json!(TAG)));
        let path = source["path"].as_str().expect("a path");
        let values = &source["helm"]["valuesObject"];
        let objects = if values.is_null() {
            tools.kustomize(&format!("{ROOT}/{path}")).await
        } else {
            assert_eq!(format!("{ROOT}/{path}"), super::tools::CHART);
            tools.template(RELEASE, values).await
        };
        assert!(objects.expect("what Argo CD would apply").len() > 1);
    }
    let namespace = documents("../forwarders/cloud-map-forwarder/namespace.yaml").remove(0);
    assert_eq!(
        applications[1]["spec"]["syncPolicy"]["managedNamespaceMetadata"]["labels"],
        namespace["metadata"]["labels"]
    );
}

/// Flux writes such a kustomization over the path.
#[tokio::test]
async fn kustomizations_of_flux_build_what_is_there_with_the_users_values() {
    let Some(tools) = Tools::build().await else { return };
    let mut documents = documents("flux.yaml");
    let source = documents.remove(0);
    assert_eq!(
        (&source["spec"]["url"], &source["spec"]["ref"]),
        (&json!(URL), &json!({"tag": TAG}))
    );
    for (index, document) in documents.iter().enumerate() {
        let spec = &document["spec"];
        let path = spec["path"].as_str().expect("a path").trim_start_matches("./");
        let mut spec = spec.clone();
        if spec["patches"].is_array() {
            spec["patches"][0]["patch"] = json!(
                spec["patches"][0]["patch"].as_str().expect("a patch").replace("blue", "green")
            );
        }
        let overlay = json!({
            "resources": [format!("{}{path}", "../".repeat(3))],
            "patches": spec["patches"].as_array().cloned().unwrap_or_default(),
            "images": spec["images"].as_array().cloned().unwrap_or_default(),
        });
        let folder = folder(&format!("flux-{index}"), &overlay);
        let objects = tools.kustomize(&folder).await.expect("what Flux would apply");
        let settings: Vec<&Value> = objects.iter().filter(|it| it["kind"] == "ConfigMap").collect();
        assert_eq!(settings.len(), index, "the second is the forwarder's");
        for settings in settings {
            assert_eq!(settings["data"]["CLUSTER"], "green");
        }
    }
}

/// kustomize gets the bases with git, here from a repository of this state with the tag.
#[tokio::test]
async fn remote_bases_are_built_by_their_tag() {
    let Some(tools) = Tools::build().await else { return };
    let repository = tagged_repository().await;
    let mut overlay = over_local_bases("kustomize", &repository);
    overlay["configMapGenerator"][0]["literals"][1] = json!("CLUSTER=green");
    let objects = tools.kustomize(&folder("remote", &overlay)).await.expect("the bases");
    let kinds = |kind| objects.iter().filter(|it| it["kind"] == kind).collect::<Vec<_>>();
    assert_eq!(kinds("ConfigMap")[0]["data"]["CLUSTER"], "green");
    assert_eq!(kinds("ClusterRole").len(), 2);
    assert_eq!(kinds("Deployment").len(), 1);

    let overlay = over_local_bases("multi-cluster", &repository);
    let objects = tools.kustomize(&folder("excluded", &overlay)).await.expect("the base");
    let policy = objects.iter().find(|it| it["kind"] == "ValidatingAdmissionPolicy");
    assert_eq!(
        policy.expect("the policy")["spec"]["variables"][0],
        json!({"name": "excludedNamespaces", "expression": "['kube-system', 'platform']"})
    );
}

/// A kustomization over remote bases, with those of the repository in their place.
fn over_local_bases(name: &str, repository: &Path) -> Value {
    let [mut overlay] =
        <[Value; 1]>::try_from(documents(&format!("{name}/kustomization.yaml"))).expect("one");
    for resource in overlay["resources"].as_array_mut().expect("bases") {
        let remote = resource.as_str().expect("a URL");
        let at = remote.strip_prefix(URL).and_then(|it| it.strip_suffix(&format!("?ref={TAG}")));
        let at = at.unwrap_or_else(|| panic!("{remote}"));
        *resource = json!(format!("file://{}{at}?ref={TAG}", repository.display()));
    }
    overlay
}

/// A folder below the repository's `target` with a kustomization.
fn folder(name: &str, kustomization: &Value) -> String {
    let folder = PathBuf::from(ROOT).join("target/gitops").join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("kustomization.yaml"), kustomization.to_string()).expect("a file");
    folder.to_str().expect("text").to_owned()
}

async fn tagged_repository() -> PathBuf {
    let repository = PathBuf::from(ROOT).join("target/gitops/repository.git");
    let _ = std::fs::remove_dir_all(&repository);
    std::fs::create_dir_all(&repository).expect("a folder");
    for file in files_below(&Path::new(ROOT).join("deploy")) {
        let to = repository.join(file.strip_prefix(ROOT).expect("a path in the repository"));
        std::fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        std::fs::copy(file, to).expect("a copy");
    }
    let by = ["-c", "user.name=test", "-c", "user.email=test@example.com"];
    for command in [
        &["init", "--quiet"][..],
        &["add", "--all"],
        &["commit", "--quiet", "--message", "a release"],
        &["tag", TAG],
    ] {
        let git =
            Command::new("git").args(by).args(command).current_dir(&repository).status().await;
        assert!(git.expect("git runs").success(), "{command:?}");
    }
    repository
}
