//! The address families of an import.

use super::precedence::Exports;
use crate::model::Family;
use crate::model::clusterset::{ClustersetService, Export, ImportType};

/// The families of a merged service, the primary one first. The virtual IPs of a `ClusterSetIP` follow its first
/// export. A headless service has no IP, and DNS answers with the endpoints of all its exports.
pub(super) fn merge(exports: &Exports<'_>) -> Vec<Family> {
    let all = exports.iter().filter(|it| states_families(it));
    let deciding = match exports.kind() {
        ImportType::ClusterSetIp => all.take(1).collect::<Vec<_>>(),
        ImportType::Headless => all.collect(),
    };
    let mut families = Vec::new();
    for family in deciding.into_iter().flat_map(|export| &export.families) {
        // A ServiceImport must not repeat a family.
        if !families.contains(family) {
            families.push(*family);
        }
    }
    families
}

/// Whether an export names its families: without a record they are those of its endpoints, and it may have none.
pub(super) fn states_families(export: &Export) -> bool {
    !export.families.is_empty()
}

/// The families of a service that a cluster has, the service's primary one first. Empty if they have none in common.
pub fn families_in(service: &ClustersetService, cluster: &[Family]) -> Vec<Family> {
    service.families.iter().copied().filter(|family| cluster.contains(family)).collect()
}
