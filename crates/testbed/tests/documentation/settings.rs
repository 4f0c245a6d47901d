//! The settings and parameters that the pages name exist, with these values.
//!
//! The example of the Terraform module, as far as it can be checked without Terraform and its providers: it names the
//! module and the files of this version, gives the variables that the module asks for and no others, and is what the page
//! shows.

use std::collections::BTreeSet;

use cloud_map_sync::settings::DOCUMENTED;

use crate::TEMPLATE;
use crate::pages::{all_pages, pages, quoted};

/// Words in capitals that are no settings of the function.
const NO_SETTINGS: [&str; 25] = [
    "ACCESS_DENIED",
    "API_AND_CONFIG_MAP",
    "AWS_INSTANCE_IPV4",
    "AWS_INSTANCE_PORT",
    "CAPABILITY_NAMED_IAM",
    "CLOUD_MAP_SYNC_FUNCTION",
    "CONFIG_MAP",
    "DAPR_PORT",
    "DNS_PRIVATE",
    "DNS_PUBLIC",
    "ECS_CLUSTER_NAME",
    "ECS_SERVICE_NAME",
    "ECS_TASK_DEFINITION_FAMILY",
    "ERROR_MESSAGE",
    "FUNCTION_ARN",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "INVALID_CHANGE_BATCH",
    "IP_COOLDOWN_PERIOD",
    "NO_COLOR",
    "NO_PROXY",
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

const EXAMPLE: &str = include_str!("../../../../deploy/terraform/example/main.tf");
const ACCESS: &str = include_str!("../../../../deploy/terraform/cluster-access/main.tf");
const ACCESS_VARIABLES: &str =
    include_str!("../../../../deploy/terraform/cluster-access/variables.tf");
const ACCESS_TEMPLATE: &str = include_str!("../../../../deploy/cluster-access.yaml");
const MAIN: &str = include_str!("../../../../deploy/terraform/main.tf");
const VARIABLES: &str = include_str!("../../../../deploy/terraform/variables.tf");
const OUTPUTS: &str = include_str!("../../../../deploy/terraform/outputs.tf");

/// The text between a line and the next `}` at the begin of one.
fn block<'a>(text: &'a str, first_line: &str) -> &'a str {
    let at = text.find(first_line).unwrap_or_else(|| panic!("no {first_line}")) + first_line.len();
    text[at..].split("\n}").next().unwrap_or_default()
}

/// The names of the blocks of a kind.
fn named<'a>(text: &'a str, kind: &str) -> BTreeSet<&'a str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(kind)?.strip_prefix(" \""));
    lines.filter_map(|it| it.split('"').next()).collect()
}

/// What a module is given, besides what every module is.
fn arguments(module: &str) -> BTreeSet<&str> {
    let names = module.lines().filter_map(|line| Some(line.split_once('=')?.0.trim()));
    names.filter(|name| !["source", "providers"].contains(name)).collect()
}

#[test]
fn the_example_gives_the_module_what_it_asks_for() {
    let module = block(EXAMPLE, "module \"cloud_map_sync\" {");
    let arguments = arguments(module);
    let variables = named(VARIABLES, "variable");
    let needed = variables.iter().filter(|name| {
        !block(VARIABLES, &format!("variable \"{name}\" {{")).contains("\n  default ")
    });
    let needed: BTreeSet<&str> = needed.copied().collect();
    assert_eq!(needed, ["bucket", "cluster_arns", "template", "zip"].into());
    assert!(arguments.is_superset(&needed) && variables.is_superset(&arguments), "{arguments:?}");
    for output in EXAMPLE.split("module.cloud_map_sync.").skip(1) {
        let output = output.split_whitespace().next().unwrap_or_default();
        assert!(named(OUTPUTS, "output").contains(output), "{output}");
    }
    let parameters = module.split("parameters     = {").nth(1).expect("parameters");
    for parameter in parameters.split('}').next().unwrap_or_default().split(',') {
        let name = parameter.split('=').next().unwrap_or_default().trim();
        assert!(TEMPLATE.contains(&format!("\n  {name}:\n    Type: ")), "{name}");
    }
}

/// Its stack is deploy/cluster-access.yaml, and both modules belong to one tag.
#[test]
fn a_cluster_of_another_account_has_a_module_with_the_parameters_of_its_template() {
    let module = block(EXAMPLE, "module \"cluster_access_green\" {");
    let source =
        concat!("//deploy/terraform/cluster-access?ref=v", env!("CARGO_PKG_VERSION"), "\"");
    assert!(module.contains(source), "{source}");
    let variables = named(ACCESS_VARIABLES, "variable");
    let arguments = arguments(module);
    assert!(variables.is_superset(&arguments), "{arguments:?}");
    let given = module.split("parameters        = {").nth(1).expect("parameters");
    let given = given.split('}').next().unwrap_or_default().split(',');
    let of_module = ACCESS.split("merge({").nth(1).and_then(|it| it.split('}').next());
    let names = given.chain(of_module.expect("parameters").split(','));
    let names: BTreeSet<&str> = names.filter_map(|it| Some(it.split_once('=')?.0.trim())).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    for name in names {
        assert!(ACCESS_TEMPLATE.contains(&format!("\n  {name}:\n    Type: ")), "{name}");
    }
    for output in ["ClusterArn", "RoleArn"] {
        assert!(ACCESS.contains(output) && ACCESS_TEMPLATE.contains(&format!("\n  {output}:\n")));
    }
}

#[test]
fn the_module_keeps_the_objects_that_a_rollback_needs() {
    for object in ["zip", "template"] {
        let object = block(MAIN, &format!("resource \"aws_s3_object\" \"{object}\" {{"));
        assert!(object.contains("create_before_destroy = true"), "{object}");
    }
}

#[test]
fn the_example_is_of_this_version_and_the_page_shows_it() {
    let version = env!("CARGO_PKG_VERSION");
    let source = format!(
        "git::https://github.com/YOUR-ORGANIZATION/cloud-map-sync.git//deploy/terraform?ref=v{version}\""
    );
    assert!(EXAMPLE.contains(&source), "{source}");
    for kind in ["zip", "yaml"] {
        assert!(EXAMPLE.contains(&format!("/cloud-map-sync-{version}-x86_64.{kind}\"")), "{kind}");
    }
    let shown = all_pages();
    let shown = shown["docs/deploying.md"].split("```hcl\n").nth(1);
    let shown = shown.and_then(|it| it.split("\n}").next()).expect("a block");
    assert!(EXAMPLE.contains(shown), "{shown}");
}
