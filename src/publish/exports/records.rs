//! The records of a member in Cloud Map. The records of ended exports are removed first, and those of exports are
//! written last. The first cluster record of a cluster is written before the records of its exports, and a full sync
//! renews its heartbeat. Each of these steps is a plan of its own, which is carried out like any other.
//!
//! A run that a person has confirmed takes the records over from another `OWNER_ID`. They are rewritten and not
//! removed, so no export is without a record at any time.
//!
//! Records under a former id of the cluster are removed once the records under the present id are written, so no export
//! is without a record at any time.

use std::collections::{BTreeMap, BTreeSet};

use super::outcome::{Obstacle, failures};
use crate::clusterset::conditions::ExportOutcome;
use crate::clusterset::id::{self, CLUSTER_RECORD};
use crate::clusterset::record::{self, ClusterRecord};
use crate::model::attributes::EMPTY;
use crate::model::{
    Attributes, Desired, Member, Owner, Place, Policy, Registry, Selection, ServiceKey, ServiceRef,
    SignedDuration, Timestamp,
};
use crate::publish::observe::ClusterRun;
use crate::publish::plan::{
    Change, DeregisterReason, Observation, Plan, WantedRecords, no_service,
};
use crate::publish::{Execution, Options, Published, Task};
use crate::report::{ClusterReport, Mode};

/// The age of a heartbeat after which a full sync writes it again.
const HEARTBEAT: SignedDuration = SignedDuration::from_mins(5);
/// The age of a heartbeat after which no run that wrote it is still in progress. From then on, the record of an
/// exporter without exports may become the record of a cluster that only imports, and the cluster may take another id.
const ABANDONED: SignedDuration = SignedDuration::from_mins(15);

/// Records by their ids, each with its Service.
pub(super) type RecordsById = BTreeMap<String, (ServiceRef, Attributes)>;

/// The records that a member has in Cloud Map.
pub(super) struct OwnRecords<'w> {
    pub(super) cluster_run: &'w ClusterRun<'w>,
    pub(super) member: &'w Member,
    pub(super) observation: Observation,
    pub(super) key: ServiceKey,
    /// Whether the member only imports.
    pub(super) only_imports: bool,
    /// Whether the run may take over records of the cluster from another `OWNER_ID`. A message may not: the cluster
    /// record, which shows who holds the id, may be older than its other reads.
    pub(super) may_take_over: bool,
    /// The records of the cluster under other ids, once they were read.
    pub(super) former: Registry,
    /// The outcome if the write of the first cluster record failed.
    pub(super) failure: Option<ExportOutcome>,
}

/// The result of writing records.
pub(super) struct Written {
    pub report: ClusterReport,
    pub outcomes: BTreeMap<ServiceRef, ExportOutcome>,
    /// Whether the cluster has its record under the present id, and no export under a former id waits for a retry of
    /// its record.
    pub may_remove_former_records: bool,
}

