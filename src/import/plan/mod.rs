//! Plans one import in one cluster. [`plan`] compares the merged service and the endpoints of its exporters with the
//! objects that the cluster has. It returns the changes in their order, and the reasons for everything held back. It is
//! pure: it has no clock, client or log, and it uses no type of the Kubernetes API.
//!
//! ```text
//! PlanInput ─> Intent (the merged service, and the parts that were not read) ─> derived_service ─> service_import
//!                                                                                  └─> endpoint_slices
//! ```
//!
//! `input` and `present_objects` contain all inputs of a plan. A [`Change`] lacks the values that the API server
//! assigns while the changes are made; [`Present`] stores the server's answers and completes each change. `ownership`
//! identifies our objects; no other object is changed.
//!
//! An endpoint leaves an import only if the exports of its cluster were read completely (`Intent`), and all additions
//! precede all removals ([`Stage`]). `import_guard` is the guard against mass deletion: it counts the endpoints that
//! would leave all imports of the cluster ([`Tally`]). A plan from the sources that [`hold`] returns removes nothing
//! that the guard holds.

mod change;
mod derived_service;
mod endpoint_slices;
mod held_back;
mod import_guard;
mod input;
mod ownership;
mod present_objects;
mod refused;
mod service_import;
mod slice;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::model::{ClusterId, ClustersetService, ExportedPort, ImportType, Properties};
use derived_service::Derived;

pub use change::{Change, Kind, ObjectRef, Stage, Write};
pub use held_back::{Absent, EXCLUDED, Reason};
pub use import_guard::{
    GuardedRun, HeldParts, ImportNote, NoteChange, Tally, hold, ready_endpoints,
};
pub use input::{
    FailedWrite, ImportedEndpoint, MemberEndpoints, NamespaceState, PlanInput, PortKey, Read,
    Sources,
};
pub use ownership::{OWNER_LABEL, OwnerLabel, removal};
pub use present_objects::{
    DerivedService, Metadata, Present, ServiceImport, Slice, SliceEndpoint, name_of,
};
pub use refused::{
    changed_fields, noted_fields, noted_server, refused_fields, with_exported_values,
};
pub use service_import::note;

/// The changes of one import in the order in which they are made, and the reasons for everything held back.
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

/// Plans one import. In an excluded namespace, a plan is held back unless it only deletes.
pub fn plan(input: &PlanInput<'_>) -> Plan {
    let mut plan = decide(input);
    // A change that failed is not planned again, so that every run ends.
    plan.changes.retain(|change| input.can_be_made(change));
    let writes = plan.changes.iter().any(|change| change.write != Write::Delete);
    if writes && input.namespace == NamespaceState::Excluded {
        return Plan::held_back([Reason::NamespaceExcluded]);
    }
    plan.held_back.extend(held_back::denied(input.failures));
    plan
}

/// Plans one import as if its namespace were not excluded.
fn decide(input: &PlanInput<'_>) -> Plan {
    match Intent::of(input) {
        Intent::Import(service) => import(input, &service),
        Intent::End => Plan { changes: end(input), ..Plan::default() },
        Intent::Unchanged(reason) => Plan::held_back(reason),
    }
}

/// Creates the import or brings it up to date.
fn import(input: &PlanInput<'_>, service: &ClustersetService) -> Plan {
    let refused = refused::of_service(input, service);
    let input = &PlanInput { refused: &refused, ..*input };
    let as_kind = |kind| refused::accepted(input, kind, service);
    let derived = Derived::of(input, &as_kind(Kind::Service));
    let has_ip = derived.as_ref().is_some_and(|derived| !derived.families.is_empty());
    let obstacle = (service.kind == ImportType::ClusterSetIp && !has_ip).then(|| {
        let exported = service.families.clone();
        let available = input.available.to_vec();
        Reason::IpFamilyNotSupported { exported, available }
    });
    let ready = service_import::ready(input, service, obstacle.as_ref());
    let mut changes =
        service_import::changes(input, &as_kind(Kind::ServiceImport), derived.as_ref());
    match &derived {
        Some(derived) => changes.extend(derived.changes(input)),
        None => changes.extend(derived_service::deletion(input)),
    }
    let service_of_slices = as_kind(Kind::EndpointSlice);
    changes.extend(endpoint_slices::changes(input, &service_of_slices, derived.as_ref()));
    changes.extend(service_import::note_removal(input));
    changes.extend(service_import::status_change(input, &service.clusters, ready));
    // A stable sort: the slices of a stage keep their order.
    changes.sort_by_key(|change| change.stage);
    Plan { changes, ..Plan::held_back(obstacle) }
}

