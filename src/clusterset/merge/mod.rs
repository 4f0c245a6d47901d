//! The one service that all members see under a name, from all exports of the name, and the properties in which the
//! exports disagree (KEP-1645, "Constraints and Conflict Resolution").
//!
//! Each member computes the service for itself, so it depends on the exports alone: not on their order, the importing
//! cluster or an earlier outcome.

mod conflict;
mod conflicts;
mod decisions;
mod families;
mod ports;
mod precedence;
#[cfg(test)]
mod tests;

use crate::model::ServiceRef;
use crate::model::clusterset::{ClustersetService, Export, Properties};
use precedence::Exports;

pub use conflict::{Conflict, ConflictReason};
pub use decisions::{Decision, Property, decisions, ports_of_some};
pub use families::families_in;
pub use ports::{served_ports, serves};

/// The exports of a name, merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    pub service: ClustersetService,
    /// In the order of the API's constants. They are conflicts of all exporters, not only of those that disagree.
    pub conflicts: Vec<Conflict>,
}

/// Merges all exports of a name, at most one of each cluster. `None` if there is none.
pub fn merge(service: &ServiceRef, exports: &[Export]) -> Option<Merged> {
    let exports = Exports::rank(exports)?;
    let mut clusters: Vec<_> = exports.iter().map(|export| export.cluster.clone()).collect();
    clusters.sort_unstable();
    let service = ClustersetService {
        service: service.clone(),
        kind: exports.kind(),
        ports: ports::union(&exports),
        families: families::merge(&exports),
        properties: properties(&exports),
        clusters,
    };
    let conflicts = conflicts::find(&exports, &service);
    Some(Merged { service, conflicts })
}

/// Each property of the first export that states it; the API's default if none does.
fn properties(exports: &Exports<'_>) -> Properties {
    let routing = exports.with_routing().next().map(|(_, it)| it.clone()).unwrap_or_default();
    let metadata = exports.with_record().next().map(|(_, it)| it.clone()).unwrap_or_default();
    Properties { labels: metadata.labels, annotations: metadata.annotations, ..routing }
}