impl<'w> OwnRecords<'w> {
    /// # Errors
    /// Returns an error with the reason if the namespace of the records is ambiguous or cannot be created, if the
    /// records could not be read, or if another cluster or installation holds the id. If a person has confirmed the
    /// run, it takes the id over from another installation, but not from another cluster.
    pub(super) fn new(
        cluster_run: &'w ClusterRun<'w>,
        member: &'w Member,
        read: Option<(Observation, ServiceKey)>,
    ) -> Result<Self, Obstacle> {
        let namespace = record::namespace(&member.clusterset);
        let ambiguous = || Obstacle::AmbiguousNamespace(namespace.clone());
        let (observation, key) = read.ok_or_else(ambiguous)?;
        let exists = observation.registry.namespaces.get(&key.namespace);
        let exists = exists.is_some_and(|namespace| namespace.arn.is_some());
        if let Some(why) = observation.rules.obstacle_to_records(&namespace).filter(|_| !exists) {
            return Err(Obstacle::NoNamespace { namespace, why });
        }
        let service = observation.registry.services.get(&key);
        if let Some(problem) = service.and_then(|service| service.unreadable.clone()) {
            return Err(Obstacle::Unreadable(problem));
        }
        let own = observation.registry.instance(&key, CLUSTER_RECORD).map(Owner::of);
        // If there is no cluster record, another owner of an export record may be about to write one under this id.
        let claimant = || {
            let records = observation.registry.instances(&key);
            let owners = records.filter_map(|(_, record)| Owner::of(record));
            let is_of_other_cluster = |owner: &Owner| owner.cluster != cluster_run.owner.cluster;
            let others = owners
                .filter(|owner| is_of_other_cluster(owner) || owner.id != cluster_run.owner.id);
            let claimant = cluster_run.registry.first_writer(member);
            claimant.or_else(|| others.max_by_key(is_of_other_cluster)).map(Some)
        };
        match own.or_else(claimant) {
            Some(Some(id_owner)) if id_owner == cluster_run.owner => {}
            Some(Some(Owner { id: owner, cluster, .. }))
                if cluster == cluster_run.owner.cluster && !cluster_run.confirmed =>
            {
                let id = member.cluster.to_string();
                let cluster = cluster.to_string();
                return Err(Obstacle::OtherOwner { namespace, id, owner, cluster });
            }
            // A person has confirmed that this installation takes the id over.
            Some(Some(id_owner)) if id_owner.cluster == cluster_run.owner.cluster => {}
            Some(id_owner) => return Err(Obstacle::taken(&member.cluster, id_owner.as_ref())),
            None => {}
        }
        let former = Registry::default();
        let failure = None;
        Ok(Self {
            cluster_run,
            member,
            observation,
            key,
            only_imports: false,
            may_take_over: false,
            former,
            failure,
        })
    }

    /// Whether the cluster has its record under the id. One of another `OWNER_ID` does not count.
    pub(super) fn has_cluster_record(&self) -> bool {
        let record = self.observation.registry.instance(&self.key, CLUSTER_RECORD);
        record.is_some_and(|record| self.cluster_run.owner.owns(record))
    }

    /// Whether there is a record with this id, of any owner.
    pub(super) fn has_record(&self, id: &str) -> bool {
        self.observation.registry.instance(&self.key, id).is_some()
    }

    /// Returns the Services with a record that are no longer exported or are `denied`. A Service stays exported as long
    /// as the guard holds instances of it.
    pub(super) fn ended(
        &self,
        observed: &Observation,
        denied: &BTreeSet<ServiceRef>,
        plan: &Plan,
        selection: &Selection,
    ) -> BTreeSet<ServiceRef> {
        let exported = &observed.desired.services;
        let held = plan.guard.iter().filter(|guard| guard.verdict.state.holds());
        let held: BTreeSet<&ServiceRef> =
            held.flat_map(|guard| guard.verdict.losses().keys()).collect();
        let mut ended: BTreeSet<ServiceRef> = self.exports().collect();
        ended.retain(|service| {
            selection.contains(service)
                && (!exported.contains_key(service) || denied.contains(service))
                && !held.contains(service)
        });
        ended
    }

    /// The Services with a record.
    pub(super) fn exports(&self) -> impl Iterator<Item = ServiceRef> {
        let records = self.observation.our_instances_with_service(&self.key);
        records.filter(|record| record.id != CLUSTER_RECORD).map(|record| record.service)
    }

    /// Removes the records of ended exports.
    pub(super) async fn remove_ended(
        &mut self,
        ended: BTreeSet<ServiceRef>,
        options: Options,
    ) -> ClusterReport {
        self.change(RecordsById::new(), ended, options).await.0
    }

