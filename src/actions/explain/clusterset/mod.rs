//! The part of an explanation about a clusterset: the export and the import of one name, in one member. It reads what a
//! targeted sync of the name reads, plans both, and writes nothing. The other members are as Cloud Map has them.
//!
//! `answer` has it as data, with the `exporter`s and the `endpoint`s, and `text` prints it.

mod answer;
mod endpoint;
mod exporter;
mod text;

use crate::clusterset::conditions::{ExportOutcome, ObservedExport, conditions_to_apply};
use crate::error::chain;
use crate::import::OwnRecord;
use crate::import::sources::{Allows, Members, MergedName};
use crate::model::{Condition, Selection, ServiceExport, ServiceRef, Timestamp};
use crate::publish::exports::Exported;
use crate::publish::observe::{Served, SharedRegistry};
use crate::publish::plan::{self, Observed, Plan};
use crate::reconcile::{Invocation, Joined};
use crate::report::Obstacle;
use crate::settings::Cluster;

pub use answer::ClustersetExplanation;
pub use endpoint::{ImportFate, ImportedLine};
pub use exporter::ExporterLine;

/// The clusterset part of an explanation, and the export in Cloud Map with its plan.
#[derive(Default)]
pub(super) struct Explained {
    pub(super) answer: ClustersetExplanation,
    /// The instances of the export.
    pub(super) instances: Option<(Observed, Plan)>,
}

/// All that is known about the name.
struct Facts<'a> {
    name: &'a ServiceRef,
    joined: &'a Joined,
    export: Option<&'a ServiceExport>,
    outcome: Option<&'a ExportOutcome>,
    known: &'a MergedName,
    members: &'a Members<'a>,
    allows: Allows<'a>,
    now: Timestamp,
}

impl Invocation<'_> {
    /// Explains a name in its clusterset. `None` if the cluster takes part in none.
    pub(super) async fn explain_clusterset(
        &self,
        cluster: &Cluster,
        registry: &SharedRegistry,
        name: &ServiceRef,
    ) -> Option<Explained> {
        let selection = Selection::service(name.clone());
        let joined = match self.join(cluster, &selection).await? {
            Ok(joined) => joined,
            Err(obstacle) => return Some(Explained::refused(&obstacle)),
        };
        let explained = self.explain_member((cluster, &joined), registry, name, &selection).await;
        Some(explained.unwrap_or_else(|obstacle| Explained::refused(&obstacle)))
    }

    async fn explain_member(
        &self,
        (cluster, joined): (&Cluster, &Joined),
        registry: &SharedRegistry,
        name: &ServiceRef,
        selection: &Selection,
    ) -> Result<Explained, Obstacle> {
        let failed = |error: &dyn std::error::Error| Obstacle {
            reason: "Unreadable".into(),
            detail: chain(error),
            failed: true,
        };
        let exported = self.export_alone((cluster, joined), registry, selection).await?;
        let clusterset = &joined.member.clusterset;
        let own = exported.iter().map(|it| (joined.member.cluster.clone(), it.overlay.clone()));
        let own_record = |_| (joined.member.cluster.clone(), joined.arn().clone());
        let members = exported.iter().map(own_record).collect();
        let served = Served { overlays: own.collect(), members, is_fresh: true };
        let read = registry.read_clusterset(clusterset, selection.names(), &served).await;
        let read = read.map_err(|error| failed(&*error))?;
        let overlay = served.overlays;
        let lifetimes = self.lifetimes(overlay.keys().cloned().collect());
        let allows = |namespace: &str, it| self.allows(joined, namespace, it);
        let members = Members::new(&read.registry, clusterset, &overlay, &lifetimes);
        let members = if read.has_all_members { members } else { members.may_lack_members() };
        let known = members.known(name, (joined.arn(), &allows));
        let imported = self.import(joined, &members, (true, OwnRecord::Unknown)).await;
        let facts = Facts {
            name,
            joined,
            export: exported.as_ref().and_then(|it| it.exports().get(name)),
            outcome: exported.as_ref().and_then(|it| it.outcomes.get(name)),
            known: &known,
            members: &members,
            allows: &allows,
            now: self.now,
        };
        let answer = ClustersetExplanation::new(&facts, &self.settings.owner_id, imported);
        let is_exported = |it: &Exported| it.overlay.desired.services.contains_key(name);
        let instances = match &exported {
            Some(exported) if is_exported(exported) => {
                let world = self.exporting(cluster, joined, registry);
                let observed = world.observe(selection).await.map_err(|error| failed(&error))?;
                let plan = plan::plan(observed.basis());
                Some((observed, plan))
            }
            _ => None,
        };
        Ok(Explained { answer, instances })
    }
}

impl Explained {
    fn refused(obstacle: &Obstacle) -> Self {
        Self { answer: ClustersetExplanation::refused(obstacle), instances: None }
    }
}

impl Facts<'_> {
    /// The conditions that a sync would write, if they differ from those of the export.
    fn conditions_to_come(&self) -> Vec<Condition> {
        let (Some(export), Some(outcome)) = (self.export, self.outcome) else { return Vec::new() };
        let observed =
            ObservedExport { generation: export.generation, conditions: &export.conditions };
        conditions_to_apply(observed, outcome, self.known.merged.as_deref(), self.now)
            .unwrap_or_default()
    }
}
