//! The pages for users agree with each other, with the settings and with template.yaml's parameters, and README.md stays
//! short.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use cloud_map_sync::settings;

const TEMPLATE: &str = include_str!("../template.yaml");
const README: &str = "README.md";
/// How long README.md may be, in bytes.
const README_LIMIT: usize = 10 * 1024;
/// How long an item of CHANGELOG.md may be, in characters: two lines.
const CHANGELOG_LIMIT: usize = 320;
/// Folders with pages, beside the root; `docs` is the one for users about the function.
const FOLDERS: [&str; 5] = [".github", "deploy", "docs", "events", "tests"];
/// Words in capitals that are no settings of the function.
const NO_SETTINGS: [&str; 17] = [
    "ACCESS_DENIED",
    "API_AND_CONFIG_MAP",
    "CLOUD_MAP_SYNC_FUNCTION",
    "CONFIG_MAP",
    "DNS_PRIVATE",
    "DNS_PUBLIC",
    "CAPABILITY_NAMED_IAM",
    "ERROR_MESSAGE",
    "FUNCTION_ARN",
    "NAMESPACE_INSTANCE_LIMIT",
    "NO_COLOR",
    "INVALID_CHANGE_BATCH",
    "IP_COOLDOWN_PERIOD",
    "OLD_ROLE_ARN",
    "QUEUE_ARN",
    "ROLE_ARN",
    "ROLE_NAME",
];

/// Every page of the repository, by its path from the root.
fn all_pages() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = BTreeMap::new();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|folder| root.join(folder)).collect();
    let mut files = entries(root);
    while let Some(folder) = folders.pop() {
        for path in entries(&folder) {
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    for path in files.iter().filter(|path| path.extension().is_some_and(|it| it == "md")) {
        let name = path.strip_prefix(root).expect("a path in the repository");
        let text = std::fs::read_to_string(path).expect("text");
        pages.insert(name.to_str().expect("a name").to_owned(), text);
    }
    pages
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// Every page for users about the function: README.md and docs/.
fn pages() -> BTreeMap<String, String> {
    let mut pages = all_pages();
    pages.retain(|page, _| page == README || page.starts_with("docs/"));
    assert!(pages.len() > 20, "{:?}", pages.keys());
    pages
}

/// The texts between backticks, without code blocks.
fn quoted(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|it| it.split('`').skip(1).step_by(2)).collect()
}

/// The links of a page to files of the repository: the file, if it is another one, and the section.
fn links(text: &str) -> Vec<(&str, &str)> {
    let prose = text.split("```").step_by(2);
    let links = prose.flat_map(|it| it.split("](").skip(1)).filter_map(|it| it.split(')').next());
    let links = links.filter(|link| !link.starts_with("http"));
    links.map(|link| link.split_once('#').unwrap_or((link, ""))).collect()
}

#[test]
fn the_readme_stays_short() {
    let size = pages()[README].len();
    assert!(size <= README_LIMIT, "README.md has {size} bytes: give it a line and docs/ a page");
}

#[test]
fn the_readme_leads_to_every_page() {
    let pages = pages();
    let linked: BTreeSet<&str> = links(&pages[README]).into_iter().map(|(file, _)| file).collect();
    for page in pages.keys().filter(|page| *page != README) {
        assert!(linked.contains(page.as_str()), "no link to {page}");
    }
}

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

/// After a minute without an answer the AWS CLI gives up and calls again, while the first run goes on.
#[test]
fn every_example_of_an_invocation_waits_for_its_answer() {
    let mut found = 0;
    for (page, text) in all_pages() {
        for command in text.split("aws lambda invoke --").skip(1) {
            let command = command.split("```").next().unwrap_or_default();
            assert!(command.contains("--cli-read-timeout 0"), "{page}: {command}");
            found += 1;
        }
    }
    assert!(found > 3, "{found}");
}

#[test]
fn every_setting_that_a_page_names_exists() {
    for (page, text) in pages() {
        for quoted in quoted(&text) {
            let name = quoted.split(['=', ' ']).next().unwrap_or_default();
            let capitals = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
            let is_setting = settings::DOCUMENTED.iter().any(|it| it.variable == name);
            if name.contains('_') && capitals {
                assert!(is_setting || NO_SETTINGS.contains(&name), "{page}: {name}");
            }
        }
    }
}

/// The lines of a parameter of the template.
fn parameter(name: &str) -> Option<&'static str> {
    let parameters =
        &TEMPLATE[TEMPLATE.find("\nParameters:\n")?..TEMPLATE.find("\nMappings:\n")?];
    let found = &parameters[parameters.find(&format!("\n  {name}:\n"))? + 1..];
    let end = found.match_indices("\n  ").find(|(at, _)| !found[at + 3..].starts_with(' '));
    Some(&found[..end.map_or(found.len(), |(at, _)| at)])
}

