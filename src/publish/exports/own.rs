//! The record of a cluster itself, and those that it has under ids of before: the first one is written before those of its
//! exports, a full sync writes the heartbeat again, and the former ones go at the end.

use std::collections::BTreeSet;

use super::outcome::Refused;
use super::records::{Kept, RecordsById};
use crate::clusterset::conditions::ExportOutcome;
use crate::clusterset::id::CLUSTER_RECORD;
use crate::clusterset::record::{self, ClusterRecord};
use crate::model::attributes::SIGHTING;
use crate::model::{
    Attributes, Member, Policy, Registry, Selection, ServiceRef, SignedDuration, Timestamp,
};
use crate::publish::observe::World;
use crate::publish::plan::{DeregisterReason, Observation, WantedRecords, no_service};
use crate::publish::{Execution, Options, Task};
use crate::report::{ClusterReport, Mode};

/// The age at which a full sync writes the heartbeat again.
const HEARTBEAT: SignedDuration = SignedDuration::from_mins(5);
/// The age at which the record of a cluster that exported, and has no exports, becomes that of one that only imports.
const ABANDONED: SignedDuration = SignedDuration::from_mins(15);

impl Kept<'_> {
    /// Writes the record of a cluster that has none. Until Cloud Map shows it the id may be another cluster's, with records of
    /// the same names, so no other one is written then.
    ///
    /// # Errors
    /// As for [`Self::write_own`].
    pub(super) async fn introduce(
        &mut self,
        selection: &Selection,
        options: Options,
    ) -> Result<ClusterReport, Refused> {
        if options.mode != Mode::Sync || self.has_cluster_record() {
            return Ok(ClusterReport::default());
        }
        let (report, failure) = self.write_own(selection, options).await?;
        self.failure = failure;
        Ok(report)
    }

    /// Writes the record of the cluster if it is due. Returns the outcome if it was refused, too.
    ///
    /// # Errors
    /// Returns the holder of the id if its record came after the read: of two new clusters that state one id, in one run.
    pub(super) async fn write_own(
        &mut self,
        selection: &Selection,
        options: Options,
    ) -> Result<(ClusterReport, Option<ExportOutcome>), Refused> {
        let wanted = self.cluster_record(selection, options.now);
        // Of two clusters of one run the second one may not be shown yet that the first one has written its record.
        let claimant = self.world.registry.claim(self.member, &self.world.owner);
        if claimant != self.world.owner {
            return Err(Refused::taken(&self.member.cluster, Some(&claimant)));
        }
        let (report, mut failures) = self.change(wanted, BTreeSet::new(), options).await;
        let failure = failures.remove(CLUSTER_RECORD);
        if failure.is_some() {
            let read = self.world.observe_records(None, self.member, None).await?;
            let again = Self::new(self.world, self.member, read, &Selection::nothing()).await;
            if let Err(taken @ Refused::ClusterIdTaken { .. }) = again {
                return Err(taken);
            }
        }
        Ok((report, failure))
    }

    /// The cluster's own record, if it is to be written.
    pub(super) fn cluster_record(&self, selection: &Selection, now: Timestamp) -> RecordsById {
        let mut instances = self.observation.registry.instances(&self.key);
        let is_due = self.present().is_none_or(|present| {
            let age = now.duration_since(present.heartbeat);
            let is_due = match (present.only_imports, self.only_imports) {
                // Another function may publish exports of this cluster.
                (false, true) => age > ABANDONED && instances.all(|(id, _)| id == CLUSTER_RECORD),
                (true, true) => false,
                (true, false) => true,
                (false, false) => age > HEARTBEAT && *selection == Selection::Everything,
            };
            is_due || present.clusterset != self.member.clusterset
        });
        if is_due { self.own_record(self.only_imports, now) } else { RecordsById::new() }
    }

    fn own_record(&self, only_imports: bool, heartbeat: Timestamp) -> RecordsById {
        let (owner, clusterset) = (self.world.owner.clone(), self.member.clusterset.clone());
        let record = ClusterRecord { owner, clusterset, heartbeat, only_imports };
        RecordsById::from([(CLUSTER_RECORD.to_owned(), (no_service(), record.write()))])
    }

    /// The cluster's own record as it is in Cloud Map, if it can be read.
    fn present(&self) -> Option<ClusterRecord> {
        let attributes = self.observation.registry.instance(&self.key, CLUSTER_RECORD)?;
        ClusterRecord::parse(attributes).ok()
    }

    /// Writes a note about a loss of imports to the record of the cluster, or takes it off.
    pub(super) async fn note(&self, text: Option<String>, options: Options) -> ClusterReport {
        let only_imports = self.present().is_some_and(|present| present.only_imports);
        let mut wanted = self.own_record(only_imports, options.now);
        let taken_off = if text.is_none() { vec![SIGHTING] } else { Vec::new() };
        for (_, record) in wanted.values_mut() {
            record.extend(text.iter().map(|text| (SIGHTING.to_owned(), text.clone())));
        }
        let records = WantedRecords { taken_off, ..self.records(wanted) };
        self.apply(&records, options).await.report
    }

    /// The Services with a record under another id of the member that are not exported any more.
    pub(super) fn ended_under_former_ids(&self, observed: &Observation) -> BTreeSet<ServiceRef> {
        let Self { world, former, .. } = self;
        let records = former.services.keys().flat_map(|key| former.instances(key));
        let services = records.filter_map(|(_, record)| world.owner.service_of(record));
        services.filter(|it| !observed.desired.services.contains_key(it)).collect()
    }

    /// Takes the records under other ids away, those of exports first, or plans it. That of an export that `has_none`
    /// under the present id, and is to have one, stays, and those of an importing function are moved by the one that
    /// publishes. Instances that the policy leaves under such an id count by its records.
    pub(super) async fn take_former_away(
        &mut self,
        has_none: impl Fn(&ServiceRef) -> bool,
        options: Options,
    ) -> ClusterReport {
        let Self { world, former, only_imports, .. } = self;
        let stays = |id: &str, record: &Attributes| {
            let mut service = world.owner.service_of(record).into_iter();
            id != CLUSTER_RECORD && (*only_imports || service.any(|it| has_none(&it)))
        };
        for instances in former.services.values_mut().filter_map(|it| it.instances.as_mut()) {
            if instances.iter().any(|(id, record)| stays(id, record)) {
                instances.retain(|id, record| id != CLUSTER_RECORD && !stays(id, record));
            }
        }
        let mut report = ClusterReport::default();
        if world.rules.policy != Policy::Sync || former.services.is_empty() {
            return report;
        }
        let task = Task::Purge(&DeregisterReason::ClusterIdChanged);
        let execution = Execution::of_registry(task, world.registry, options);
        for registry in record::parts(former) {
            let (owner, rules) = (world.owner.clone(), world.rules.clone());
            let observation = Observation::new(owner, rules, world.now, registry);
            report = report.with(execution.carry_out(&observation).await.report);
        }
        report
    }
}

/// The records under other ids of the member. A sync of a few Services does not look for them.
pub(super) async fn former(world: &World<'_>, member: &Member, selection: &Selection) -> Registry {
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
