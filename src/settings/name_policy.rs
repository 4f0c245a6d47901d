//! The setting `NAME_POLICY`: rules as JSON. A mistake is reported with its path in the text.

use super::parameter_store::Text;
use crate::model::{NamePolicy, Rule};

/// Parses the setting. Each text is a JSON list of rules; the lists are joined. Without the setting everything is
/// allowed.
pub fn parse(texts: &[Text<'_>]) -> Result<Option<NamePolicy>, String> {
    let mut policy = Vec::new();
    for text in texts {
        policy.extend(parse_rules(text.text).map_err(|problem| text.problem(&problem))?);
    }
    if policy.is_empty() && !texts.is_empty() {
        return Err(
            "it contains no rule and allows nothing; if unset, everything is allowed".into()
        );
    }
    Ok(if texts.is_empty() { None } else { Some(NamePolicy(policy)) })
}

fn parse_rules(text: &str) -> Result<Vec<Rule>, String> {
    let whole = |error: &serde_json::Error| format!("it is not a JSON list of rules: {error}");
    let mut json = serde_json::Deserializer::from_str(text);
    let rules: Vec<Rule> = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let (path, error) = (error.path().to_string(), error.inner());
        if path == "." { whole(error) } else { format!("{path}: {error}") }
    })?;
    json.end().map_err(|error| whole(&error))?;
    match rules.iter().enumerate().find_map(|(number, rule)| Some((number, find_empty_list(rule)?)))
    {
        Some((number, (list, hint))) => Err(format!("[{number}].{list}: it is empty; {hint}")),
        None => Ok(rules),
    }
}

/// The first empty list of a rule, which would match nothing. Only `names` may be empty: such a rule allows no name.
fn find_empty_list(rule: &Rule) -> Option<(&'static str, &'static str)> {
    let everything = "\"*\" matches everything, and \"names\": [] allows nothing";
    let lists = [
        ("clusters", rule.clusters.is_empty(), everything),
        ("kubernetesNamespaces", rule.kubernetes_namespaces.is_empty(), everything),
        ("cloudMapNamespaces", rule.cloud_map_namespaces.is_empty(), everything),
        ("cidrs", rule.cidrs.as_ref().is_some_and(Vec::is_empty), "without it all are allowed"),
    ];
    let empty = lists.into_iter().find(|(_, is_empty, _)| *is_empty);
    empty.map(|(list, _, hint)| (list, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = r#"{"clusters": ["*"], "kubernetesNamespaces": ["shop"],
        "cloudMapNamespaces": ["prod*"], "names": ["web"], "cidrs": ["10.0.0.0/16"],
        "maxInstances": 10}"#;

    fn parse(text: Option<&str>) -> Result<Option<NamePolicy>, String> {
        super::parse(text.map(|text| Text { parameter: None, text }).as_slice())
    }

    #[test]
    fn not_set_is_no_policy_and_rules_keep_their_order() {
        assert_eq!(parse(None), Ok(None));
        let two = format!("[{RULE}, {}]", RULE.replace("shop", "*").replace("10}", "20}"));
        let NamePolicy(rules) = parse(Some(&two)).expect("valid").expect("set");
        let limits = rules.iter().map(|rule| rule.max_instances.map(std::num::NonZero::get));
        assert_eq!(limits.collect::<Vec<_>>(), [Some(10), Some(20)]);
    }

    #[test]
    fn a_rule_may_allow_no_name_at_all() {
        parse(Some(&format!("[{}]", RULE.replace("[\"web\"]", "[]")))).expect("valid");
    }

    #[test]
    fn mistakes_name_their_path_and_the_expected_form() {
        let changed = |from: &str, to: &str| parse(Some(&format!("[{}]", RULE.replace(from, to))));
        let mistakes = [
            parse(Some("")),
            parse(Some("[]")),
            parse(Some(RULE)),
            parse(Some(&format!("[{RULE}] and more"))),
            parse(Some(&format!("[{RULE}, {}]", RULE.replace("\"clusters\": [\"*\"],", "")))),
            changed("\"names\"", "\"name\""),
            changed("[\"web\"]", "\"web\""),
            changed("web", "web-[ab]"),
            changed("10.0.0.0/16", "10.0.0.0/40"),
            changed("\"10.0.0.0/16\"", ""),
            changed("[\"shop\"]", "[]"),
            changed("10}", "0}"),
            changed("10}", "10, \"maxNames\": 0}"),
        ];
        let mistakes = mistakes.map(|result| result.expect_err("a mistake"));
        insta::assert_snapshot!(mistakes.join("\n"), @r#"
        it is not a JSON list of rules: EOF while parsing a value at line 1 column 0
        it contains no rule and allows nothing; if unset, everything is allowed
        it is not a JSON list of rules: invalid type: map, expected a sequence at line 1 column 0
        it is not a JSON list of rules: trailing characters at line 3 column 30
        [1]: missing field `clusters` at line 5 column 27
        [0].name: unknown field `name`, expected one of `clusters`, `kubernetesNamespaces`, `cloudMapNamespaces`, `names`, `cidrs`, `maxInstances`, `maxNames` at line 2 column 47
        [0].names: invalid type: string "web", expected a sequence at line 2 column 55
        [0].names[0]: "web-[ab]" has a "[", and only * and ? are special; list alternatives as separate strings at line 2 column 62
        [0].cidrs[0]: "10.0.0.0/40" is not a range of addresses, for instance "10.0.0.0/16" or "fd00::/8" at line 2 column 83
        [0].cidrs: it is empty; without it all are allowed
        [0].kubernetesNamespaces: it is empty; "*" matches everything, and "names": [] allows nothing
        [0].maxInstances: invalid value: integer `0`, expected a nonzero usize at line 3 column 25
        [0].maxNames: invalid value: integer `0`, expected a nonzero usize at line 3 column 41
        "#);
    }
}
