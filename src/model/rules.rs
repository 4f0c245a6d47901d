//! The rules of an installation, from the function's settings. All clusters of an invocation have the same rules,
//! except for `lacks_dns_rights`. The rules are values; `publish::plan`, `import::plan` and `guard` decide by them.
//!
//! A [`Glob`] matches whole texts: `*` matches any number of characters, including dots and slashes, and `?` matches
//! one. No other character is special. Special characters of other tools are rejected, since a rule with them would
//! never match.

use std::net::IpAddr;
use std::num::NonZeroUsize;

use serde::Deserialize;

use super::words::display;
use super::{ClusterArn, Namespace, NamespaceKind, NamespaceReference, Policy, SignedDuration};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The kinds of changes that are made.
    pub policy: Policy,
    /// The limits of a loss of instances at once.
    pub guard: Guard,
    /// Whether a missing HTTP namespace is created.
    pub create_namespaces: bool,
    /// The Cloud Map namespaces that are read; empty means all.
    pub namespaces: Vec<NamespaceReference>,
    /// The names that each Service may claim; `None` allows all.
    pub name_policy: Option<NamePolicy>,
    /// The most instances of one Cloud Map service.
    pub service_limit: ServiceLimit,
    /// Whether the function's role lacks the right to write the DNS records of Cloud Map services.
    pub lacks_dns_rights: bool,
}

const NOT_CREATED: &str = "CREATE_NAMESPACES is not true; create it as an HTTP namespace, or share it again if it is of another account";

impl Rules {
    /// Whether `NAME_POLICY` allows every Service every name.
    pub fn allow_every_name(&self) -> bool {
        self.name_policy.as_ref().is_none_or(NamePolicy::allows_every_name)
    }

    /// The reason why a namespace with the records of a clusterset is not created; `None` if it is created.
    pub fn obstacle_to_records(&self, namespace: &str) -> Option<&'static str> {
        let reference = NamespaceReference::NameOrId(namespace.to_owned());
        let is_read = self.namespaces.is_empty() || self.namespaces.contains(&reference);
        match (self.create_namespaces, is_read) {
            (_, false) => Some("CLOUD_MAP_NAMESPACES does not contain it"),
            (false, _) => Some(NOT_CREATED),
            (true, true) => None,
        }
    }
}

/// The limit of Cloud Map for instances in one service, counting all owners. AWS does not raise it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceLimit(pub usize);

impl Default for ServiceLimit {
    fn default() -> Self {
        Self(1000)
    }
}

/// `GUARD_SHARE`, `GUARD_MINIMUM`, `GUARD_WAIT` and `SCHEDULE_MINUTES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Guard {
    /// A loss of up to this percentage of a cluster's instances passes.
    pub share: u8,
    /// A loss of up to this number of instances passes.
    pub minimum: usize,
    /// A loss that is seen again after this time passes.
    pub wait: SignedDuration,
    /// The longest time between two full syncs of the schedule.
    pub period: SignedDuration,
}

impl Default for Guard {
    fn default() -> Self {
        let wait = SignedDuration::from_mins(10);
        let period = SignedDuration::from_mins(1);
        Self { share: 50, minimum: 10, wait, period }
    }
}

impl Guard {
    /// Whether a loss exceeds both limits.
    pub(crate) fn is_exceeded_by(self, lost: usize, instances: usize) -> bool {
        lost > self.minimum && lost * 100 > usize::from(self.share) * instances
    }

    /// Returns the age at which a sighting expires.
    pub(crate) fn forgotten_after(self) -> SignedDuration {
        (self.wait * FORGOTTEN_AFTER).max(self.period * FORGOTTEN_AFTER_PERIODS)
    }

    /// Returns a warning if `GUARD_WAIT` is so short for the schedule that no full sync comes within six waits.
    pub fn mismatch(self) -> Option<String> {
        let wait = self.wait;
        let period = self.period;
        let after = self.forgotten_after();
        let is_off = self.share >= 100;
        (!is_off && period > wait * FORGOTTEN_AFTER).then(|| {
            format!(
                "GUARD_WAIT ({wait:#}) and SCHEDULE_MINUTES ({}) do not go together: no full sync comes between one and \
                 six times GUARD_WAIT, so the next full sync lets the held loss pass, if it comes within {after:#}",
                period.as_mins()
            )
        })
    }
}

/// The age at which a sighting expires, in waits and in periods of the schedule: the longer of the two. With waits
/// alone, no full sync of a slow schedule would come in time, and each full sync would hold the loss anew.
const FORGOTTEN_AFTER: i32 = 6;
const FORGOTTEN_AFTER_PERIODS: i32 = 3;

/// The rules of `NAME_POLICY` in their order, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePolicy(pub Vec<Rule>);

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

    /// Whether the rule allows the name of a service key, which is in lower case in DNS namespaces.
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
}

fn has_star(globs: &[Glob]) -> bool {
    globs.iter().any(|glob| glob.to_string() == "*")
}

fn any(globs: &[Glob], texts: &[&str]) -> bool {
    globs.iter().any(|glob| texts.iter().any(|text| glob.matches(text)))
}

/// A range of IP addresses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Range(ipnet::IpNet);

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

display!(Range(range) => "{range}");

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
        let pattern = self.0.as_bytes();
        let text = text.as_bytes();
        let mut at = 0;
        let mut read = 0;
        // The index of the last `*`, and the end of the text that it matches.
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

display!(Glob(pattern) => "{pattern}");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn namespace_of_records_is_created_if_both_settings_allow_it() {
        let obstacle = |create_namespaces, namespaces: &[&str]| {
            let named = |it: &&str| NamespaceReference::NameOrId((*it).to_owned());
            let namespaces = namespaces.iter().map(named).collect();
            let rules = Rules { create_namespaces, namespaces, ..Rules::default() };
            rules.obstacle_to_records("clusterset")
        };
        assert_eq!(obstacle(true, &[]), None);
        assert_eq!(obstacle(true, &["prod", "clusterset"]), None);
        let unread = Some("CLOUD_MAP_NAMESPACES does not contain it");
        assert_eq!((obstacle(true, &["prod"]), obstacle(false, &["prod"])), (unread, unread));
        let not_created = Some(NOT_CREATED);
        assert_eq!(
            (obstacle(false, &[]), obstacle(false, &["clusterset"])),
            (not_created, not_created)
        );
    }

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
