//! `NAME_POLICY`: the names in Cloud Map that each Service may claim, with which addresses and how many instances.
//! Rules only allow. The first rule for a cluster and Kubernetes namespace decides alone, and a Service without a rule
//! may claim nothing. A claim that is not allowed holds no name, causes no conflict, and counts as ended.
//!
//! A [`Glob`] matches whole texts: `*` matches any number of characters, including dots and slashes, and `?` matches one.
//! No other character is special. Special characters of other tools are rejected, since a rule with them would never
//! match.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroUsize;

use ipnet::IpNet;
use serde::Deserialize;

use super::instance::Identity;
use super::observation::Observation;
use crate::model::{ClusterArn, FirstNames, Namespace, NamespaceKind, ServiceKey, ServiceRef};

/// The rules in their order, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePolicy(pub Vec<Rule>);

/// The reason why a Service may not claim a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Denial {
    /// No rule applies to its Kubernetes namespace, so it may claim nothing.
    #[error(
        "no rule of NAME_POLICY applies to Kubernetes namespace {namespace} of cluster {cluster}"
    )]
    NoRule {
        /// The Kubernetes namespace.
        namespace: String,
        /// The cluster's name.
        cluster: String,
    },
    /// The rule that applies allows other names.
    #[error(
        "NAME_POLICY lets Services of Kubernetes namespace {namespace} claim {names} in the Cloud Map namespaces {places}"
    )]
    OtherNames {
        /// The Kubernetes namespace.
        namespace: String,
        /// The allowed names.
        names: String,
        /// The Cloud Map namespaces in which they are allowed.
        places: String,
    },
}

/// The limits for a Service under a name that it may claim.
#[derive(Clone, Copy, Debug, Default)]
pub struct Permit<'a> {
    rule: Option<&'a Rule>,
}

impl Permit<'_> {
    /// Whether an address may be published.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.rule.is_none_or(|rule| rule.allows_address(address))
    }

    /// Whether all addresses of an instance may be published.
    pub fn allows_all(&self, identity: &Identity) -> bool {
        identity.addresses().all(|address| self.allows(address))
    }

    /// The allowed ranges of addresses, for a sentence.
    pub fn ranges(&self) -> String {
        self.rule.and_then(|rule| rule.cidrs.as_ref()).map_or_else(String::new, |it| list(it))
    }

    /// The largest number of instances under the name.
    pub fn maximum(&self) -> Option<usize> {
        Some(self.rule?.max_instances?.get())
    }
}

impl NamePolicy {
    /// Whether every Service may claim every name: no rule up to the first one for all Services limits the names.
    pub fn allows_every_name(&self) -> bool {
        let last = self.0.iter().position(Rule::is_for_all);
        last.is_some_and(|last| self.0[..=last].iter().all(Rule::allows_every_name))
    }

    /// The first rule for the Services of a Kubernetes namespace.
    pub fn rule(&self, cluster: &ClusterArn, namespace: &str) -> Option<&Rule> {
        self.0.iter().find(|rule| rule.is_for(cluster, namespace))
    }
}

impl Observation {
    /// The limits for a Service under a name.
    ///
    /// # Errors
    /// Returns the reason if the Service may not claim the name.
    pub fn permit(&self, service: &ServiceRef, key: &ServiceKey) -> Result<Permit<'_>, Denial> {
        let rule = self.rule(service)?;
        let namespace = self.registry.namespaces.get(&key.namespace);
        let allows = |rule: &Rule| namespace.is_some_and(|it| rule.allows(it, &key.name));
        match rule {
            Some(rule) if !allows(rule) => Err(rule.denial(&service.namespace)),
            rule => Ok(Permit { rule }),
        }
    }

    /// The largest number of names that a Service may claim, if a rule limits it.
    pub fn max_names(&self, service: &ServiceRef) -> Option<usize> {
        Some(self.rule(service).ok()??.max_names?.get())
    }

    /// The rule that decides for a Service; `None` if everything is allowed.
    ///
    /// # Errors
    /// Returns the reason if there are rules and none applies to the Service.
    pub fn rule(&self, service: &ServiceRef) -> Result<Option<&Rule>, Denial> {
        let Some(policy) = &self.rules.name_policy else { return Ok(None) };
        let (cluster, namespace) = (&self.owner.cluster, &service.namespace);
        let first = policy.rule(cluster, namespace);
        let denial =
            || Denial::NoRule { namespace: namespace.clone(), cluster: cluster.name().to_owned() };
        first.map(Some).ok_or_else(denial)
    }
}

/// The names that the Services of some Kubernetes namespaces may claim. A list of patterns matches if one of them
/// matches.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// Names or ARNs of clusters.
    pub clusters: Vec<Glob>,
    /// Names of Kubernetes namespaces.
    pub kubernetes_namespaces: Vec<Glob>,
    /// Names, ids or ARNs of Cloud Map namespaces.
    pub cloud_map_namespaces: Vec<Glob>,
    /// Names of Cloud Map services.
    pub names: Vec<Glob>,
    /// The allowed ranges of addresses; `None` allows all.
    pub cidrs: Option<Vec<Range>>,
    /// The most instances of one Service under one name.
    pub max_instances: Option<NonZeroUsize>,
    /// The most names of one Service.
    pub max_names: Option<NonZeroUsize>,
}

