//! The permissions and limits of the installation, from the function's settings. They are the same for all clusters of
//! an invocation. A policy removes changes from a finished plan and reports them as held back; it never adds any.

use std::fmt;

use super::capacity::ServiceLimit;
use super::change::Change;
use super::name_policy::NamePolicy;
use super::reason::{HeldBack, Reason};
use super::result::Plan;
use crate::guard::Guard;
use crate::model::{NamespaceReference, Policy, SignedDuration};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The kinds of changes that are made.
    pub policy: Policy,
    /// The limits of a loss of instances at once.
    pub guard: Guard,
    /// Whether a missing HTTP namespace is created.
    pub create_namespaces: bool,
    /// Whether unused services of ours are deleted.
    pub delete_empty_services: bool,
    /// The Cloud Map namespaces that are read; empty means all.
    pub namespaces: Vec<NamespaceReference>,
    /// The names that each Service may claim; `None` allows all.
    pub name_policy: Option<NamePolicy>,
    /// The most instances of one Cloud Map service.
    pub service_limit: ServiceLimit,
    /// Whether the function's role lacks the right to write the DNS records of Cloud Map services.
    pub lacks_dns_rights: bool,
    /// The time after which the instances of a deleted cluster are deregistered; `None` means never.
    pub purge_dead_clusters_after: Option<SignedDuration>,
}

impl Rules {
    /// Whether empty services of ours are deleted.
    pub fn deletes_services(&self) -> bool {
        self.delete_empty_services && self.policy == Policy::Sync
    }

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
            (false, _) => Some("CREATE_NAMESPACES is not true; create it as an HTTP namespace"),
            (true, true) => None,
        }
    }
}

impl Policy {
    pub fn allows(self, change: &Change) -> bool {
        match change {
            Change::CreateNamespace { .. }
            | Change::CreateService { .. }
            | Change::Register { .. } => true,
            Change::Rewrite { exchange: Some(exchange), .. } => match self {
                Self::Sync => true,
                Self::UpsertOnly => exchange.because.leaves_the_claim(),
                Self::CreateOnly => false,
            },
            Change::Rewrite { .. }
            | Change::UpdateService { .. }
            | Change::NoteOnService { .. }
            | Change::Health { .. } => self != Self::CreateOnly,
            Change::Deregister { because, .. } => match self {
                Self::Sync => true,
                Self::UpsertOnly => because.leaves_the_claim(),
                Self::CreateOnly => false,
            },
        }
    }

    /// Removes the changes that the policy does not allow from the plan, and holds them back.
    pub fn restrict(self, plan: &mut Plan) {
        for (service, changes) in &mut plan.changes {
            let refused = changes.extract_if(.., |change| !self.allows(change));
            plan.held_back.extend(refused.map(|change| HeldBack {
                service: service.clone(),
                place: Some(change.place().clone()),
                reason: Reason::Policy { policy: self, action: change.to_string() },
            }));
        }
    }
}

/// The most instances to keep or register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Maximum {
    pub count: usize,
    /// The source of the number.
    pub set_by: SetBy,
}

/// The source of a maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SetBy {
    /// An annotation of the Service.
    Annotation,
    /// A rule of the installation's `NAME_POLICY`.
    NamePolicy,
}

/// The smaller of the annotated number and the allowed number.
pub fn smallest(annotated: Option<usize>, allowed: Option<usize>) -> Option<Maximum> {
    let annotated = annotated.map(|count| Maximum { count, set_by: SetBy::Annotation });
    let allowed = allowed.map(|count| Maximum { count, set_by: SetBy::NamePolicy });
    annotated.into_iter().chain(allowed).min()
}

impl fmt::Display for SetBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Annotation => "max-instances of the Service",
            Self::NamePolicy => "maxInstances of NAME_POLICY",
        })
    }
}

#[cfg(test)]
mod tests {
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
        let refused = Some("CREATE_NAMESPACES is not true; create it as an HTTP namespace");
        assert_eq!((obstacle(false, &[]), obstacle(false, &["clusterset"])), (refused, refused));
    }
}
