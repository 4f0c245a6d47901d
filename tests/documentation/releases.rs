//! The changelog, the upgrade notes and the table of versions.

use crate::TEMPLATE;
use crate::pages::{all_pages, links, pages};

/// How long an item of CHANGELOG.md may be, in characters: two lines.
const CHANGELOG_LIMIT: usize = 320;

#[test]
fn every_item_of_the_changelog_fits_into_two_lines() {
    let pages = all_pages();
    let items = pages["CHANGELOG.md"].split("\n- ").skip(1);
    let items: Vec<&str> = items.filter_map(|item| item.split("\n#").next()).collect();
    assert!(items.len() > 20, "{}", items.len());
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
    let kubernetes = include_str!("../control_plane/kubernetes/go.mod");
    let multi_cluster = include_str!("../control_plane/multi_cluster/go.mod");
    let helm = required(include_str!("../deploy_tools/go.mod"), "helm.sh/helm/v4");
    let minor = |version: &str| version.rsplit_once('.').expect("three numbers").0.to_owned();
    let chart = include_str!("../../deploy/charts/cloud-map-forwarder/Chart.yaml");
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
        assert!(pages()["docs/versions.md"].contains(&row), "{row}");
    }
    assert!(TEMPLATE.contains("Runtime: provided.al2023"));
}

/// `.ci/release check` refuses a tag without its section.
#[test]
fn the_changelog_and_the_upgrade_notes_have_this_version_below_what_is_not_released() {
    let pages = all_pages();
    let headings = |page: &str| -> Vec<String> {
        pages[page].lines().filter_map(|it| it.strip_prefix("## ")).map(str::to_owned).collect()
    };
    let version = env!("CARGO_PKG_VERSION");
    let changelog = headings("CHANGELOG.md");
    assert_eq!(changelog[0], "Unreleased");
    let date =
        changelog[1].strip_prefix(&format!("{version} (")).and_then(|it| it.strip_suffix(')'));
    let date: Option<k8s_openapi::jiff::civil::Date> = date.and_then(|it| it.parse().ok());
    assert!(date.is_some(), "{}", changelog[1]);
    assert_eq!(headings("docs/upgrading.md")[..2], ["Unreleased", version]);
}

#[test]
fn the_notes_of_a_release_are_its_section_of_the_changelog() {
    let notes = |tag: &str| {
        let release = concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/release");
        let output = std::process::Command::new(release)
            .args(["notes", tag])
            .env("GITHUB_REPOSITORY", "example/cloud-map-sync")
            .env("DIST", env!("CARGO_TARGET_TMPDIR"))
            .output()
            .expect("bash runs it");
        (output.status.success(), String::from_utf8(output.stdout).expect("text"))
    };
    let (is_made, text) = notes(concat!("v", env!("CARGO_PKG_VERSION")));
    let changelog = include_str!("../../CHANGELOG.md");
    let mut sections = changelog.split("\n## ").skip(1);
    let heading = concat!(env!("CARGO_PKG_VERSION"), " (");
    let section = sections.find(|it| it.starts_with(heading)).expect("the section");
    let section = section.split_once('\n').expect("a heading").1.trim();
    assert!(is_made && text.lines().count() == section.lines().count(), "{text}");
    let page = concat!(
        "](https://github.com/example/cloud-map-sync/blob/v",
        env!("CARGO_PKG_VERSION"),
        "/docs/"
    );
    assert!(text.contains(page) && links(&text).is_empty(), "{:?}", links(&text));
    assert_eq!(notes("v99.0.0"), (false, String::new()));
}
