//! A Cloud Map namespace, and the errors of a reference to one. [`super::Registry::resolve`] finds the namespace of a
//! reference.

use super::FirstNames;

/// A Cloud Map namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// `ns-…`
    pub id: String,
    /// `None` if the namespace is to be created; its name is then used as its id.
    pub arn: Option<String>,
    /// Not unique: private DNS namespaces of several VPCs may have the same name, and one that another account shares.
    pub name: String,
    pub kind: NamespaceKind,
    /// The name for discovery calls, if Cloud Map returned it. Unlike `name` it is unique.
    pub http_name: Option<String>,
    /// The account of the namespace, which may share it with this one.
    pub owner: Option<String>,
}

impl Namespace {
    /// Whether another account than this one shares it.
    pub fn is_of_other(&self, account: Option<&str>) -> bool {
        let owner = self.owner.as_deref();
        account.is_some() && owner.is_some() && account != owner
    }

    /// An HTTP namespace that is to be created.
    pub fn missing(name: &str) -> Self {
        let (id, kind) = (name.to_owned(), NamespaceKind::Http);
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
        /// The reason why it is not created, if missing namespaces are created.
        not_created: Option<&'static str>,
    },

    #[error(
        "several Cloud Map namespaces are named {reference:?}; name one by its id: {candidates}{}",
        if *is_left { "; without that the next full sync decides" } else { "" }
    )]
    Ambiguous {
        reference: String,
        /// Ids.
        candidates: FirstNames,
        /// Whether this run leaves the choice to a full sync.
        is_left: bool,
    },
}
