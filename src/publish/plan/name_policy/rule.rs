//! One rule of `NAME_POLICY`, with the keys of the setting: the clusters and Kubernetes namespaces to which it applies,
//! and the names, addresses and numbers that it allows.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroUsize;

use ipnet::IpNet;
use serde::Deserialize;

use super::{Denial, Glob};
use crate::model::{ClusterArn, FirstNames, Namespace, NamespaceKind};

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
