//! Names of Kubernetes Services and of Cloud Map services, references to Cloud Map namespaces with what they resolve
//! to, and the selection of Services. The names and references of Cloud Map are parsed when they are read, so a value
//! of these types is well formed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{FirstNames, display};

/// A Kubernetes Service, by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServiceRef {
    pub namespace: String,
    pub name: String,
}

impl ServiceRef {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Whether Kubernetes accepts these names. Every client of Cloud Map can write marks, so marks may name a Service
    /// that cannot exist.
    pub fn can_exist(&self) -> bool {
        is_dns_label(&self.namespace) && is_dns_label(&self.name)
    }
}

/// Whether a text is a label of RFC 1123, which Kubernetes requires of namespaces. Older versions also require a letter
/// at the start of a Service's name.
pub(crate) fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Whether a text is a subdomain of RFC 1123, which Kubernetes requires of most other names.
pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label)
}

/// Whether a text follows the rule of Kubernetes for a label value that is not empty, and for the name in a label key.
pub(crate) fn is_label_word(text: &str) -> bool {
    let is_end = |byte: u8| byte.is_ascii_alphanumeric();
    let is_inner = |byte: u8| is_end(byte) || b"-_.".contains(&byte);
    let bytes = text.as_bytes();
    let ends = bytes.first().zip(bytes.last());
    text.len() <= 63
        && bytes.iter().all(|byte| is_inner(*byte))
        && ends.is_some_and(|(first, last)| is_end(*first) && is_end(*last))
}

/// Whether a text follows the rule of Kubernetes for the key of a label.
pub(crate) fn is_label_key(text: &str) -> bool {
    let (prefix, name) =
        text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_dns_subdomain) && is_label_word(name)
}

display!(ServiceRef { namespace, name } => "{namespace}/{name}");

/// The name of a Cloud Map service: 1 to 127 characters, dot-separated labels of letters, digits, `_` and `-`, each 1
/// to 63 long, without `-` at either end and not `_` alone (the pattern of Cloud Map's `ServiceName`, except its
/// special name `.`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ServiceName(String);

impl ServiceName {
    /// # Errors
    /// Returns the rule of Cloud Map that the text breaks.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("it is empty".to_owned());
        }
        if text.len() > 127 {
            let length = text.chars().count();
            return Err(format!("it has {length} characters, and Cloud Map allows 127"));
        }
        match text.split('.').find(|label| !is_service_name_label(label)) {
            Some(label) => Err(format!(
                "its label {label:?} must be 1 to 63 letters, digits, '_' or '-', without '-' at the start or end, and not \
                 '_' alone"
            )),
            None => Ok(Self(text.to_owned())),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

display!(ServiceName(name) => "{name}");

/// Whether a text is a label of a service name. A label of one character is a letter or a digit: Cloud Map's pattern
/// has `_` at the ends of longer labels only.
fn is_service_name_label(label: &str) -> bool {
    label != "_"
        && (1..=63).contains(&label.len())
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// A reference to a Cloud Map namespace in an annotation or a setting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, thiserror::Error)]
#[serde(untagged)]
pub enum NamespaceReference {
    /// Required for a namespace that another account shares.
    #[error("{0}")]
    Arn(String),
    /// An id, `ns-…`, or a name. Names may look like ids, so the id is tried first.
    #[error("{0}")]
    NameOrId(String),
}

impl NamespaceReference {
    /// Returns `None` if the text cannot be the name, id or ARN of a namespace.
    pub fn parse(text: &str) -> Option<Self> {
        let printable = text.bytes().all(|byte| (b'!'..=b'~').contains(&byte));
        if text.is_empty() || text.len() > 1024 || !printable {
            return None;
        }
        if !text.starts_with("arn:") {
            return Some(Self::NameOrId(text.to_owned()));
        }
        let is_namespace = text.contains(":servicediscovery:") && text.contains(":namespace/");
        is_namespace.then(|| Self::Arn(text.to_owned()))
    }
}

/// A hostname that ends in its namespace's name, as other tools expect it. Cloud Map appends the namespace once more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error(
    "the hostname ends in the namespace's name, so DNS has it as {hostname}.{namespace}; hostname: {right} makes it {right}.{namespace}"
)]
pub struct RepeatedNamespace {
    hostname: String,
    namespace: String,
    /// The hostname without the namespace.
    right: String,
}

