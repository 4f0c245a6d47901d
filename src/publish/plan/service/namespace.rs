//! A missing namespace is created together with its first service, if the installation allows it. It is an HTTP
//! namespace, since that needs no VPC and no domain.

use std::collections::BTreeMap;

use crate::model::{Namespace, NamespaceReference, UnresolvedNamespace};
use crate::publish::plan::{Change, Extent, Observation, Plan, Rules};

impl Observation {
    /// Adds the missing namespaces that are claimed and may be created. From here on they are treated as existing
    /// namespaces, except that they have no ARN.
    pub fn expect_namespaces(&mut self) {
        for reference in self.desired.all_claims().map(|claims| &claims.namespace) {
            let missing = self.registry.resolve(reference);
            let missing = matches!(missing, Err(UnresolvedNamespace::Missing { .. }));
            if missing && not_created(reference, &self.rules).is_none() {
                let namespace = Namespace::missing(&reference.to_string());
                self.registry.namespaces.insert(namespace.id.clone(), namespace);
            }
        }
    }

    /// A problem with a namespace, with the reason why a missing one is not created, or if the choice is left to a full sync.
    pub(in crate::publish::plan) fn explained(
        &self,
        problem: UnresolvedNamespace,
        reference: &NamespaceReference,
    ) -> UnresolvedNamespace {
        match problem {
            UnresolvedNamespace::Missing { reference: text, visible, .. }
                if self.rules.create_namespaces =>
            {
                let not_created = not_created(reference, &self.rules);
                UnresolvedNamespace::Missing { reference: text, visible, not_created }
            }
            UnresolvedNamespace::Ambiguous { reference, candidates, .. } => {
                let is_left = self.extent == Extent::Part;
                UnresolvedNamespace::Ambiguous { reference, candidates, is_left }
            }
            other @ UnresolvedNamespace::Missing { .. } => other,
        }
    }
}

/// The reason why a missing namespace is not created; `None` if it is created.
fn not_created(reference: &NamespaceReference, rules: &Rules) -> Option<&'static str> {
    let NamespaceReference::NameOrId(name) = reference else {
        return Some("an ARN refers to an existing namespace");
    };
    let looked_at = rules.namespaces.is_empty() || rules.namespaces.contains(reference);
    match (rules.create_namespaces, looked_at) {
        (false, _) => Some("CREATE_NAMESPACES is not true"),
        (_, false) => Some("CLOUD_MAP_NAMESPACES does not contain it"),
        _ if name.starts_with("ns-") => Some("it may be the id of a namespace"),
        _ if name.contains('.') => {
            Some("it may be a DNS name, and HTTP namespaces do not answer DNS queries")
        }
        _ => None,
    }
}

impl Plan {
    /// Adds the creation of every missing namespace to the changes of the first Service that needs it.
    pub(in crate::publish::plan) fn add_namespaces(&mut self) {
        let mut added = BTreeMap::new();
        for (service, changes) in &self.changes {
            let missing =
                changes.iter().filter_map(|change| Some((change, change.missing_namespace()?)));
            for (change, name) in missing {
                added.entry(name.to_owned()).or_insert((service.clone(), change.place().clone()));
            }
        }
        for (name, (service, place)) in added {
            self.changes.entry(service).or_default().push(Change::CreateNamespace { place, name });
        }
    }
}