    /// Removes the attribute [`EMPTY`] from the records of exports for which the plan registers instances.
    pub(super) async fn mark_not_empty(&mut self, plan: &Plan, options: Options) -> ClusterReport {
        let registers = |service: &ServiceRef| {
            let mut changes = plan.changes.get(service).into_iter().flatten();
            changes.any(|change| matches!(change, Change::Register { .. }))
        };
        let empty = self.observation.registry.instances(&self.key).filter_map(|(id, record)| {
            let service = self.cluster_run.owner.service_of(record)?;
            let is_filled = record.get(EMPTY).is_some() && registers(&service);
            let mut record = record.clone();
            record.remove(EMPTY);
            is_filled.then(|| (id.clone(), (service, record)))
        });
        let marked_not_empty = empty.collect();
        self.change(marked_not_empty, BTreeSet::new(), options).await.0
    }

    /// Writes and removes records, and updates the observation accordingly. Also returns the outcomes of the records
    /// that failed, by the id of the record.
    async fn change(
        &mut self,
        wanted: RecordsById,
        ended: BTreeSet<ServiceRef>,
        options: Options,
    ) -> (ClusterReport, BTreeMap<String, ExportOutcome>) {
        if wanted.is_empty() && ended.is_empty() {
            return Default::default();
        }
        let records = WantedRecords { ended, ..self.records(wanted) };
        let mut published = self.apply(&records, options).await;
        let failures = failures(&published);
        let services = &mut self.observation.registry.services;
        services.append(&mut published.created);
        if let Some(service) = services.get_mut(&self.key) {
            let present = service.instances.get_or_insert_default();
            let WantedRecords { wanted, ended, .. } = records;
            let owner = &self.cluster_run.owner;
            present.retain(|_, record| {
                !owner.service_of(record).is_some_and(|service| ended.contains(&service))
            });
            let written = wanted.into_iter().filter(|(id, _)| !failures.contains_key(id));
            present.extend(written.map(|(id, (_, record))| (id, record)));
        }
        (published.report, failures)
    }

    fn records(&self, wanted: RecordsById) -> WantedRecords {
        let registry = &self.observation.registry;
        let place = Place::of(&self.key, registry);
        let in_one_group = !registry.services.contains_key(&self.key);
        let ended = BTreeSet::new();
        let owner = &self.cluster_run.owner;
        let is_of_other_owner_id = |record: &Attributes| {
            Owner::of(record)
                .is_some_and(|other| other.id != owner.id && other.cluster == owner.cluster)
        };
        let others = registry
            .instances(&self.key)
            .filter(|(_, record)| self.may_take_over && is_of_other_owner_id(record));
        let taken_over = others.map(|(id, _)| id.clone()).collect();
        WantedRecords { place, wanted, ended, in_one_group, taken_over }
    }

    async fn apply(&self, records: &WantedRecords, options: Options) -> Published {
        if records.wanted.contains_key(CLUSTER_RECORD) {
            self.cluster_run.registry.forget_cluster_record(&self.key);
        }
        let task = Task::Records(records);
        let execution = Execution::of_registry(task, self.cluster_run.registry, options);
        execution.carry_out(&self.observation).await
    }

