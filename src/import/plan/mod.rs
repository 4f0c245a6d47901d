//! Decides about one import in one cluster. [`plan`] compares the merged service and the endpoints of its exporters with
//! the objects that the cluster has, and returns the changes in their order and the reasons for what is held back. It
//! is pure: no clock, client or log, and it knows no type of the Kubernetes API.
//!
//! ```text
//! Basis ─> intent (what is merged, and the parts that were not read) ─> derived_service ─> service_import
//!                                                                              └─> endpoint_slices
//! ```
//!
//! `basis` and `present` are the input. A [`Change`] lacks the values that the API server assigns while the changes are
//! made; [`Present`] takes over its answers and completes it. `ownership` finds the objects that are ours: no other is
//! changed.
//!
//! Nothing leaves an import unless what lacks it was read whole (`intent`), and everything is added before anything is
//! removed ([`Stage`]). A part that is ahead of Cloud Map is not read from there ([`ahead`]). The guard against mass
//! deletion counts what would leave all imports of the cluster ([`Tally`]), and a plan on [`hold`] removes nothing of
//! another cluster.

mod basis;
mod change;
mod derived_service;
mod endpoint_slices;
mod held_back;
mod intent;
mod ownership;
mod policy;
mod present;
mod refused;
mod service_import;
#[cfg(test)]
mod tests;

use derived_service::Derived;
use intent::Intent;

use crate::model::{ClustersetService, ImportType};

pub use basis::{
    Basis, Exported, Failure, ImportedEndpoint, Importer, NamespaceState, PortKey, Read, Sources,
    hold,
};
pub use change::{Change, Kind, ObjectRef, Stage, Write};
pub use endpoint_slices::ahead;
pub use held_back::{Absent, EXCLUDED, Reason};
pub use ownership::{OWNER_LABEL, OwnerLabel, Removal, adopt_former};
pub use policy::Tally;
pub use present::{
    AWS_DERIVED, DerivedService, Metadata, Present, SOURCE_CLUSTER, ServiceImport, Slice,
    SliceEndpoint, Unexpected, name_of,
};
pub use refused::{missing_fields, refused_fields};

/// The changes of one import in the order in which they are made, and what is held back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub changes: Vec<Change>,
    pub held_back: Vec<Reason>,
}

impl Plan {
    fn held_back(reason: impl IntoIterator<Item = Reason>) -> Self {
        Self { changes: Vec::new(), held_back: reason.into_iter().collect() }
    }
}

/// Plans one import. In an excluded namespace a plan that only deletes is carried out, and any other one held back.
pub fn plan(basis: &Basis<'_>) -> Plan {
    let mut plan = policy::plan(basis, decide);
    // A change that failed is not planned again, so that every run ends.
    plan.changes.retain(|change| basis.is_left(change));
    let writes = plan.changes.iter().any(|change| change.write != Write::Delete);
    if writes && basis.namespace == NamespaceState::Excluded {
        return Plan::held_back([Reason::NamespaceExcluded]);
    }
    plan
}

/// The plan if the namespace is not excluded.
fn decide(basis: &Basis<'_>) -> Plan {
    match (Intent::of(basis), service_import::taken_over(basis)) {
        (Intent::Import(service), _) => import(basis, &service),
        (Intent::Unchanged(Some(reason)), _) => Plan::held_back([reason]),
        // The next run decides whether it ends, under the guard.
        (_, Some(change)) => Plan { changes: vec![change], ..Plan::default() },
        (Intent::End, None) => Plan { changes: end(basis), ..Plan::default() },
        (Intent::Unchanged(None), None) => Plan::default(),
    }
}

/// Creates the import or brings it up to date.
fn import(basis: &Basis<'_>, service: &ClustersetService) -> Plan {
    let as_kind = |kind| refused::accepted(basis, kind, service);
    let derived = Derived::of(basis, &as_kind(Kind::Service));
    let has_ip = derived.as_ref().is_some_and(|it| !it.families.is_empty());
    let obstacle = (service.kind == ImportType::ClusterSetIp && !has_ip).then(|| {
        let (exported, available) = (service.families.clone(), basis.importer.families.clone());
        Reason::IpFamilyNotSupported { exported, available }
    });
    let ready = service_import::ready(basis, service, obstacle.as_ref());
    let mut changes =
        service_import::changes(basis, &as_kind(Kind::ServiceImport), derived.as_ref());
    match &derived {
        Some(derived) => changes.extend(derived.changes(basis)),
        None => changes.extend(derived_service::deletion(basis)),
    }
    let of_slices = as_kind(Kind::EndpointSlice);
    changes.extend(endpoint_slices::changes(basis, &of_slices, derived.as_ref()));
    changes.extend(service_import::status_change(basis, &service.clusters, ready));
    // A stable sort: the slices of a stage keep their order.
    changes.sort_by_key(|change| change.stage);
    Plan { changes, ..Plan::held_back(obstacle) }
}

/// Deletes the import, and the objects that garbage collection does not take with it.
fn end(basis: &Basis<'_>) -> Vec<Change> {
    let import = service_import::deletion(basis).filter(|_| !basis.is_ending());
    let is_collected = |object: &ObjectRef| {
        let object = basis.present.metadata(object);
        import.is_some() && object.is_some_and(|it| change::owners(it, basis.import()).is_none())
    };
    let service = derived_service::deletion(basis).into_iter();
    let mut changes: Vec<Change> = service.chain(endpoint_slices::deletions(basis)).collect();
    changes.retain(|it| !is_collected(&it.object));
    changes.extend(import);
    changes
}