/// Deletes the import, and the objects that garbage collection does not delete with it.
fn end(input: &PlanInput<'_>) -> Vec<Change> {
    let import = service_import::deletion(input).filter(|_| !input.is_ending());
    let is_collected = |object: &ObjectRef| {
        let object = input.present.metadata(object);
        import.is_some()
            && object.is_some_and(|metadata| change::owners(metadata, input.import()).is_none())
    };
    let service = derived_service::deletion(input).into_iter();
    let mut changes: Vec<Change> = service.chain(endpoint_slices::deletions(input)).collect();
    changes.retain(|change| !is_collected(&change.object));
    changes.extend(import);
    changes
}

// The wanted service of the import: the merged service, with the present part of every cluster that was not read
// completely or whose loss the guard holds. A cluster that does not answer still has its endpoints, so nothing leaves
// an import unless the exports of its cluster were read completely.

/// The planned outcome for an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    Import(Box<ClustersetService>),
    /// No cluster exports the name.
    End,
    /// The import stays unchanged, for this reason. `None` if its namespace is terminating or absent, or if it is
    /// unknown whether a cluster exports the name.
    Unchanged(Option<Reason>),
}

impl Intent {
    pub(super) fn of(input: &PlanInput<'_>) -> Self {
        if input.namespace.is_gone() {
            return Self::Unchanged(None);
        }
        if !input.service.can_exist() {
            return Self::Unchanged(input.merged.map(|_| Reason::ImpossibleName));
        }
        match Self::of_exports(input) {
            Self::Import(service) => match foreign(input, &service) {
                None => Self::Import(service),
                reason => Self::Unchanged(reason),
            },
            intent => intent,
        }
    }

    /// Decides from the exports. The merged exports alone are not enough. Suppose blue and green export `payments`, and
    /// green cannot be read, so the merged exports are those of blue. The import would lose the ports of green, and
    /// with them its endpoints. If the export of blue also ended in that run, the import would be deleted, and with it
    /// the IP that clients of green use.
    fn of_exports(input: &PlanInput<'_>) -> Self {
        let in_import = input.clusters();
        let staying: BTreeSet<ClusterId> =
            in_import.iter().filter(|cluster| input.sources.stays(cluster)).cloned().collect();
        let has_unknown_part = has_unknown_part(input);
        // An import without parts is from a run that ended before it wrote the endpoints and the status.
        let are_known = !in_import.is_empty() && !has_unknown_part;
        let ends = input.merged.is_none() && input.sources.are_all_read(are_known);
        let is_uncertain =
            !staying.is_empty() || has_unknown_part || input.merged.is_none() && !ends;
        match (as_it_is(input).filter(|_| is_uncertain), input.merged) {
            (Some(_), None) if staying.is_empty() && !are_known => Self::Unchanged(None),
            (Some(kept), merged) => {
                let service = with_additions(input, kept, merged, staying);
                // Without known families the import stays unchanged, since an unread cluster may export any family.
                let is_known = service.kind == ImportType::Headless || !service.families.is_empty();
                if is_known { Self::Import(Box::new(service)) } else { Self::Unchanged(None) }
            }
            (None, Some(merged)) => Self::Import(Box::new(with_clusters(merged.clone(), staying))),
            (None, None) if staying.is_empty() && ends => Self::End,
            (None, None) => Self::Unchanged(None),
        }
    }
}