impl Rule {
    /// Whether the rule applies to the Services of a Kubernetes namespace.
    pub fn is_for(&self, cluster: &ClusterArn, namespace: &str) -> bool {
        any(&self.clusters, &[cluster.name(), cluster.as_str()])
            && any(&self.kubernetes_namespaces, &[namespace])
    }

    pub fn is_for_all(&self) -> bool {
        has_star(&self.clusters) && has_star(&self.kubernetes_namespaces)
    }

    pub fn allows_every_name(&self) -> bool {
        has_star(&self.cloud_map_namespaces) && has_star(&self.names)
    }

    /// Whether the rule allows the name of a service key. Such names are in lower case in DNS namespaces.
    pub fn allows(&self, namespace: &Namespace, name: &str) -> bool {
        let named = match namespace.kind {
            NamespaceKind::Http => any(&self.names, &[name]),
            NamespaceKind::Dns => self.names.iter().any(|glob| glob.in_lower_case().matches(name)),
        };
        let arn = namespace.arn.as_deref().unwrap_or_default();
        named && any(&self.cloud_map_namespaces, &[&namespace.name, &namespace.id, arn])
    }

    /// Whether an address may be published.
    pub fn allows_address(&self, address: IpAddr) -> bool {
        let ranges = self.cidrs.as_ref();
        ranges.is_none_or(|ranges| ranges.iter().any(|range| range.contains(address)))
    }

    /// The reason if a claim is not allowed by this rule.
    pub fn denial(&self, namespace: &str) -> Denial {
        Denial::OtherNames {
            namespace: namespace.to_owned(),
            names: list(&self.names),
            places: list(&self.cloud_map_namespaces),
        }
    }
}

fn has_star(globs: &[Glob]) -> bool {
    globs.iter().any(|glob| glob.to_string() == "*")
}

fn any(globs: &[Glob], texts: &[&str]) -> bool {
    globs.iter().any(|glob| texts.iter().any(|text| glob.matches(text)))
}

/// The first items, for a sentence.
pub fn list(items: &[impl fmt::Display]) -> String {
    FirstNames::of(items).map_or_else(|| "nothing".to_owned(), |items| items.to_string())
}

/// A range of IP addresses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Range(IpNet);

impl Range {
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl TryFrom<String> for Range {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let problem = "is not a range of addresses, for instance \"10.0.0.0/16\" or \"fd00::/8\"";
        text.parse().map(Self).map_err(|_| format!("{text:?} {problem}"))
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A pattern for a name, an id or an ARN.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Glob(String);

impl TryFrom<String> for Glob {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let printable = text.bytes().all(|byte| (b'!'..=b'~').contains(&byte));
        if text.is_empty() || !printable {
            return Err(format!(
                "{text:?} must be printable ASCII without spaces, for instance \"web-*\""
            ));
        }
        match text.find(['[', ']', '{', '}', '|', ',', '!', '\\']) {
            Some(at) => Err(format!(
                "{text:?} has a {:?}, and only * and ? are special; list alternatives as separate strings",
                &text[at..=at]
            )),
            None => Ok(Self(text)),
        }
    }
}

impl Glob {
    pub fn matches(&self, text: &str) -> bool {
        let (pattern, text) = (self.0.as_bytes(), text.as_bytes());
        let (mut at, mut read) = (0, 0);
        // The last `*`, and the end of the text that it matches.
        let mut star = None;
        while read < text.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at, read));
                    at += 1;
                }
                Some(byte) if *byte == b'?' || *byte == text[read] => {
                    (at, read) = (at + 1, read + 1);
                }
                _ => {
                    let Some((asterisk, end)) = star else { return false };
                    star = Some((asterisk, end + 1));
                    (at, read) = (asterisk + 1, end + 1);
                }
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }

    /// The same pattern for names in lower case.
    #[must_use]
    pub fn in_lower_case(&self) -> Self {
        Self(self.0.to_ascii_lowercase())
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn glob(pattern: &str) -> Glob {
        Glob::try_from(pattern.to_owned()).expect("a pattern")
    }

    #[test]
    fn whole_texts_match_and_parts_do_not() {
        let cases = [
            ("web", "web", true),
            ("web", "web-1", false),
            ("web", "my-web", false),
            ("web-*", "web-", true),
            ("web-*", "web-1.blue", true),
            ("*-web", "my-web", true),
            ("*-web", "my-web-1", false),
            ("w?b", "wob", true),
            ("w?b", "wb", false),
            ("*a*b", "xaxbxab", true),
            ("*a*b", "xaxbxa", false),
            ("*", "", true),
            ("?", "", false),
            (
                "arn:*:namespace/ns-1",
                "arn:aws:servicediscovery:eu-central-1:1:namespace/ns-1",
                true,
            ),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(glob(pattern).matches(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn what_other_tools_take_for_special_is_a_mistake() {
        for pattern in ["", "a b", "web-[ab]", "{a,b}", "a|b", "!web", "\u{e9}", "a\\*"] {
            Glob::try_from(pattern.to_owned()).expect_err(pattern);
        }
    }

    /// The specification of a match, as a simple recursion.
    fn means(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => {
                means(rest, text) || (!text.is_empty() && means(pattern, &text[1..]))
            }
            ([b'?', rest @ ..], [_, more @ ..]) => means(rest, more),
            ([byte, rest @ ..], [other, more @ ..]) => byte == other && means(rest, more),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn the_match_is_what_the_pattern_means(pattern in "[ab*?]{1,8}", text in "[ab]{0,8}") {
            let expected = means(pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(glob(&pattern).matches(&text), expected);
        }
    }
}
