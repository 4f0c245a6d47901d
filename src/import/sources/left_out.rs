//! The addresses that are not imported into a cluster, since `NAME_POLICY` does not allow them there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::member::OfMember;
use crate::import::plan::{ImportedEndpoint, Reason};
use crate::model::clusterset::ClusterId;

/// What is left out of one import.
pub(super) struct LeftOut<F> {
    allows: F,
    /// The addresses that are not allowed.
    denied: BTreeMap<ClusterId, BTreeSet<IpAddr>>,
}

impl<F: Fn(IpAddr) -> bool> LeftOut<F> {
    pub fn new(allows: F) -> Self {
        Self { allows, denied: BTreeMap::new() }
    }

    /// The endpoints of a member that are allowed.
    pub fn filter(&mut self, cluster: &ClusterId, member: &OfMember) -> Arc<Vec<ImportedEndpoint>> {
        let denied = member.addresses.iter().filter(|address| !(self.allows)(**address));
        let denied: BTreeSet<IpAddr> = denied.copied().collect();
        if denied.is_empty() {
            return Arc::clone(&member.endpoints);
        }
        let all = member.endpoints.iter();
        let allowed = all.filter(|it| !denied.contains(&it.address)).cloned().collect();
        self.denied.insert(cluster.clone(), denied);
        Arc::new(allowed)
    }

    pub fn reasons(self) -> Vec<Reason> {
        let denied = self.denied.into_iter().map(|(cluster, addresses)| {
            Reason::AddressNotAllowed { cluster, addresses: addresses.into_iter().collect() }
        });
        denied.collect()
    }
}
