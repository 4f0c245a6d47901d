//! The service that the import shall show: the merged one, with the part of every cluster that was not read. Nothing
//! leaves an import unless what lacks it was read whole: a cluster that does not answer still has its endpoints. So has
//! one whose loss the guard holds.

use std::collections::BTreeSet;

use super::basis::Basis;
use super::change::Kind;
use super::held_back::Reason;
use super::ownership::OWNER_LABEL;
use super::present::{DerivedService, ServiceImport, holders_of};
use super::service_import;
use crate::model::{ClusterId, ClustersetService, ExportedPort, ImportType, Properties};

/// What becomes of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    Import(Box<ClustersetService>),
    /// No cluster exports the name.
    End,
    /// Its namespace is about to be removed with it, it is not known whether a cluster exports the name, or the reason
    /// is in the way.
    Unchanged(Option<Reason>),
}

impl Intent {
    pub(super) fn of(basis: &Basis<'_>) -> Self {
        if basis.namespace.is_gone() {
            return Self::Unchanged(None);
        }
        if !basis.service.can_exist() {
            return Self::Unchanged(basis.merged.map(|_| Reason::ImpossibleName));
        }
        // The slices of a member that was not read are that controller's: under the new IP it would have none.
        if service_import::taken_over(basis).is_some() && !basis.sources.are_whole() {
            return Self::Unchanged(Some(Reason::ExportersUnread));
        }
        match Self::of_exports(basis) {
            Self::Import(service) => match foreign(basis, &service) {
                None => Self::Import(service),
                reason => Self::Unchanged(reason),
            },
            intent => intent,
        }
    }

    /// The merged exports alone are not enough. If blue and green export `payments`, and green cannot be read, they are
    /// those of blue: the import would lose the ports of green, and with them its endpoints. If the export of blue ends
    /// in that run, nothing would be left, and the import would be deleted with the IP that clients of green use.
    fn of_exports(basis: &Basis<'_>) -> Self {
        let holders = holders(basis);
        let staying: BTreeSet<ClusterId> =
            holders.iter().filter(|cluster| basis.sources.stays(cluster)).cloned().collect();
        let has_unknown_part = has_unknown_part(basis);
        // One without holders was made in a run that did not get to the endpoints and the status.
        let are_known = !holders.is_empty() && !has_unknown_part;
        let ends = basis.merged.is_none() && basis.sources.are_all_read(are_known);
        let is_uncertain =
            !staying.is_empty() || has_unknown_part || basis.merged.is_none() && !ends;
        match (as_it_is(basis).filter(|_| is_uncertain), basis.merged) {
            (Some(_), None) if staying.is_empty() && !are_known => Self::Unchanged(None),
            (Some(kept), merged) => {
                let service = with_additions(basis, kept, merged, staying);
                // It may be exported with any family.
                let is_known = service.kind == ImportType::Headless || !service.families.is_empty();
                if is_known { Self::Import(Box::new(service)) } else { Self::Unchanged(None) }
            }
            (None, Some(merged)) => Self::Import(Box::new(with_clusters(merged.clone(), staying))),
            (None, None) if staying.is_empty() && ends => Self::End,
            (None, None) => Self::Unchanged(None),
        }
    }
}

/// An object of another owner under the name of the ServiceImport or the derived Service. Under the name of a slice it
/// is not in the way, since another number is free.
fn foreign(basis: &Basis<'_>, service: &ClustersetService) -> Option<Reason> {
    let is_needed = |kind| match kind {
        Kind::ServiceImport => true,
        Kind::Service => service.kind == ImportType::ClusterSetIp,
        Kind::EndpointSlice => false,
    };
    let objects = basis.present.objects();
    let foreign = objects.filter(|(kind, metadata)| is_needed(*kind) && !basis.owns(metadata));
    let (kind, metadata) = foreign.min_by_key(|(kind, _)| *kind)?;
    let object = basis.object(kind, &metadata.name);
    Some(match metadata.labels.get(OWNER_LABEL) {
        Some(owner) => Reason::OtherOwner { object, owner: owner.clone() },
        None => Reason::ForeignObject { object, manager: metadata.manager.clone() },
    })
}

/// The clusters with a part in the import: those in its status, and those with slices.
pub(super) fn holders(basis: &Basis<'_>) -> BTreeSet<ClusterId> {
    holders_of(basis.import(), basis.slices())
}

/// Whether a slice may have the endpoints of a cluster that is not known: it has lost its label.
fn has_unknown_part(basis: &Basis<'_>) -> bool {
    !basis.sources.is_complete && basis.slices().any(|slice| slice.source().is_none())
}

/// The service that the import shows now. Its ports are those of the derived Service, which lead clients to the
/// endpoints: after a run that ended early it may still have more ports, or other names.
pub(super) fn as_it_is(basis: &Basis<'_>) -> Option<ClustersetService> {
    let derived = basis.present.derived.as_ref().filter(|it| basis.owner.owns(&it.metadata));
    let Some(ServiceImport { metadata, spec, .. }) = basis.import() else {
        return Some(without_import(basis.merged?, derived?));
    };
    let derived = derived.filter(|_| spec.kind == ImportType::ClusterSetIp);
    let mut ports = derived.map(|it| it.spec.ports.clone()).unwrap_or_default();
    add_ports(&mut ports, &spec.ports);
    let properties = Properties {
        labels: service_import::exported_labels(metadata),
        annotations: service_import::exported_annotations(metadata),
        ..spec.properties.clone()
    };
    Some(ClustersetService { ports, properties, ..spec.clone() })
}

/// The service of an import that was deleted while its derived Service stands: clients have its IP, and the slices
/// of each exporter its names of ports.
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

/// The present service with the new ports and clusters of the merged one. Type and properties wait: the cluster whose
/// part stays may be the one that decides them, and its slices have the present names of the ports. The families, too,
/// unless this cluster has none of them.
pub(super) fn with_additions(
    basis: &Basis<'_>,
    mut kept: ClustersetService,
    merged: Option<&ClustersetService>,
    staying: BTreeSet<ClusterId>,
) -> ClustersetService {
    if let Some(merged) = merged {
        add_ports(&mut kept.ports, &merged.ports);
        kept.clusters.clone_from(&merged.clusters);
        if !basis.importer.families.iter().any(|family| kept.families.contains(family)) {
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

/// Whether a Service can have a port beside others: names and numbers are unique, and only a single port is unnamed.
fn can_be_added(port: &ExportedPort, ports: &[ExportedPort]) -> bool {
    ports.iter().all(|other| {
        let is_same = (other.protocol, other.number) == (port.protocol, port.number);
        !is_same && other.name != port.name && !other.name.is_empty() && !port.name.is_empty()
    })
}
