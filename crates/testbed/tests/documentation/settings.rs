//! The settings and parameters that the pages name exist, with these values.

use crate::TEMPLATE;
use crate::pages::{pages, quoted};
use cloud_map_sync::settings::DOCUMENTED;

/// Words in capitals that are no settings of the function.
const NO_SETTINGS: [&str; 20] = [
    "ACCESS_DENIED",
    "API_AND_CONFIG_MAP",
    "AWS_INSTANCE_IPV4",
    "AWS_INSTANCE_PORT",
    "CLOUD_MAP_SYNC_FUNCTION",
    "CONFIG_MAP",
    "DAPR_PORT",
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

#[test]
fn every_setting_that_a_page_names_exists() {
    for (page, text) in pages() {
        for quoted in quoted(&text) {
            let name = quoted.split(['=', ' ']).next().unwrap_or_default();
            let capitals = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
            let is_setting = DOCUMENTED.iter().any(|it| it.name == name);
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