impl RepeatedNamespace {
    /// `None` if the hostname does not end in the name of the DNS namespace.
    pub fn of(hostname: &str, namespace: &str) -> Option<Self> {
        let ending = format!(".{namespace}").to_ascii_lowercase();
        let lower_case = hostname.to_ascii_lowercase();
        let length = lower_case.trim_end_matches(&*ending).len();
        let right = hostname.get(..length).filter(|right| *right != hostname)?.to_owned();
        Some(Self { hostname: hostname.to_owned(), namespace: namespace.to_owned(), right })
    }

    /// The sentence for a namespace that may not be a DNS namespace.
    pub fn describe_if_dns(&self) -> String {
        let Self { hostname, namespace, right } = self;
        format!(
            "the hostname ends in the namespace's name: if {namespace} is a DNS namespace, DNS has it as {hostname}.{namespace}; hostname: {right} makes it {right}.{namespace}"
        )
    }
}

/// A Cloud Map namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// `ns-…`
    pub id: String,
    /// `None` if the namespace is to be created; its name is then used as its id.
    pub arn: Option<String>,
    /// Not unique: private DNS namespaces of several VPCs may have the same name, and so may a namespace that another
    /// account shares.
    pub name: String,
    pub kind: NamespaceKind,
    /// The name for discovery calls, if Cloud Map returned it. Unlike `name` it is unique.
    pub http_name: Option<String>,
    /// The account that owns the namespace, which may share it with this one. `None` if it is unknown.
    pub owner: Option<String>,
}

impl Namespace {
    /// Whether an account other than `account` owns the namespace. False if one of the two is unknown.
    pub fn is_of_other(&self, account: Option<&str>) -> bool {
        let owner = self.owner.as_deref();
        account.is_some() && owner.is_some() && account != owner
    }

    /// An HTTP namespace that is to be created.
    pub fn missing(name: &str) -> Self {
        let id = name.to_owned();
        let kind = NamespaceKind::Http;
        Self { name: id.clone(), id, arn: None, kind, http_name: None, owner: None }
    }
}

/// The ways to discover the services of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamespaceKind {
    /// By the `DiscoverInstances` call only.
    Http,
    /// By that call and by DNS queries (a private or public hosted zone).
    Dns,
}

/// A reference does not resolve to exactly one namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum UnresolvedNamespace {
    #[error(
        "no Cloud Map namespace {reference:?} is visible here; visible: {}{}",
        visible.as_ref().map_or_else(|| "none".to_owned(), FirstNames::to_string),
        not_created.map(|why| format!("; it is not created: {why}")).unwrap_or_default()
    )]
    Missing {
        reference: String,
        /// The names of the visible namespaces.
        visible: Option<FirstNames>,
        /// The reason why the run does not create the namespace although it creates other missing namespaces.
        not_created: Option<&'static str>,
    },

    #[error(
        "several Cloud Map namespaces are named {reference:?}; name one by its id: {candidates}{}",
        if *is_left_to_full_sync { "; without that the next full sync decides" } else { "" }
    )]
    Ambiguous {
        reference: String,
        /// The ids of the matching namespaces.
        candidates: FirstNames,
        /// Whether this run leaves the choice to a full sync.
        is_left_to_full_sync: bool,
    },
}

// The Kubernetes Services of one cluster that an invocation reconciles: all of them in a full sync, or those of its
// payload in a targeted sync.

/// The Services to reconcile in one cluster. A Service is selected by name even if it does not exist: its name is in
/// the marks of its instances, so they are deregistered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All Services: a full sync.
    Everything,
    /// All of these namespaces and Services: a targeted sync.
    Only {
        /// Whole Kubernetes namespaces.
        namespaces: BTreeSet<String>,
        services: BTreeSet<ServiceRef>,
    },
}

impl Selection {
    pub fn namespace(name: impl Into<String>) -> Self {
        Self::of([name.into()].into(), BTreeSet::new())
    }

    pub fn service(service: ServiceRef) -> Self {
        Self::services([service].into())
    }

    /// Selects these single Services.
    pub fn services(services: BTreeSet<ServiceRef>) -> Self {
        Self::of(BTreeSet::new(), services)
    }

    /// Selects no Service.
    pub fn nothing() -> Self {
        Self::services(BTreeSet::new())
    }

    fn of(namespaces: BTreeSet<String>, services: BTreeSet<ServiceRef>) -> Self {
        Self::Only { namespaces, services }
    }

    /// Returns the selected Services. `None` if a whole namespace is selected, or all Services are.
    pub fn names(&self) -> Option<&BTreeSet<ServiceRef>> {
        match self {
            Self::Only { namespaces, services } if namespaces.is_empty() => Some(services),
            _ => None,
        }
    }

