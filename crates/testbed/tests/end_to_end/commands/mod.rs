//! The blocks of the pages that call kubectl, its plugin, Helm or the function, run by bash as they stand: before a real
//! API server, and with the function's binary behind the sandbox's Lambda. Then every manifest of `deploy`, by kubectl.
//! `reader` is the shell of a reader; that other programs would take their arguments is tested in
//! `crates/testbed/tests/documentation/commands`.

#[path = "../../documentation/pages.rs"]
#[allow(dead_code, reason = "shared with the tests of the pages, which look at more")]
mod pages;
mod reader;
#[path = "../../documentation/commands/scripts.rs"]
#[allow(dead_code, reason = "shared with the tests of the pages, which look at more")]
mod scripts;

use std::path::{Path, PathBuf};

use crate::chart::tools::{Tools, definitions};
use crate::real_cluster::RealCluster;
use crate::world::World;
use reader::Reader;
use scripts::{Script, scripts};

use testbed::ROOT;
use testbed::programs::files_below;

/// What makes the API server serve the objects of third-party tools in `deploy/forwarders`.
const OF_FORWARDERS: [(&str, &str); 5] = [
    ("knative.dev/eventing", "config/core/resources/apiserversource.yaml"),
    ("knative.dev/eventing", "config/core/resources/eventtransform.yaml"),
    ("knative.dev/eventing", "config/core/resources/integrationsink.yaml"),
    ("github.com/argoproj/argo-events", "manifests/base/crds/argoproj.io_eventsources.yaml"),
    ("github.com/argoproj/argo-events", "manifests/base/crds/argoproj.io_sensors.yaml"),
];
/// YAML below `deploy` that is no manifest by itself: charts, the files of kustomize, values of an EKS add-on; and what
/// `chart::gitops` applies.
const NO_MANIFESTS: [&str; 5] =
    ["/charts/", "kustomization.yaml", "eks-addon.yaml", "/gitops/", "/terraform/"];

#[tokio::test]
async fn blocks_of_the_pages_and_manifests_do_what_they_say_on_a_real_cluster() {
    let Some(tools) = Tools::build().await else { return };
    let world = World::start().await;
    let Some(cluster) = RealCluster::start(&world, false).await else { return };
    let lambda = world.lambda(&[]).await;
    let reader = Reader::new(&world, &cluster, &tools, lambda.handler()).await;
    let definitions = definitions(&OF_FORWARDERS).await;
    let files = definitions.iter().map(|file| format!(" -f {}", file.display()));
    reader.run(&format!("kubectl create{}", files.collect::<String>())).await.expect("definitions");
    let wait =
        "kubectl wait --for=condition=Established --timeout=30s customresourcedefinition --all";
    reader.run(wait).await.expect("definitions that are served");
    reader.run("kubectl create namespace argo-events").await.expect("where Argo Events runs");

    let mut mistakes = Vec::new();
    let blocks = blocks();
    assert!(blocks.len() >= 18, "{}", blocks.len());
    for block in &blocks {
        if let Err(why) = reader.run(&block.text).await {
            mistakes.push(format!("{}\n{}\n{why}", block.at, block.text));
        }
    }
    let manifests = manifests();
    assert!(manifests.len() >= 10, "{manifests:?}");
    for manifest in manifests {
        let apply = format!("kubectl apply -f {}", manifest.display());
        if let Err(why) = reader.run(&apply).await {
            mistakes.push(format!("{apply}\n{why}"));
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    world.assert_that_the_ecs_task_is_unchanged();
}

/// Those that call kubectl, Helm or the function. Sessions are transcripts, made where they are compared.
fn blocks() -> Vec<Script> {
    let pages = pages::all_pages().into_iter().filter(|(page, _)| !page.starts_with("tests/"));
    let blocks = pages.flat_map(|(page, text)| scripts(&page, &text, &[]));
    blocks.filter(|it| is_run_here(&it.text)).collect()
}

fn is_run_here(text: &str) -> bool {
    let is_session = text.contains(scripts::OF_THE_SANDBOX);
    let programs = ["kubectl ", "helm ", "aws lambda invoke "];
    !is_session && programs.iter().any(|program| text.contains(program))
}

fn manifests() -> Vec<PathBuf> {
    let mut found = files_below(&Path::new(ROOT).join("deploy"));
    found.retain(|path| {
        let name = path.display().to_string();
        let is_yaml = path.extension().is_some_and(|it| it == "yaml");
        let is_manifest = is_yaml && !NO_MANIFESTS.iter().any(|part| name.contains(part));
        // Templates of CloudFormation are checked by cfn-lint.
        is_manifest
            && !std::fs::read_to_string(path).expect("text").contains("AWSTemplateFormatVersion")
    });
    found.sort();
    found
}
