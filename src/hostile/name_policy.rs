//! `NAME_POLICY`: the JSON of its rules, and the names and addresses that they are asked about.

use std::collections::BTreeMap;

use super::rules::assert_line;
use super::{FUNCTION_ARN, Random, try_all};
use crate::settings::Settings;

const LONGEST: usize = 2_000;
const POLICIES: [&str; 3] = [
    r#"[{"clusters": ["*"], "kubernetesNamespaces": ["shop"], "cloudMapNamespaces": ["prod*"], "names": ["web", "w*"]}]"#,
    r#"[{"clusters": ["blue"], "kubernetesNamespaces": ["*"], "cloudMapNamespaces": ["*"], "names": ["*"], "cidrs": ["10.0.0.0/8", "fd00::/8"], "maxInstances": 3, "maxNames": 2}]"#,
    r#"[{"clusters": ["*"], "kubernetesNamespaces": ["a?b*c*d*e*f*g*"], "cloudMapNamespaces": [], "names": []}]"#,
];

#[test]
fn policy_is_read_or_refused_in_one_line() {
    try_all("name policy", |random| {
        let policy = damaged(random);
        let variable = |name: &str| match name {
            "CLUSTERS" => Some("blue".to_owned()),
            "NAME_POLICY" => Some(policy.clone()),
            _ => None,
        };
        match Settings::read(variable, &BTreeMap::new(), Some(FUNCTION_ARN)) {
            Ok(settings) => settings.rules.name_policy.is_some(),
            Err(mistakes) => {
                assert_line(&mistakes, LONGEST);
                false
            }
        }
    });
}

fn damaged(random: &mut Random) -> String {
    let policy = *random.pick(&POLICIES);
    match random.below(4) {
        0 => policy.to_owned(),
        1 => {
            let rules = serde_json::from_str(policy).expect("JSON");
            random.damaged_json(&rules).to_string()
        }
        2 => {
            let bytes = random.damaged_bytes(policy.as_bytes().to_vec());
            String::from_utf8_lossy(&bytes).into_owned()
        }
        _ => random.damaged_text(policy),
    }
}
