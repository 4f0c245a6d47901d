//! The record of a cluster that only imports. Its imports know their Cloud Map by it, as those of an exporter do by its
//! own, and two clusters of one id are seen. It is written once, by a full sync.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::records::Kept;
use super::{Exported, Imports, Offer, Refused, former, make, refuse};
use crate::clusterset::conditions::ExportOutcome;
use crate::clusterset::id::CLUSTER_RECORD;
use crate::clusterset::members::clustersets;
use crate::model::clusterset::{ClusterId, Member, Overlay};
use crate::model::{Desired, Policy, Selection};
use crate::publish::Options;
use crate::publish::observe::{self, World};
use crate::publish::plan::Claimed;

/// Writes the record of a cluster that only imports, or plans it. `sources` are the clusters with a part in its imports:
/// if it has no record, they show whether this is its Cloud Map.
///
/// # Errors
/// Returns an error if Cloud Map could not be read, and the reason if the cluster gets no record.
pub async fn introduce(
    world: &World<'_>,
    (member, imports): (&Member, Imports),
    sources: &BTreeSet<ClusterId>,
    options: Options,
    offer: oneshot::Sender<Offer>,
) -> Result<Result<Exported, Refused>, observe::Error> {
    let selection = &Selection::Everything;
    let records =
        timeout_at(options.deadline.stop(), world.observe_records(member, None)).await??;
    let mut former = former::read(world, member, selection).await;
    let mut kept = match Kept::new(world, member, records) {
        Ok(kept) => kept.of_importer(),
        Err(refused) => return Ok(refuse(offer, refused)),
    };
    let is_unfamiliar = former::is_unfamiliar(&kept, &former) && imports.stand(world).await;
    if is_unfamiliar && !world.confirmed && !shows(world, member, sources).await {
        return Ok(Err(Refused::UnfamiliarRegistry));
    }
    let (mut report, failure) = kept.write_own(selection, options).await;
    if let Some(ExportOutcome::Failed(error) | ExportOutcome::HeldBack(error)) = failure {
        make(offer, Offer::Unrecorded);
        return Ok(Err(Refused::NoRecord(error)));
    }
    let has_cluster_record = kept.has_cluster_record();
    // Records of exports are those of another function, which publishes them and moves them to the present id.
    former.services.retain(|_, service| {
        service.instances.iter().flatten().all(|(id, _)| id == CLUSTER_RECORD)
    });
    if has_cluster_record && world.rules.policy == Policy::Sync && !former.services.is_empty() {
        report = report.with(former::take_away(world, &former, options).await);
    }
    let arn = world.owner.cluster.clone();
    let overlay = Overlay::new(arn, Desired::default(), Selection::nothing());
    // A plan writes none.
    let offered = if has_cluster_record {
        Offer::Exports { overlay: overlay.clone(), has_cluster_record }
    } else {
        Offer::Unrecorded
    };
    make(offer, offered);
    let (claimed, outcomes) = (Claimed::default(), BTreeMap::new());
    Ok(Ok(Exported { report, claimed, overlay, outcomes }))
}

/// Whether Cloud Map shows one of these members.
async fn shows(world: &World<'_>, member: &Member, sources: &BTreeSet<ClusterId>) -> bool {
    let Some(registry) = world.registry.known().await else { return false };
    let mut all = clustersets(&registry);
    let members = all.remove(&member.clusterset).unwrap_or_default();
    sources.iter().any(|source| *source != member.cluster && members.contains_key(source))
}
