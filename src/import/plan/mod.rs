//! Decides about one import in one cluster. [`plan`] compares the merged service and the endpoints of its exporters with
//! the objects that the cluster has, and returns the changes in their order and the reasons for what is held back. It
//! is pure: no clock, client or log, and it knows no type of the Kubernetes API.
//!
//! ```text
//! Basis ─> intent (what is merged, and the parts that were not read) ─> derived_service ─> service_import, status
//!                                                                              └─> endpoint_slices
//! ```
//!
//! `basis` and `present` are the input. A [`Change`] lacks the values that the API server assigns while the changes are
//! made; [`Known`] collects them and completes it. `ownership` finds the objects that are ours: no other is changed.
//!
//! Nothing leaves an import unless what lacks it was read whole (`intent`), and everything is added before anything is
//! removed ([`Stage`]). A part that is ahead of Cloud Map is not read from there ([`ahead`]). The guard against mass deletion counts what would leave all imports of the cluster ([`Tally`]),
//! and a plan on [`hold`] removes nothing of another cluster.

mod ahead;
mod basis;
mod change;
mod derived_service;
mod endpoint_slices;
mod held_back;
mod intent;
mod known;
mod ownership;
mod patch;
mod policy;
mod present;
mod refused;
mod removal;
mod service_import;
mod status;
mod tally;
#[cfg(test)]
mod tests;

use derived_service::Derived;
use intent::Intent;
use status::Readiness;

use crate::model::clusterset::{ClustersetService, ImportType};

pub use ahead::ahead;
pub use basis::{
    Basis, Exported, Failure, ImportedEndpoint, Importer, NamespaceState, PortKey, Read, Sources,
    hold,
};
pub use change::{Change, Content, Kind, ObjectRef, Stage, Write};
pub use held_back::{EXCLUDED, HeldBack, Reason};
pub use known::{Answer, Known, Request};
pub use ownership::{OWNER_LABEL, OwnerLabel, adopt_former};
pub use present::{
    AWS_DERIVED, Addresses, Condition, DerivedService, Identity, ImportSpec, ImportStatus,
    Metadata, OwnerReference, PortSet, Present, Routing, SOURCE_CLUSTER, ServiceImport,
    ServiceSpec, Slice, SliceEndpoint, Texts,
};
pub use refused::{missing_fields, refused_fields};
pub use removal::Removal;
pub use tally::Tally;

/// The changes of one import in the order in which they are made, and what is held back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub changes: Vec<Change>,
    pub held_back: Vec<HeldBack>,
}

/// Plans one import. In an excluded namespace a plan that only deletes is carried out, and any other one held back.
pub fn plan(basis: &Basis<'_>) -> Plan {
    let mut plan = policy::plan(basis, decide);
    // A change that failed is not planned again, so that every run ends.
    plan.changes.retain(|change| basis.is_left(change));
    let writes = plan.changes.iter().any(|change| change.write != Write::Delete);
    if writes && basis.namespace == NamespaceState::Excluded {
        return held_back(basis, Some(Reason::NamespaceExcluded));
    }
    plan
}

/// The plan if the namespace is not excluded. Without changes if it is absent or terminating: its objects are about to be
/// removed.
fn decide(basis: &Basis<'_>) -> Plan {
    if basis.namespace.is_gone() {
        return Plan::default();
    }
    if !basis.service.can_exist() {
        return held_back(basis, basis.merged.map(|_| Reason::ImpossibleName));
    }
    let taken_over = service_import::taken_over(basis);
    // The slices of a member that was not read are that controller's: under the new IP it would have none.
    if taken_over.is_some() && !basis.sources.are_whole() {
        return held_back(basis, Some(Reason::ExportersUnread));
    }
    match Intent::of(basis) {
        // The next run decides whether it ends, under the guard.
        Intent::End | Intent::Unknown if taken_over.is_some() => {
            Plan { changes: taken_over.into_iter().collect(), held_back: Vec::new() }
        }
        Intent::Import(service) => match foreign(basis, &service) {
            None => import(basis, &service),
            reason => held_back(basis, reason),
        },
        Intent::End => Plan { changes: end(basis), held_back: Vec::new() },
        Intent::Unknown => Plan::default(),
    }
}

fn held_back(basis: &Basis<'_>, reason: Option<Reason>) -> Plan {
    let held_back = reason.map(|reason| HeldBack { service: basis.service.clone(), reason });
    Plan { changes: Vec::new(), held_back: held_back.into_iter().collect() }
}

/// An object of another owner under the name of the ServiceImport or the derived Service. Under the name of a slice it
/// is not in the way, since another number is free.
fn foreign(basis: &Basis<'_>, service: &ClustersetService) -> Option<Reason> {
    let import = basis.present.import.iter().map(|it| (Kind::ServiceImport, &it.metadata));
    let has_derived = service.kind == ImportType::ClusterSetIp;
    let derived = basis.present.derived.iter().filter(|_| has_derived);
    let derived = derived.map(|it| (Kind::Service, &it.metadata));
    let is_foreign = |(kind, metadata): &(Kind, &Metadata)| {
        let is_taken_over = *kind == Kind::ServiceImport && basis.is_taken_over(metadata);
        !basis.owner.owns(metadata) && !is_taken_over
    };
    let (kind, metadata) = import.chain(derived).find(is_foreign)?;
    let (namespace, name) = (basis.service.namespace.clone(), metadata.name.clone());
    let object = ObjectRef { kind, namespace, name };
    if let Some(owner) = metadata.labels.get(OWNER_LABEL) {
        return Some(Reason::OtherOwner { object, owner: owner.clone() });
    }
    Some(Reason::ForeignObject { object, manager: metadata.manager.clone() })
}

/// Creates the import or brings it up to date.
fn import(basis: &Basis<'_>, service: &ClustersetService) -> Plan {
    let as_kind = |kind| refused::accepted(basis, kind, service);
    let of_service = as_kind(Kind::Service);
    let derived = Derived::of(basis, &of_service);
    let readiness = Readiness::of(basis, service, derived.as_ref());
    let of_import = as_kind(Kind::ServiceImport);
    let mut changes = service_import::changes(basis, &of_import, derived.as_ref());
    match &derived {
        Some(derived) => changes.extend(derived.changes(basis)),
        None => changes.extend(derived_service::deletion(basis)),
    }
    let of_slices = as_kind(Kind::EndpointSlice);
    changes.extend(endpoint_slices::changes(basis, &of_slices, derived.as_ref()));
    changes.extend(status::change(basis, &service.clusters, &readiness));
    // A stable sort: the slices of a stage keep their order.
    changes.sort_by_key(|change| change.stage);
    let reason = (readiness == Readiness::FamilyNotSupported).then(|| {
        let (exported, available) = (service.families.clone(), basis.importer.families.clone());
        Reason::IpFamilyNotSupported { exported, available }
    });
    Plan { changes, ..held_back(basis, reason) }
}

/// Deletes the import. Its objects are left to garbage collection; those that it left are deleted if there is no import
/// any more.
fn end(basis: &Basis<'_>) -> Vec<Change> {
    if let Some(deletion) = service_import::deletion(basis).filter(|_| !basis.is_ending()) {
        return vec![deletion];
    }
    let service = derived_service::deletion(basis);
    service.into_iter().chain(endpoint_slices::deletions(basis)).collect()
}
