//! A Cloud Map namespace, and why a reference may lead to none.

/// A Cloud Map namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// `ns-…`
    pub id: String,
    /// Its ARN; none where it is yet to be created, and then its name stands for its id.
    pub arn: Option<String>,
    /// Its name; private DNS namespaces of several VPCs may share one.
    pub name: String,
    /// How its services can be discovered.
    pub kind: NamespaceKind,
    /// What discovery calls it, where that was told: unlike the name it is unique.
    pub http_name: Option<String>,
    /// The account that it belongs to, which may share it with this one.
    pub owner: Option<String>,
}

impl Namespace {
    /// An HTTP namespace that is yet to be created.
    pub fn missing(name: &str) -> Self {
        let (id, kind) = (name.to_owned(), NamespaceKind::Http);
        Self { name: id.clone(), id, arn: None, kind, http_name: None, owner: None }
    }
}

/// How the services of a namespace can be discovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamespaceKind {
    /// By the `DiscoverInstances` call only.
    Http,
    /// By that call and by DNS queries (a private or public hosted zone).
    Dns,
}

/// Why a reference leads to no single namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum UnresolvedNamespace {
    /// None has that name, id or ARN.
    #[error(
        "no Cloud Map namespace {reference:?} is visible here; visible: {}{}", one_of(visible),
        not_created.map(|why| format!("; it is not created: {why}")).unwrap_or_default()
    )]
    Missing {
        /// As annotated.
        reference: String,
        /// The names of those that are there.
        visible: Vec<String>,
        /// Why it is not created, where missing ones are.
        not_created: Option<&'static str>,
    },
    /// Several have that name.
    #[error(
        "several Cloud Map namespaces are named {reference:?}; name one by its id: {}",
        one_of(candidates)
    )]
    Ambiguous {
        /// As annotated.
        reference: String,
        /// Their ids.
        candidates: Vec<String>,
    },
}

/// A list for a sentence, cut where it would fill the screen.
fn one_of(names: &[String]) -> String {
    match names.len() {
        0 => "none".to_owned(),
        1..=10 => names.join(", "),
        more => format!("{} and {} more", names[..10].join(", "), more - 10),
    }
}