    /// Returns the selected namespaces and Services. `None` if there are more than `most`, or if all Services are
    /// selected.
    pub fn if_at_most(&self, most: usize) -> Option<(&BTreeSet<String>, &BTreeSet<ServiceRef>)> {
        let Self::Only { namespaces, services } = self else { return None };
        (namespaces.len() + services.len() <= most).then_some((namespaces, services))
    }

    /// Returns the selected Services that `other` lacks. `None` if it has all of them.
    pub fn without(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (_, Self::Everything) => None,
            (Self::Everything, Self::Only { .. }) => Some(Self::Everything),
            (Self::Only { namespaces, services }, Self::Only { namespaces: others, .. }) => {
                let namespaces = namespaces - others;
                let services = services.iter().filter(|service| !other.contains(service));
                let services: BTreeSet<ServiceRef> = services.cloned().collect();
                let lacks_one = !namespaces.is_empty() || !services.is_empty();
                lacks_one.then(|| Self::of(namespaces, services))
            }
        }
    }

    pub fn contains(&self, service: &ServiceRef) -> bool {
        match self {
            Self::Everything => true,
            Self::Only { namespaces, services } => {
                namespaces.contains(&service.namespace) || services.contains(service)
            }
        }
    }

    #[must_use]
    pub fn union(mut self, other: Self) -> Self {
        match (&mut self, other) {
            (
                Self::Only { namespaces, services },
                Self::Only { namespaces: more_namespaces, services: more },
            ) => {
                namespaces.extend(more_namespaces);
                services.extend(more);
                self
            }
            _ => Self::Everything,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostname_that_ends_in_its_namespace_has_a_right_form() {
        let cases = [
            ("web.shop.local", Some("web")),
            ("WEB.Shop.Local", Some("WEB")),
            ("a.web.shop.local", Some("a.web")),
            ("web.shop.local.shop.local", Some("web")),
            ("web", None),
            ("shop.local", None),
            ("webshop.local", None),
            ("web.shop.local.a", None),
        ];
        for (hostname, expected) in cases {
            let found = RepeatedNamespace::of(hostname, "shop.local").map(|found| found.right);
            assert_eq!(found.as_deref(), expected, "{hostname}");
        }
    }

    #[test]
    fn service_names_follow_cloud_maps_pattern() {
        let label63 = "a".repeat(63);
        let long = [label63.as_str(), &"b".repeat(63)].join(".");
        for good in ["web", "Web_1", "db.prod.internal", "a-b", "_x", &label63, &long] {
            assert!(ServiceName::parse(good).is_ok(), "{good}");
        }
        let label64 = "a".repeat(64);
        let longer = format!("{long}.c");
        for bad in
            ["", ".", "_", "a._", "-a", "a-", "a..b", "a b", "é", "a/b", "a,b", &label64, &longer]
        {
            assert!(ServiceName::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_of_labels_follow_the_rule_of_kubernetes() {
        let longest = "a".repeat(63);
        for good in ["team", "Team_A.1", "example.org/team", &longest] {
            assert!(is_label_key(good), "{good}");
        }
        let longer = "a".repeat(64);
        for bad in
            ["", "a b", "a,b", "-a", "a/", "/a", "a/b/c", "Example.org/a", "a_b/c", "é", &longer]
        {
            assert!(!is_label_key(bad), "{bad}");
        }
    }

    #[test]
    fn namespace_references_are_names_ids_or_arns_of_namespaces() {
        let arn = "arn:aws:servicediscovery:eu-central-1:111122223333:namespace/ns-abc";
        assert_eq!(NamespaceReference::parse(arn), Some(NamespaceReference::Arn(arn.into())));
        for good in ["prod.local", "ns-abcdefghijklmnop", "team/a"] {
            assert!(NamespaceReference::parse(good).is_some(), "{good}");
        }
        for bad in ["", "a b", "prod\u{e9}", "arn:aws:s3:::bucket"] {
            assert_eq!(NamespaceReference::parse(bad), None, "{bad}");
        }
    }
}

#[cfg(test)]
mod selection_tests {
    use super::*;

    #[test]
    fn union_contains_the_services_of_both() {
        let web = ServiceRef::new("shop", "web");
        let cart = ServiceRef::new("shop", "cart");
        let other = ServiceRef::new("other", "web");
        let both = Selection::service(web.clone()).union(Selection::namespace("other"));
        assert!(both.contains(&web) && both.contains(&other) && !both.contains(&cart));
        assert_eq!(both.union(Selection::Everything), Selection::Everything);
    }
}
