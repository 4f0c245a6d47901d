//! The addresses that are not imported: those that `NAME_POLICY` does not allow, and instances that no endpoint can be made
//! of.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::OfMember;
use crate::clusterset::attributes::Skipped;
use crate::import::plan::Reason;
use crate::model::clusterset::ClusterId;

/// What is left out of one import.
pub(super) struct LeftOut<F> {
    skipped: Vec<(String, Skipped)>,
    allows: F,
    /// The addresses that are not allowed.
    denied: BTreeMap<ClusterId, BTreeSet<IpAddr>>,
}

impl<F: Fn(IpAddr) -> bool> LeftOut<F> {
    pub fn new(skipped: Vec<(String, Skipped)>, allows: F) -> Self {
        Self { skipped, allows, denied: BTreeMap::new() }
    }

    /// The export of a member, with the endpoints that are allowed.
    pub fn filter(&mut self, cluster: &ClusterId, mut member: OfMember) -> OfMember {
        if let Some((_, endpoints)) = &mut member.export {
            let denied = endpoints.extract_if(.., |endpoint| !(self.allows)(endpoint.address));
            let denied: BTreeSet<IpAddr> = denied.map(|endpoint| endpoint.address).collect();
            if !denied.is_empty() {
                self.denied.insert(cluster.clone(), denied);
            }
        }
        member
    }

    pub fn reasons(self) -> Vec<Reason> {
        let denied = self.denied.into_iter().map(|(cluster, addresses)| {
            Reason::AddressNotAllowed { cluster, addresses: addresses.into_iter().collect() }
        });
        let skipped = (!self.skipped.is_empty()).then_some(self.skipped);
        denied.chain(skipped.map(|instances| Reason::Skipped { instances })).collect()
    }
}
