//! Which TTL the records of a service should have. If other clusters of this installation have instances under the
//! name, it is the smallest that any of them asks for. A run that has not read all of those only lowers it: else each
//! cluster would set its own in turn, for ever.

use std::collections::BTreeSet;

use crate::model::{Claims, CloudMapService, ClusterArn, Owner, ServiceKind};
use crate::plan::Note;

/// What is asked of the TTL of an existing service.
pub struct Ttl<'a> {
    service: &'a CloudMapService,
    /// The TTL that this cluster asks for.
    own: Option<u32>,
    /// The other clusters of this installation with instances under the name.
    others: BTreeSet<ClusterArn>,
}

impl<'a> Ttl<'a> {
    /// What the holder of a name asks for, and who else has a say; `None` if the service has no records.
    pub fn of(service: &'a CloudMapService, claims: &Claims, owner: &Owner) -> Option<Self> {
        if !matches!(service.kind, ServiceKind::Dns(_)) || service.ttls.is_empty() {
            return None;
        }
        let marked = service.instances.iter().flat_map(|instances| instances.values());
        let marked = marked.filter_map(|attributes| Owner::marked(&owner.id, attributes));
        let others = marked.map(|marked| marked.cluster).filter(|it| *it != owner.cluster);
        let (own, others) = (claims.ttl, others.collect());
        Some(Self { service, own, others })
    }

    /// Whether the records have another TTL than this cluster asks for.
    pub fn differs_from_own(&self) -> bool {
        self.own.is_some_and(|own| self.service.ttls != BTreeSet::from([own]))
    }

    /// Whether other clusters of this installation have a say.
    pub fn is_shared(&self) -> bool {
        !self.others.is_empty()
    }

    /// The TTL to set; `None` if it stays.
    pub fn change(&self) -> Option<u32> {
        let asked = &self.service.ttls_asked;
        let others = self.others.iter().filter_map(|other| *asked.get(other)?);
        let smallest = self.own.into_iter().chain(others).min()?;
        let (lowest, highest) = (*self.service.ttls.first()?, *self.service.ttls.last()?);
        let knows_all = self.others.iter().all(|other| asked.contains_key(other));
        let wanted = if knows_all { smallest } else { smallest.min(lowest) };
        // The cluster that asks for less lowers it itself, whoever is read first; the last one read raises it.
        let is_ours = self.own == Some(smallest) || wanted > highest;
        (is_ours && self.service.ttls != BTreeSet::from([wanted])).then_some(wanted)
    }

    /// What is said if this cluster does not get the TTL that it asks for, since others have a say.
    pub fn note(&self, change: Option<u32>) -> Option<Note> {
        let (wanted, ttls) = (self.own?, &self.service.ttls);
        let result = change.map_or(ttls.clone(), |ttl| BTreeSet::from([ttl]));
        let waits = self.is_shared() && result != BTreeSet::from([wanted]);
        waits.then(|| Note::TtlWaits {
            wanted,
            present: super::update::seconds(&result),
            others: self.others.iter().map(|other| other.name().to_owned()).collect(),
        })
    }
}
