//! Parses environment variables one by one into typed values, and collects the mistakes. The error of each function is the
//! text of the mistake.

#![allow(clippy::missing_errors_doc, reason = "the same for each, see above")]

use std::fmt;

use super::documented::RETIRED;
use super::parameter_store::Text;
use crate::error::{printable, shorten_to};

use crate::cloud_map::{CustomTags, OWNER_TAG, QuotaShare};
use crate::model::{Documented, NamePolicy, NamespaceReference, Rule, SignedDuration};

/// `ANNOTATION_PREFIX`, unless it is set.
pub const ANNOTATION_PREFIX: &str = "cloudmap.controller/";
/// Cloud Map allows 50 tags, of which one is ours.
const MOST_TAGS: usize = 49;

/// Namespaces separated by commas.
pub fn namespaces(text: &str) -> Result<Vec<NamespaceReference>, String> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items
        .map(|item| {
            let problem =
                || format!("{item:?} is not the name, id or ARN of a Cloud Map namespace");
            NamespaceReference::parse(item).ok_or_else(problem)
        })
        .collect()
}

/// The id becomes the value of an attribute and of a tag, so it is at most 256 printable ASCII characters.
pub fn owner_id(text: &str) -> Result<String, String> {
    let printable = text.bytes().all(|byte| (b'!'..=b'~').contains(&byte));
    if printable && text.len() <= 256 {
        Ok(text.to_owned())
    } else {
        Err("it must be 1 to 256 printable ASCII characters without spaces".to_owned())
    }
}

/// Kubernetes requires a DNS subdomain and `/` as the prefix of a key.
pub fn annotation_prefix(text: &str) -> Result<String, String> {
    let domain = text.strip_suffix('/').unwrap_or(text);
    let label = |label: &str| {
        let inner = label.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        !label.is_empty() && inner && !label.starts_with('-') && !label.ends_with('-')
    };
    if domain.len() <= 253 && domain.split('.').all(label) {
        Ok(format!("{domain}/"))
    } else {
        Err(format!("{text:?} is not a lower-case DNS name with a '/' at its end"))
    }
}

/// The name of an alias in Lambda, which is no number of a version.
pub fn alias(text: &str) -> Result<Option<String>, String> {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_version = text.bytes().all(|byte| byte.is_ascii_digit());
    if (1..=128).contains(&text.len()) && text.bytes().all(is_inner) && !is_version {
        Ok(Some(text.to_owned()))
    } else {
        let form = "1 to 128 letters, digits, '-' and '_', and no number";
        Err(format!("{text:?} is not the name of an alias ({form})"))
    }
}

/// A word of a closed set.
pub fn word<T>(text: &str, parse: fn(&str) -> Option<T>, problem: &str) -> Result<T, String> {
    parse(text).ok_or_else(|| format!("{text:?} is {problem}"))
}

/// Tags as `KEY=VALUE`, separated by commas, which neither may contain.
pub fn tags(text: &str) -> Result<CustomTags, String> {
    let mut tags = CustomTags::new();
    for item in text.split(',').map(str::trim).filter(|it| !it.is_empty()) {
        let (key, value) = item.split_once('=').unwrap_or((item, "\0"));
        let (key, value) = (key.trim(), value.trim());
        let is_tag =
            |text: &str| text.chars().all(|c| c.is_alphanumeric() || " _.:/=+-@".contains(c));
        let fits = (1..=128).contains(&key.chars().count()) && value.chars().count() <= 256;
        if !fits || !is_tag(key) || !is_tag(value) {
            return Err(format!(
                "{item:?} is not a tag KEY=VALUE of letters, digits, spaces and _.:/=+-@, with at most 128 and 256 characters"
            ));
        }
        if key == OWNER_TAG || key.to_ascii_lowercase().starts_with("aws:") {
            return Err(format!("{key:?} is a key that the function or AWS sets: use another one"));
        }
        if tags.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(format!("{key:?} has two values: give one"));
        }
    }
    let count = tags.len();
    if count > MOST_TAGS {
        return Err(format!("it has {count} tags, and Cloud Map takes {MOST_TAGS} beside ours"));
    }
    Ok(tags)
}

/// A whole percentage, with or without `%`.
pub fn per_cent(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end().parse();
    let share = number.ok().filter(|share| *share <= 100);
    share.ok_or_else(|| format!("{text:?} is not a whole number from 0 to 100"))
}

pub fn count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text:?} is not a whole number"))
}

/// A duration with its unit, such as `90s`, `10m`, `1h 30m` or `7d`, up to a year.
pub fn duration(text: &str) -> Result<SignedDuration, String> {
    parse_duration(text).ok_or_else(|| format!("{text:?} is not a duration such as 90s, 10m or 1h"))
}

/// Whole minutes, up to a day.
pub fn minutes(text: &str) -> Result<SignedDuration, String> {
    let minutes = text.parse().ok().filter(|minutes| (1..=1440).contains(minutes));
    let problem = || format!("{text:?} is not a whole number from 1 to 1440");
    minutes.map(SignedDuration::from_mins).ok_or_else(problem)
}