#[test]
fn every_value_of_a_parameter_that_a_page_names_is_allowed() {
    let mut found = 0;
    for (page, text) in pages() {
        for (name, value) in quoted(&text).iter().filter_map(|it| it.split_once('=')) {
            let mixed = name.starts_with(|c: char| c.is_ascii_uppercase())
                && name.chars().all(char::is_alphanumeric)
                && name.contains(|c: char| c.is_ascii_lowercase());
            if !mixed {
                continue;
            }
            let lines = parameter(name).unwrap_or_else(|| panic!("{page}: no parameter {name}"));
            if let Some(allowed) = lines.split("AllowedValues: [").nth(1) {
                let allowed = allowed.split(']').next().unwrap_or_default();
                let mut allowed = allowed.split(", ").map(|it| it.trim_matches('"'));
                assert!(allowed.any(|it| it == value), "{page}: {name}={value}");
            }
            found += 1;
        }
    }
    assert!(found > 1, "{found}");
}

#[test]
fn no_page_has_a_deployment_that_the_next_one_undoes() {
    for (page, text) in pages() {
        assert!(!text.contains("sam deploy --parameter-overrides"), "{page}");
    }
}

#[test]
fn pages_about_operation_lead_to_the_upgrade() {
    for operation in [README, "docs/deploying.md", "docs/runbook.md"] {
        assert!(pages()[operation].contains("leaving.md#upgrade)"), "{operation}");
    }
}

#[test]
fn every_page_gives_a_second_installation_an_owner_id_of_its_own() {
    let mut found = 0;
    for (page, text) in pages() {
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let of_several = ["one function in each", "installation for each", "wo installations"];
            if of_several.iter().any(|words| line.contains(words)) {
                assert!(line.contains("`OWNER_ID`"), "{page}: {line}");
                assert!(!line.contains("not needed"), "{page}: {line}");
                found += 1;
            }
        }
    }
    assert!(found > 2, "{found}");
}

/// The version of a module that a go.mod of the tests requires.
fn required(go_mod: &str, module: &str) -> String {
    let after = go_mod.split(&format!("{module} v")).nth(1);
    let version = after.and_then(|it| it.split_whitespace().next());
    version.unwrap_or_else(|| panic!("no {module}")).to_owned()
}

#[test]
fn the_table_of_versions_is_that_of_the_code_and_the_tests() {
    let kubernetes = include_str!("control_plane/kubernetes/go.mod");
    let multi_cluster = include_str!("control_plane/multi_cluster/go.mod");
    let helm = required(include_str!("deploy_tools/go.mod"), "helm.sh/helm/v4");
    let minor = |version: &str| version.rsplit_once('.').expect("three numbers").0.to_owned();
    let chart = include_str!("../deploy/charts/cloud-map-forwarder/Chart.yaml");
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
fn every_link_leads_to_a_file_and_a_section() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = all_pages();
    let mut found = 0;
    for (page, text) in &pages {
        for (file, section) in links(text) {
            let path = if file.is_empty() { page.into() } else { beside(page, file) };
            assert!(root.join(&path).exists(), "{page}: {file}");
            if !section.is_empty() {
                let target = path.to_str().and_then(|path| pages.get(path));
                let target = target.unwrap_or_else(|| panic!("{page}: {file} has no sections"));
                assert!(anchors(target).contains(section), "{page}: {file}#{section}");
            }
            found += 1;
        }
    }
    assert!(found > 100, "{found}");
}

/// The path that a link of a page means.
fn beside(page: &str, file: &str) -> PathBuf {
    let mut path = PathBuf::from(page);
    path.pop();
    for component in Path::new(file).components() {
        match component {
            Component::ParentDir => {
                path.pop();
            }
            component => path.push(component),
        }
    }
    path
}

/// The sections of a page as Markdown links to them.
fn anchors(page: &str) -> BTreeSet<String> {
    let prose = page.split("```").step_by(2).flat_map(str::lines);
    let headings = prose.filter(|line| line.starts_with('#'));
    let headings = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    headings.map(|text| text.chars().filter(kept).collect::<String>().replace(' ', "-")).collect()
}