/// Returns the reason if an object of another owner has the name of the ServiceImport or the derived Service. Under the
/// name of a slice it does not block the import, since another number is free.
fn foreign(input: &PlanInput<'_>, service: &ClustersetService) -> Option<Reason> {
    let is_needed = |kind| match kind {
        Kind::ServiceImport => true,
        Kind::Service => service.kind == ImportType::ClusterSetIp,
        _ => false,
    };
    let objects = input.present.objects();
    let foreign =
        objects.filter(|(kind, metadata)| is_needed(*kind) && !input.owner.owns(metadata));
    let (kind, metadata) = foreign.min_by_key(|(kind, _)| *kind)?;
    let object = input.object(kind, &metadata.name);
    Some(match metadata.labels.get(OWNER_LABEL) {
        Some(owner) => Reason::OtherOwner { object, owner: owner.clone() },
        None if metadata.has_lost_label() => {
            Reason::LostLabel { object, owner: input.owner.as_str().to_owned() }
        }
        None => Reason::ForeignObject { object, manager: metadata.manager.clone() },
    })
}

/// Whether a slice may have endpoints of an unknown cluster: it has lost its cluster label, and not all members are
/// known.
fn has_unknown_part(input: &PlanInput<'_>) -> bool {
    !input.sources.is_complete && input.slices().any(|slice| slice.source().is_none())
}

/// Returns the service that the import has now. Its ports begin with those of the derived Service, which lead clients
/// to the endpoints: after a run that ended early, that Service may still have more ports, or ports with other names.
pub(super) fn as_it_is(input: &PlanInput<'_>) -> Option<ClustersetService> {
    let derived =
        input.present.derived.as_ref().filter(|derived| input.owner.owns(&derived.metadata));
    let Some(ServiceImport { metadata, spec, .. }) = input.import() else {
        return Some(without_import(input.merged?, derived?));
    };
    let derived = derived.filter(|_| spec.kind == ImportType::ClusterSetIp);
    let mut ports = derived.map(|derived| derived.spec.ports.clone()).unwrap_or_default();
    add_ports(&mut ports, &spec.ports);
    let (labels, annotations) = service_import::exported_metadata(metadata);
    let properties = Properties { labels, annotations, ..spec.properties.clone() };
    Some(ClustersetService { ports, properties, ..spec.clone() })
}

/// Returns the service of an import whose ServiceImport was deleted while its derived Service still exists. Clients use
/// the IP of the derived Service, and the slices of all exporters use its port names.
fn without_import(merged: &ClustersetService, derived: &DerivedService) -> ClustersetService {
    let mut ports = derived.spec.ports.clone();
    add_ports(&mut ports, &merged.ports);
    let mut service = ClustersetService { kind: ImportType::ClusterSetIp, ports, ..merged.clone() };
    if service.families.is_empty() {
        service.families.clone_from(&derived.spec.families);
    }
    service
}

fn with_clusters(
    mut service: ClustersetService,
    staying: BTreeSet<ClusterId>,
) -> ClustersetService {
    service.clusters.extend(staying);
    service.clusters.sort_unstable();
    service.clusters.dedup();
    service
}

/// Returns the present service with the new ports and clusters of the merged service. Type and properties stay
/// unchanged: a cluster whose part stays may be the one that decides them, and its slices use the present port names.
/// The families also stay, unless the importing cluster supports none of them.
pub(super) fn with_additions(
    input: &PlanInput<'_>,
    mut kept: ClustersetService,
    merged: Option<&ClustersetService>,
    staying: BTreeSet<ClusterId>,
) -> ClustersetService {
    if let Some(merged) = merged {
        add_ports(&mut kept.ports, &merged.ports);
        kept.clusters.clone_from(&merged.clusters);
        if !input.available.iter().any(|family| kept.families.contains(family)) {
            kept.families.clone_from(&merged.families);
        }
    }
    with_clusters(kept, staying)
}

fn add_ports(ports: &mut Vec<ExportedPort>, others: &[ExportedPort]) {
    for port in others {
        if can_be_added(port, ports) {
            ports.push(port.clone());
        }
    }
}

/// Whether a Service can have a port beside others. Names must be unique, and so must pairs of protocol and number.
/// Only a single port can be unnamed.
fn can_be_added(port: &ExportedPort, ports: &[ExportedPort]) -> bool {
    ports.iter().all(|other| {
        let is_same = (other.protocol, other.number) == (port.protocol, port.number);
        !is_same && other.name != port.name && !other.name.is_empty() && !port.name.is_empty()
    })
}