/// A duration, or `off`.
pub fn duration_or_off(text: &str) -> Result<Option<SignedDuration>, String> {
    if text == "off" {
        return Ok(None);
    }
    let problem = || format!("{text:?} is neither off nor a duration such as 12h or 7d");
    parse_duration(text).map(Some).ok_or_else(problem)
}

/// A day has 24 hours.
fn parse_duration(text: &str) -> Option<SignedDuration> {
    const YEAR: SignedDuration = SignedDuration::from_hours(24 * 365);
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u16>().ok());
    let days = days.map(|days| SignedDuration::from_hours(24 * i64::from(days)));
    let time = days.or_else(|| text.parse().ok());
    time.filter(|time| (SignedDuration::from_secs(1)..=YEAR).contains(time))
}

pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "false" => Ok(false),
        "true" => Ok(true),
        other => Err(format!("{other:?} is neither true nor false")),
    }
}

/// A number of at least 0.001; 1 is the whole limit.
pub fn quota_share(text: &str) -> Result<QuotaShare, String> {
    let share = text.parse().ok().and_then(QuotaShare::new);
    share.ok_or_else(|| format!("{text:?} is not a number of at least 0.001"))
}

/// The URL of a queue: host, account and name.
pub fn queue_url(text: &str) -> Result<Option<String>, String> {
    let rest = text.split_once("://").filter(|(scheme, _)| ["http", "https"].contains(scheme));
    let parts = rest.map(|(_, rest)| rest.split('/').filter(|part| !part.is_empty()).count());
    let is_url = parts == Some(3) && !text.contains(char::is_whitespace);
    is_url
        .then(|| Some(text.to_owned()))
        .ok_or_else(|| format!("{text:?} is not the URL of a queue"))
}

/// `NAME_POLICY`: each text is a JSON list of rules, and the lists are joined. A mistake has its path in the text. Without
/// the setting everything is allowed.
pub(super) fn name_policy(texts: &[Text<'_>]) -> Result<Option<NamePolicy>, String> {
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

/// The most characters of one problem: some repeat the value.
const LONGEST_PROBLEM: usize = 1_000;

/// An invalid environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    pub variable: &'static str,
    pub problem: String,
    /// A valid value.
    pub example: &'static str,
}

/// Every mistake in the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mistakes(pub Vec<Mistake>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        write!(f, "{count} mistake{} in the settings", if count == 1 { "" } else { "s" })?;
        for Mistake { variable, problem, example } in &self.0 {
            write!(f, "; {variable}: {problem} (example: {variable}={example})")?;
        }
        Ok(())
    }
}

pub struct Reader<F> {
    variable: F,
    documented: &'static [Documented],
    mistakes: Vec<Mistake>,
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// `variable` returns an environment variable; `documented` has the examples for mistakes.
    pub fn new(variable: F, documented: &'static [Documented]) -> Self {
        Self { variable, documented, mistakes: Vec::new() }
    }

    /// The value of a variable, or the default of its type if it is not set.
    pub fn read<T: Default>(
        &mut self,
        variable: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> T {
        self.read_or(variable, T::default(), parse)
    }

    /// The value of a variable, or this default if it is not set.
    pub fn read_or<T: Default>(
        &mut self,
        variable: &'static str,
        default: T,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> T {
        self.read_optional(variable, |text| text.map_or(Ok(default), parse))
    }

    /// `None` means that the variable is not set. So does white space only: templates pass empty parameters on.
    pub fn read_optional<T: Default>(
        &mut self,
        variable: &'static str,
        parse: impl FnOnce(Option<&str>) -> Result<T, String>,
    ) -> T {
        let text = (self.variable)(variable);
        let text = text.as_deref().map(str::trim).filter(|text| !text.is_empty());
        parse(text).unwrap_or_else(|problem| {
            let documented = self.documented.iter().find(|setting| setting.name == variable);
            let example = documented.map_or("", |setting| setting.example);
            let problem = shorten_to(&printable(&problem), LONGEST_PROBLEM);
            self.mistakes.push(Mistake { variable, problem, example });
            T::default()
        })
    }

    /// A warning for each setting of an earlier release that is still set.
    pub fn find_retired(&self) -> Vec<String> {
        let is_set = |name: &str| (self.variable)(name).is_some_and(|text| !text.trim().is_empty());
        let set = RETIRED.iter().filter(|(name, _)| is_set(name));
        set.map(|(name, why)| format!("{name} is ignored, since {why}: remove it")).collect()
    }

    /// Returns the settings.
    ///
    /// # Errors
    ///
    /// Returns all mistakes if there is one.
    pub fn finish<T>(self, settings: T) -> Result<T, Mistakes> {
        if self.mistakes.is_empty() { Ok(settings) } else { Err(Mistakes(self.mistakes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = r#"{"clusters": ["*"], "kubernetesNamespaces": ["shop"],
        "cloudMapNamespaces": ["prod*"], "names": ["web"], "cidrs": ["10.0.0.0/16"],
        "maxInstances": 10}"#;

    fn parse(text: Option<&str>) -> Result<Option<NamePolicy>, String> {
        super::name_policy(text.map(|text| Text { parameter: None, text }).as_slice())
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
