//! The part of an explanation about a clusterset: the export and the import of one name, in one member. It reads what a
//! targeted sync of the name reads, plans both, and writes nothing. The other members are as Cloud Map has them.
//!
//! `answer` has it as data, with the `endpoint`s.

mod answer;
mod endpoint;

use crate::clusterset::conditions::{ExportOutcome, conditions_to_apply};
use crate::import::OwnRecord;
use crate::import::sources::{Members, MergedName};
use crate::model::{Condition, Selection, ServiceExport, ServiceRef, Timestamp};
use crate::publish::exports::Exported;
use crate::publish::observe::{Served, SharedRegistry};
use crate::publish::plan::{self, Observed, Plan};
use crate::reconcile::{Invocation, Joined, unread};
use crate::report::Obstacle;
use crate::settings::Cluster;

pub use answer::{ClustersetExplanation, ExporterLine};
pub use endpoint::{ImportFate, ImportedLine};

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
    joined: &'a Joined<'a>,
    export: Option<&'a ServiceExport>,
    outcome: Option<&'a ExportOutcome>,
    known: &'a MergedName,
    members: &'a Members<'a>,
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
        let explained = self.explain_member(&joined, registry, name).await;
        Some(explained.unwrap_or_else(|obstacle| Explained::refused(&obstacle)))
    }

    async fn explain_member(
        &self,
        joined: &Joined<'_>,
        registry: &SharedRegistry,
        name: &ServiceRef,
    ) -> Result<Explained, Obstacle> {
        let (clusterset, selection) = (&joined.member.clusterset, &joined.selection);
        let exported = joined.export(registry, selection, drop).await?;
        let own = exported.iter().map(|it| (joined.member.cluster.clone(), it.overlay.clone()));
        let own_record = |_| (joined.member.cluster.clone(), joined.arn().clone());
        let members = exported.iter().map(own_record).collect();
        let served = Served { overlays: own.collect(), members, is_fresh: true };
        let read = registry.read_clusterset(clusterset, selection.names(), &served).await;
        let read = read.map_err(|error| unread(&*error))?;
        let overlay = served.overlays;
        let lifetimes = self.lifetimes(overlay.keys().cloned().collect());
        let allows = |namespace: &str, it| joined.allows(namespace, it);
        let read = (&read.registry, read.has_all_members);
        let members = Members::new(read, clusterset, &overlay, &lifetimes);
        let known = members.known(name, (joined.arn(), &allows));
        let imported = joined.import(&members, (true, OwnRecord::Unknown)).await;
        let facts = Facts {
            name,
            joined,
            export: exported.as_ref().and_then(|it| it.exports().get(name)),
            outcome: exported.as_ref().and_then(|it| it.outcomes.get(name)),
            known: &known,
            members: &members,
            now: self.now,
        };
        let answer = ClustersetExplanation::new(&facts, &self.settings.owner_id, imported);
        let is_exported = |it: &Exported| it.overlay.desired.services.contains_key(name);
        let instances = match &exported {
            Some(exported) if is_exported(exported) => {
                let observed = joined.exporting(registry).observe(selection).await;
                let observed = observed.map_err(|error| unread(&error))?;
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
        conditions_to_apply(export, outcome, self.known.merged.as_deref(), self.now)
            .unwrap_or_default()
    }
}
