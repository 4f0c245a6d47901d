//! The changelog, the table of versions and the parts of a release.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::TEMPLATE;
use crate::pages::{all_pages, links, pages};

/// How long an item of CHANGELOG.md may be, in characters: two lines.
const CHANGELOG_LIMIT: usize = 320;

#[test]
fn every_item_of_the_changelog_fits_into_two_lines() {
    let pages = all_pages();
    let items = pages["CHANGELOG.md"].split("\n- ").skip(1);
    let items: Vec<&str> = items.filter_map(|item| item.split("\n#").next()).collect();
    assert!(!items.is_empty());
    for item in items {
        let length = item.trim_end().chars().count();
        assert!(length <= CHANGELOG_LIMIT, "{length} characters: {item}");
    }
}

/// The version of a module that a go.mod of the tests requires.
fn required(go_mod: &str, module: &str) -> String {
    let after = go_mod.split(&format!("{module} v")).nth(1);
    let version = after.and_then(|it| it.split_whitespace().next());
    version.unwrap_or_else(|| panic!("no {module}")).to_owned()
}

#[test]
fn the_table_of_versions_is_that_of_the_code_and_the_tests() {
    let kubernetes = include_str!("../../../../tests/control_plane/kubernetes/go.mod");
    let multi_cluster = include_str!("../../../../tests/control_plane/multi_cluster/go.mod");
    let helm = required(include_str!("../../../../tests/deploy_tools/go.mod"), "helm.sh/helm/v4");
    let minor = |version: &str| version.rsplit_once('.').expect("three numbers").0.to_owned();
    let chart = include_str!("../../../../deploy/charts/cloud-map-forwarder/Chart.yaml");
    let for_chart = chart.split("kubeVersion: \">=").nth(1).and_then(|it| it.split(".0-0").next());
    let schema = cloud_map_sync::model::attributes::SCHEMA_VERSION;
    let rows = [
        format!("the tests run {}", minor(&required(kubernetes, "k8s.io/kubernetes"))),
        format!("chart | {} and newer", for_chart.expect("a version")),
        format!("mcs-api v{}", required(multi_cluster, "sigs.k8s.io/mcs-api")),
        format!("Helm | {}, which the tests run", minor(&helm)),
        format!("`cloud-map-sync/schema` `{schema}`"),
        "Lambda runtime | `provided.al2023`".to_owned(),
        format!("| {} | Goes with", minor(env!("CARGO_PKG_VERSION"))),
    ];
    for row in rows {
        assert!(pages()["docs/upgrading.md"].contains(&row), "{row}");
    }
    assert!(TEMPLATE.contains("Runtime: provided.al2023"));
}

#[test]
fn the_changelog_begins_with_this_version() {
    let pages = all_pages();
    let heading = pages["CHANGELOG.md"].lines().find_map(|line| line.strip_prefix("## "));
    assert_eq!(heading, Some(env!("CARGO_PKG_VERSION")));
}

/// Whether a part of a release could be made in `dist`, and what was printed.
fn release(part: &[&str], dist: &Path) -> (bool, String) {
    let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/release"))
        .args(part)
        .env("GITHUB_REPOSITORY", "example/cloud-map-sync")
        .env("DIST", dist)
        .output()
        .expect("bash runs it");
    (output.status.success(), String::from_utf8(output.stdout).expect("text"))
}

/// krew refuses a manifest without the sum of an archive, and an archive that has another sum.
#[test]
fn krew_installs_the_plugin_from_the_archives_of_a_release() {
    let dist = Path::new(env!("CARGO_TARGET_TMPDIR")).join("krew");
    std::fs::create_dir_all(&dist).expect("a folder");
    let archive =
        |system: &str| format!("kubectl-cloudmap-{}-{system}.tar.gz", env!("CARGO_PKG_VERSION"));
    let systems =
        ["linux-x86_64", "linux-aarch64", "darwin-x86_64", "darwin-arm64", "windows-x86_64"];
    for system in systems {
        std::fs::write(dist.join(archive(system)), system).expect("an archive");
    }
    let (is_made, text) = release(&["krew"], &dist);
    assert!(is_made, "{text}");
    let manifest: Value = serde_saphyr::from_str(&text).expect("YAML");
    assert_eq!(manifest["spec"]["version"], concat!("v", env!("CARGO_PKG_VERSION")));
    let platforms = manifest["spec"]["platforms"].as_array().expect("platforms");
    let selected = platforms.iter().map(|it| {
        let labels = &it["selector"]["matchLabels"];
        [&labels["os"], &labels["arch"], &it["bin"]].map(|it| it.as_str().expect("text"))
    });
    let selected: Vec<[&str; 3]> = selected.collect();
    assert_eq!(
        selected,
        [
            ["linux", "amd64", "kubectl-cloudmap"],
            ["linux", "arm64", "kubectl-cloudmap"],
            ["darwin", "amd64", "kubectl-cloudmap"],
            ["darwin", "arm64", "kubectl-cloudmap"],
            ["windows", "amd64", "kubectl-cloudmap.exe"],
        ]
    );
    for (platform, system) in platforms.iter().zip(systems) {
        let uri = platform["uri"].as_str().expect("text");
        assert!(uri.ends_with(&format!("/{}", archive(system))), "{uri}");
        let digits: Vec<String> =
            Sha256::digest(system).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(platform["sha256"], digits.concat(), "{system}");
    }
    std::fs::remove_file(dist.join(archive("darwin-arm64"))).expect("an archive");
    assert!(!release(&["krew"], &dist).0, "one archive is missing");
}

/// `.ci/deployment.py` deploys with them.
#[test]
fn saved_answers_of_a_release_are_those_of_the_repository_for_its_template() {
    let (is_made, text) = release(&["answers", "x.yaml"], env!("CARGO_TARGET_TMPDIR").as_ref());
    let example = include_str!("../../../../samconfig.example.toml");
    let is_comment = |line: &&str| !line.starts_with('#');
    let added: Vec<&str> =
        text.lines().filter(|line| !example.lines().any(|it| it == *line)).collect();
    assert!(is_made && text.lines().count() == example.lines().count() + 1, "{text}");
    assert_eq!(
        added.into_iter().filter(is_comment).collect::<Vec<_>>(),
        ["template_file = \"x.yaml\""]
    );
}

#[test]
fn the_notes_of_a_release_are_its_section_of_the_changelog() {
    let notes = |tag: &str| release(&["notes", tag], env!("CARGO_TARGET_TMPDIR").as_ref());
    let (is_made, text) = notes(concat!("v", env!("CARGO_PKG_VERSION")));
    let changelog = include_str!("../../../../CHANGELOG.md");
    let mut sections = changelog.split("\n## ").skip(1);
    let heading = concat!(env!("CARGO_PKG_VERSION"), "\n");
    let section = sections.find_map(|section| section.strip_prefix(heading)).expect("the section");
    let section = section.trim();
    assert!(is_made && text.lines().count() == section.lines().count(), "{text}");
    let page = concat!(
        "](https://github.com/example/cloud-map-sync/blob/v",
        env!("CARGO_PKG_VERSION"),
        "/docs/"
    );
    assert!(text.contains(page) && links(&text).is_empty(), "{:?}", links(&text));
    assert_eq!(notes("v99.0.0"), (false, String::new()));
}