    /// Writes the records of the exports whose outcome is `Exported`, and the cluster record if it is due. Completes
    /// the outcomes. The exports in `empty` have no endpoint in Cloud Map.
    pub(super) async fn write(
        &self,
        desired: &Desired,
        (mut outcomes, empty): (BTreeMap<ServiceRef, ExportOutcome>, &BTreeSet<ServiceRef>),
        selection: &Selection,
        options: Options,
    ) -> Written {
        let mut wanted = self.cluster_record(selection, options.now);
        let is_due = !wanted.is_empty();
        let exported = desired.services.iter().filter_map(|(service, published)| {
            let is_exported = matches!(outcomes.get(service)?, ExportOutcome::Exported(_));
            is_exported.then_some((service, &published.export.as_ref()?.export))
        });
        let records: Vec<_> = self.records_that_fit(exported, empty).collect();
        for (service, record) in records {
            let outcome = outcomes.get_mut(service);
            match (record, outcome) {
                (Ok((record, remark)), Some(ExportOutcome::Exported(remarks))) => {
                    let separator = if remarks.is_empty() { "" } else { "; " };
                    remarks.extend(remark.map(|remark| format!("{separator}{remark}")));
                    wanted.insert(id::export_record(service), (service.clone(), record));
                }
                (Err(reason), Some(outcome)) => *outcome = ExportOutcome::HeldBack(reason),
                _ => {}
            }
        }
        if self.failure.is_some() {
            wanted.clear();
        }
        let published = self.apply(&self.records(wanted), options).await;
        let failures = failures(&published);
        let cluster_failure = self.failure.as_ref().or_else(|| failures.get(CLUSTER_RECORD));
        for (service, outcome) in &mut outcomes {
            let id = id::export_record(service);
            if let ExportOutcome::Exported(_) = outcome
                && let Some(failure) = failures.get(&id).or(cluster_failure)
            {
                *outcome = failure.clone();
            }
            let is_unwritten =
                !matches!(outcome, ExportOutcome::Exported(_) | ExportOutcome::Invalid(_));
            if is_unwritten && self.has_record(&id) {
                let outcome_of_run = std::mem::replace(outcome, ExportOutcome::TimeRanOut);
                *outcome = ExportOutcome::AsBefore(Box::new(outcome_of_run));
            }
        }
        let has_cluster_record = self.has_cluster_record() || is_due && cluster_failure.is_none();
        let is_to_retry = |service: &ServiceRef| {
            matches!(
                outcomes.get(service),
                Some(ExportOutcome::Failed(_) | ExportOutcome::TimeRanOut)
            )
        };
        let may_remove_former_records =
            has_cluster_record && !self.former_exports().any(|service| is_to_retry(&service));
        Written { report: published.report, outcomes, may_remove_former_records }
    }
}

// The cluster record, and the records that the cluster has under its former ids.

