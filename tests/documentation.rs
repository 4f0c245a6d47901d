//! What the pages for users say of one another, of the settings and of template.yaml's parameters.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use cloud_map_sync::settings;

const TEMPLATE: &str = include_str!("../template.yaml");
/// Every page for users about the function.
const PAGES: [(&str, &str); 10] = [
    ("README.md", include_str!("../README.md")),
    ("docs/cost-and-network.md", include_str!("../docs/cost-and-network.md")),
    ("docs/ecs-to-eks.md", include_str!("../docs/ecs-to-eks.md")),
    ("docs/leaving.md", include_str!("../docs/leaving.md")),
    ("docs/many-clusters.md", include_str!("../docs/many-clusters.md")),
    ("docs/moving-from-other-tools.md", include_str!("../docs/moving-from-other-tools.md")),
    ("docs/rolling-updates.md", include_str!("../docs/rolling-updates.md")),
    ("docs/runbook.md", include_str!("../docs/runbook.md")),
    ("docs/security.md", include_str!("../docs/security.md")),
    ("docs/versions.md", include_str!("../docs/versions.md")),
];
/// Words in capitals that are no settings of the function.
const NO_SETTINGS: [&str; 6] = [
    "CLOUD_MAP_SYNC_FUNCTION",
    "ERROR_MESSAGE",
    "NO_COLOR",
    "INVALID_CHANGE_BATCH",
    "IP_COOLDOWN_PERIOD",
    "ROLE_ARN",
];

/// What stands between backticks, without code blocks.
fn quoted(text: &'static str) -> Vec<&'static str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|it| it.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn every_setting_that_a_page_names_exists() {
    for (page, text) in PAGES {
        for quoted in quoted(text) {
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
    for (page, text) in PAGES {
        for (name, value) in quoted(text).iter().filter_map(|it| it.split_once('=')) {
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
    for (page, text) in PAGES {
        assert!(!text.contains("sam deploy --parameter-overrides"), "{page}");
    }
}

#[test]
fn pages_about_operation_lead_to_the_upgrade() {
    for operation in ["README.md", "docs/runbook.md"] {
        let (_, text) = PAGES.iter().find(|(page, _)| *page == operation).expect("a page");
        assert!(text.contains("leaving.md#upgrade)"), "{operation}");
    }
}

#[test]
fn every_page_gives_a_second_installation_an_owner_id_of_its_own() {
    let mut found = 0;
    for (page, text) in PAGES {
        for line in text.lines() {
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

#[test]
fn every_link_leads_to_a_file_and_a_section() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (page, text) in PAGES {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("http") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let path = if file.is_empty() { page.into() } else { beside(page, file) };
            assert!(root.join(&path).exists(), "{page}: {link}");
            let target = PAGES.iter().find(|(name, _)| Path::new(name) == path);
            if let (Some((_, target)), false) = (target, anchor.is_empty()) {
                assert!(anchors(target).contains(anchor), "{page}: {link}");
            }
        }
    }
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
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let headings = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-');
    headings.map(|text| text.chars().filter(kept).collect::<String>().replace(' ', "-")).collect()
}
