//! The records of a cluster under an id that it had before. They go once everything has its record under the present id:
//! at no time is an export without one.

use std::collections::BTreeSet;

use super::records::Kept;
use crate::clusterset::record;
use crate::model::clusterset::Member;
use crate::model::{Desired, Registry, Selection};
use crate::publish::observe::World;
use crate::publish::plan::{Basis, DeregisterReason, Extent, Holders, Observation};
use crate::publish::{Options, Task, carry_out};
use crate::report::ClusterReport;

/// The records under other ids of the member. A sync of a few Services does not look for them.
pub(super) async fn read(world: &World<'_>, member: &Member, selection: &Selection) -> Registry {
    let known =
        if *selection == Selection::Everything { world.registry.known().await } else { None };
    let mut registry = known.unwrap_or_default();
    let own = record::namespace(&member.clusterset);
    let Registry { namespaces, services, .. } = &mut registry;
    services.retain(|key, service| {
        let Some(namespace) = namespaces.get(&key.namespace) else { return false };
        let is_own = namespace.name == own && service.name == member.cluster.as_str();
        let mut records = service.instances.iter().flatten();
        record::is_namespace(&namespace.name)
            && !is_own
            && records.any(|(_, attributes)| world.owner.owns(attributes))
    });
    registry
}

/// Takes them away, those of exports first, or plans it.
pub(super) async fn take_away(
    world: &World<'_>,
    former: &Registry,
    options: Options,
) -> ClusterReport {
    let task = Task::Purge(world.registry, &DeregisterReason::ClusterIdChanged);
    let mut report = ClusterReport::default();
    for registry in record::parts(former) {
        let observation = Observation {
            owner: world.owner.clone(),
            rules: world.rules.clone(),
            now: world.now,
            extent: Extent::Part,
            judged: None,
            desired: Desired::default(),
            registry,
        };
        let (holders, affected) = (&Holders::default(), &BTreeSet::new());
        let basis = Basis { observation: &observation, holders, affected };
        report = report.with(carry_out(&task, basis, options).await.report);
    }
    report
}

/// Whether this may be another Cloud Map than that of the member's imports: it has no record of the cluster, under any id.
pub(super) fn is_unfamiliar(kept: &Kept<'_>, former: &Registry) -> bool {
    !kept.has_cluster_record() && former.services.is_empty()
}