impl OwnRecords<'_> {
    /// Writes the cluster record of a cluster that has none, or takes it over from another `OWNER_ID`. If the write
    /// fails, another cluster may own the id, with records of the same names, so no other record is written.
    ///
    /// # Errors
    /// As for [`Self::write_own`].
    pub(super) async fn introduce(
        &mut self,
        selection: &Selection,
        options: Options,
    ) -> Result<ClusterReport, Obstacle> {
        if options.mode != Mode::Sync || self.has_cluster_record() {
            return Ok(ClusterReport::default());
        }
        let (report, failure) = self.write_own(selection, options).await?;
        self.failure = failure;
        Ok(report)
    }

    /// Writes the cluster record if it is due. Also returns the outcome if the record was not written.
    ///
    /// # Errors
    /// Returns an error with the owner of the id if another cluster has taken the id since the read, such as a second
    /// new cluster of the run. Also returns an error if the record could be neither written nor read again, or could
    /// not be taken over.
    pub(super) async fn write_own(
        &mut self,
        selection: &Selection,
        options: Options,
    ) -> Result<(ClusterReport, Option<ExportOutcome>), Obstacle> {
        let wanted = self.cluster_record(selection, options.now);
        // Cloud Map may not yet show the record of another cluster of this run.
        let claimant = self.cluster_run.registry.reserve_id(self.member, &self.cluster_run.owner);
        if claimant != self.cluster_run.owner {
            return Err(Obstacle::taken(&self.member.cluster, Some(&claimant)));
        }
        let (report, mut failures) = self.change(wanted, BTreeSet::new(), options).await;
        let failure = failures.remove(CLUSTER_RECORD);
        if failure.is_none() && self.has_cluster_record() {
            self.cluster_run.registry.record_id_owner(self.member, &self.cluster_run.owner);
        }
        if let Some(failure) = &failure
            && self.has_record(CLUSTER_RECORD)
            && !self.has_cluster_record()
        {
            // The id is still another installation's.
            let (_, problem) = failure.problem().unwrap_or_default();
            return Err(Obstacle::NoRecord(problem));
        }
        if failure.is_some() {
            let read = self.cluster_run.observe_records(None, self.member, None).await?;
            let again = Self::new(self.cluster_run, self.member, read);
            if let Err(taken @ Obstacle::ClusterIdTaken { .. }) = again {
                return Err(taken);
            }
        }
        Ok((report, failure))
    }

    /// The cluster record, if it has to be written.
    fn cluster_record(&self, selection: &Selection, now: Timestamp) -> RecordsById {
        let Some(present) = self.present() else {
            return self.own_record(self.only_imports, now);
        };
        if present.owner != self.cluster_run.owner {
            // Exports of the former owner stay until its purge, and a member that only imports has none.
            return self.own_record(self.only_imports && present.only_imports, now);
        }
        let mut instances = self.observation.registry.instances(&self.key);
        let age = now.duration_since(present.heartbeat);
        let is_due = match (present.only_imports, self.only_imports) {
            // Another function may publish exports of this cluster.
            (false, true) => age > ABANDONED && instances.all(|(id, _)| id == CLUSTER_RECORD),
            (true, true) => false,
            (true, false) => true,
            (false, false) => age > HEARTBEAT && *selection == Selection::Everything,
        };
        if is_due || present.clusterset != self.member.clusterset {
            self.own_record(self.only_imports, now)
        } else {
            RecordsById::new()
        }
    }

    fn own_record(&self, only_imports: bool, heartbeat: Timestamp) -> RecordsById {
        let owner = self.cluster_run.owner.clone();
        let clusterset = self.member.clusterset.clone();
        let record = ClusterRecord { owner, clusterset, heartbeat, only_imports };
        RecordsById::from([(CLUSTER_RECORD.to_owned(), (no_service(), record.write()))])
    }

    /// The cluster record as it is in Cloud Map, if it can be read.
    fn present(&self) -> Option<ClusterRecord> {
        let attributes = self.observation.registry.instance(&self.key, CLUSTER_RECORD)?;
        ClusterRecord::parse(attributes).ok()
    }

    /// Another id under which the cluster has a record.
    pub(super) fn former_id(&self) -> Option<String> {
        Some(self.former.services.values().next()?.name.clone())
    }

    /// Whether the cluster has exports under this id, as far as their records were read.
    pub(super) fn has_exports(&self) -> bool {
        self.exports().next().is_some()
    }

    /// The exports of the cluster under other ids. A cluster with such exports has to keep that id.
    pub(super) fn former_exports(&self) -> impl Iterator<Item = ServiceRef> {
        let records = self.former.services.keys().flat_map(|key| self.former.instances(key));
        let records = records.filter(|(id, _)| *id != CLUSTER_RECORD);
        records.filter_map(|(_, record)| self.cluster_run.owner.service_of(record))
    }

    /// Whether a run under another id may still be in progress, with exports that have no record yet.
    pub(super) fn has_recent_former_record(&self) -> bool {
        let former = &self.former;
        let records = former.services.keys().filter_map(|key| former.instance(key, CLUSTER_RECORD));
        let mut heartbeats =
            records.filter_map(|record| Some(ClusterRecord::parse(record).ok()?.heartbeat));
        heartbeats.any(|heartbeat| self.cluster_run.now.duration_since(heartbeat) < ABANDONED)
    }

    /// Removes the records of the cluster under other ids, or plans the removal. A cluster that has exports only under
    /// other ids, or has imports but no record under its present id, has an obstacle before this. A message removes
    /// no records, since it relies on an id that the process read some time ago.
    pub(super) async fn remove_former_records(
        &self,
        selection: &Selection,
        options: Options,
    ) -> ClusterReport {
        let Self { cluster_run, former, .. } = self;
        let is_whole = *selection == Selection::Everything;
        if !is_whole || cluster_run.rules.policy != Policy::Sync || former.services.is_empty() {
            return ClusterReport::default();
        }
        let task = Task::Purge(&DeregisterReason::ClusterIdChanged);
        let execution = Execution::of_registry(task, cluster_run.registry, options);
        let observation = Observation::new(
            cluster_run.owner.clone(),
            cluster_run.rules.clone(),
            cluster_run.now,
            former.clone(),
        );
        execution.carry_out(&observation).await.report
    }
}
