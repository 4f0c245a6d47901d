//! The environment of the function.

use std::collections::BTreeMap;

use super::rules::{assert_line, assert_namespace_name};
use super::{FUNCTION_ARN, Random, try_all};
use crate::model::NamespaceReference;
use crate::settings::{DOCUMENTED, Settings};

/// Of four mistakes with their examples, however long the values are.
const LONGEST: usize = 6_000;
const LISTS: [&str; 4] = [
    r#"[{"cluster": "blue", "roleArn": "arn:aws:iam::111122223333:role/reader", "externalId": "x"}, "green"]"#,
    r#"[{"cluster": "blue", "registryRegion": "eu-west-1", "defaultNamespace": "prod", "clusterId": "b"}]"#,
    r#"{"cluster": "arn:aws:eks:eu-central-1:111122223333:cluster/blue", "multiCluster": "import", "page": false}"#,
    "blue,green",
];

fn value(random: &mut Random, variable: &str, example: &str) -> String {
    let valid = if variable == "CLUSTERS" { *random.pick(&LISTS) } else { example };
    match random.below(5) {
        0 => valid.to_owned(),
        1 => random.text(),
        2 => match serde_json::from_str(valid) {
            Ok(json) => random.damaged_json(&json).to_string(),
            Err(_) => random.damaged_text(valid),
        },
        _ => random.damaged_text(valid),
    }
}

fn assert_settings(settings: &Settings) {
    assert!(!settings.clusters.is_empty() && settings.owner_id.len() <= 256);
    assert!(
        settings.owner_id.bytes().all(|byte| byte.is_ascii_graphic()),
        "{:?}",
        settings.owner_id
    );
    assert_line(&settings.annotation_prefix, 300);
    for cluster in &settings.clusters {
        assert_line(&cluster.arn, 300);
        if let Some(NamespaceReference::NameOrId(name)) = &cluster.default_namespace {
            assert_namespace_name(name);
        }
    }
    settings.warnings().iter().for_each(|warning| assert_line(warning, LONGEST));
}

#[test]
fn settings_are_valid_or_refused_in_one_line() {
    try_all("settings", |random| {
        let mut variables = vec![("CLUSTERS", value(random, "CLUSTERS", ""))];
        for _ in 0..random.below(3) {
            let documented = random.pick(DOCUMENTED);
            variables.push((documented.name, value(random, documented.name, documented.example)));
        }
        let variable = |name: &str| {
            variables.iter().find(|(it, _)| *it == name).map(|(_, value)| value.clone())
        };
        match Settings::read(variable, &BTreeMap::new(), Some(FUNCTION_ARN)) {
            Ok(settings) => {
                assert_settings(&settings);
                true
            }
            Err(mistakes) => {
                assert_line(&mistakes, LONGEST);
                false
            }
        }
    });
}
