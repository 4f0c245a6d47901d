//! Watches over names: the addresses of a watched one stay under it, and one that is to be served is never empty. It is
//! looked at after every call and every operation.

use std::collections::{BTreeMap, BTreeSet};

use super::CloudMap;
use super::state::State;

/// Namespace and service.
type Name = (String, String);

/// The watched names with the addresses that each keeps; one without any keeps any instance at all.
#[derive(Default)]
pub(super) struct Kept(BTreeMap<Name, BTreeSet<String>>);

impl CloudMap {
    /// From now on it is a violation if one of these addresses is not under the name, or nothing is.
    pub fn keep(&self, namespace: &str, service: &str, addresses: BTreeSet<String>) {
        let name = (namespace.to_owned(), service.to_owned());
        self.change(|state| state.kept.0.insert(name, addresses));
    }
}

impl State {
    /// Notes each watched name that lost an address or everything; `cause` is what just happened.
    pub(super) fn check_kept(&mut self, cause: &str) {
        let lost: Vec<String> = self
            .kept
            .0
            .iter()
            .filter_map(|(name, addresses)| {
                let present = self.addresses(name);
                let (namespace, service) = name;
                let gone: Vec<_> = addresses.difference(&present).collect();
                let is_kept = gone.is_empty() && !present.is_empty();
                (!is_kept).then(|| format!("{cause}: {namespace}/{service} lost {gone:?}"))
            })
            .collect();
        self.guard.violations.extend(lost);
    }

    fn addresses(&self, (namespace, service): &Name) -> BTreeSet<String> {
        let named = self.services.values().filter(|it| {
            let of = self.namespaces.get(&it.namespace);
            it.name == *service && of.is_some_and(|of| of.name == *namespace)
        });
        let instances = named.flat_map(|it| it.present().map(|(_, instance)| instance));
        instances.filter_map(|it| it.attributes.get("AWS_INSTANCE_IPV4").cloned()).collect()
    }
}
