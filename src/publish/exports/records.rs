//! The records of a member, as they are in Cloud Map: those of ended exports are taken away first, and those of exports
//! are written last; `own` is that of the cluster itself. Each of both is a plan of its own, which is carried out like any other.
//!
//! Records under an id that the cluster had before go once everything has its record under the present id: at no time is
//! an export without one.

use std::collections::{BTreeMap, BTreeSet};

use super::outcome::{Refused, failures};
use super::own;
use crate::clusterset::conditions::ExportOutcome;
use crate::clusterset::id::{self, CLUSTER_RECORD};
use crate::clusterset::record::{self, ExportRecord};
use crate::model::attributes::EMPTY;
use crate::model::{
    Attributes, Desired, Export, Member, Owner, Place, Registry, Selection, ServiceKey, ServiceRef,
};
use crate::publish::observe::World;
use crate::publish::plan::{Change, Observation, Plan, WantedRecords};
use crate::publish::{Execution, Options, Published, Task};
use crate::report::ClusterReport;

/// The number of exports of a cluster: a Cloud Map service has 1,000 instances, and one is the cluster's own record.
pub const MAXIMUM: usize = 999;

/// Records by their ids, each with its Service.
pub(super) type RecordsById = BTreeMap<String, (ServiceRef, Attributes)>;

/// The records that a member has in Cloud Map.
pub(super) struct Kept<'w> {
    pub(super) world: &'w World<'w>,
    pub(super) member: &'w Member,
    pub(super) observation: Observation,
    pub(super) key: ServiceKey,
    /// Whether the member only imports.
    pub(super) only_imports: bool,
    /// The records under other ids of the member.
    pub(super) former: Registry,
    /// The outcome of the first record of the cluster if it is not certain.
    pub(super) failure: Option<ExportOutcome>,
}

/// The result of writing records.
pub(super) struct Written {
    pub report: ClusterReport,
    pub outcomes: BTreeMap<ServiceRef, ExportOutcome>,
    /// Whether the cluster has its own record now.
    pub has_cluster_record: bool,
}

impl<'w> Kept<'w> {
    /// # Errors
    /// Returns the reason if the records could not be read, or another cluster or installation holds the id.
    pub(super) async fn new(
        world: &'w World<'w>,
        member: &'w Member,
        read: Option<(Observation, ServiceKey)>,
        selection: &Selection,
    ) -> Result<Self, Refused> {
        let namespace = record::namespace(&member.clusterset);
        let ambiguous = || Refused::AmbiguousNamespace(namespace.clone());
        let (observation, key) = read.ok_or_else(ambiguous)?;
        let exists = observation.registry.namespaces.get(&key.namespace);
        let exists = exists.is_some_and(|namespace| namespace.arn.is_some());
        if let Some(why) = observation.rules.obstacle_to_records(&namespace).filter(|_| !exists) {
            return Err(Refused::NoNamespace { namespace, why });
        }
        let service = observation.registry.services.get(&key);
        if let Some(problem) = service.and_then(|service| service.unreadable.clone()) {
            return Err(Refused::Unreadable(problem));
        }
        let own = observation.registry.instance(&key, CLUSTER_RECORD).map(Owner::of);
        // Without one the id may be that of a cluster whose record is under way.
        let claimant = || {
            let records = observation.registry.instances(&key);
            let mut others = records.filter_map(|(_, record)| Owner::of(record));
            let claimant = world.registry.claimant(member);
            claimant.or_else(|| others.find(|it| it.cluster != world.owner.cluster)).map(Some)
        };
        match own.or_else(claimant) {
            Some(Some(holder)) if holder == world.owner => {}
            Some(Some(Owner { id: owner, cluster, .. })) if cluster == world.owner.cluster => {
                let id = member.cluster.to_string();
                return Err(Refused::OtherOwner { namespace, id, owner });
            }
            Some(holder) => return Err(Refused::taken(&member.cluster, holder.as_ref())),
            None => {}
        }
        let former = own::former(world, member, selection).await;
        let (only_imports, failure) = (false, None);
        Ok(Self { world, member, observation, key, only_imports, former, failure })
    }

    pub(super) fn has_cluster_record(&self) -> bool {
        self.has_record(CLUSTER_RECORD)
    }

    fn has_record(&self, id: &str) -> bool {
        self.observation.registry.instance(&self.key, id).is_some()
    }

    /// Whether this may be another Cloud Map than that of the member's imports: it has no record of the cluster, under
    /// any id.
    pub(super) fn is_unfamiliar(&self) -> bool {
        !self.has_cluster_record() && self.former.services.is_empty()
    }

    /// The Services with a record that are not exported any more, or are `denied`. A Service of which the guard holds
    /// instances is exported until they go.
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
    fn exports(&self) -> impl Iterator<Item = ServiceRef> {
        let records = self.observation.marked(&self.key);
        records.filter(|record| record.id != CLUSTER_RECORD).map(|record| record.service)
    }

    /// Takes the records of ended exports away.
    pub(super) async fn take_away(
        &mut self,
        ended: BTreeSet<ServiceRef>,
        options: Options,
    ) -> ClusterReport {
        self.change(RecordsById::new(), ended, options).await.0
    }

    /// Takes back that these exports have no endpoints in Cloud Map: they get some.
    pub(super) async fn fill(&mut self, plan: &Plan, options: Options) -> ClusterReport {
        let registers = |service: &ServiceRef| {
            let mut changes = plan.changes.get(service).into_iter().flatten();
            changes.any(|change| matches!(change, Change::Register { .. }))
        };
        let empty = self.observation.registry.instances(&self.key).filter_map(|(id, record)| {
            let service = self.world.owner.service_of(record)?;
            let is_filled = record.get(EMPTY).is_some() && registers(&service);
            let mut record = record.clone();
            record.remove(EMPTY);
            is_filled.then(|| (id.clone(), (service, record)))
        });
        let filled = empty.collect();
        self.change(filled, BTreeSet::new(), options).await.0
    }

    /// Changes records, and knows them then as they are. Also returns the outcomes of those that failed.
    pub(super) async fn change(
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
            let owner = &self.world.owner;
            present.retain(|_, it| !owner.service_of(it).is_some_and(|it| ended.contains(&it)));
            let written = wanted.into_iter().filter(|(id, _)| !failures.contains_key(id));
            present.extend(written.map(|(id, (_, record))| (id, record)));
        }
        (published.report, failures)
    }

    pub(super) fn records(&self, wanted: RecordsById) -> WantedRecords {
        let place = Place::of(&self.key, &self.observation.registry);
        let in_one_turn = !self.observation.registry.services.contains_key(&self.key);
        let (ended, taken_off) = (BTreeSet::new(), Vec::new());
        WantedRecords { place, wanted, ended, in_one_turn, taken_off }
    }

    pub(super) async fn apply(&self, records: &WantedRecords, options: Options) -> Published {
        if records.wanted.contains_key(CLUSTER_RECORD) {
            self.world.registry.forget_cluster_record(&self.key);
        }
        let task = Task::Records(records);
        let execution = Execution::of_registry(task, self.world.registry, options);
        execution.carry_out(&self.observation).await
    }

    /// The exports without a record that get none, since there is no room or they do not fit: they count for no member.
    pub(super) fn refused(&self, desired: &Desired) -> BTreeSet<ServiceRef> {
        let exports = desired.services.iter();
        let exports = exports.filter_map(|(name, it)| Some((name, &it.export.as_ref()?.export)));
        let none = BTreeSet::new();
        let refused = self.fit(exports, &none).filter(|(_, record)| record.is_err());
        let refused = refused.map(|(service, _)| service.clone());
        refused.filter(|service| !self.has_record(&id::export_record(service))).collect()
    }

    /// The record of each of these exports with a remark about it, or the reason why it gets none.
    fn fit<'e>(
        &self,
        exports: impl Iterator<Item = (&'e ServiceRef, &'e Export)>,
        empty: &BTreeSet<ServiceRef>,
    ) -> impl Iterator<Item = (&'e ServiceRef, Result<(Attributes, Option<String>), String>)> {
        let mut count = self.exports().count();
        exports.map(move |(service, export)| {
            let is_new = !self.has_record(&id::export_record(service));
            if is_new && count >= MAXIMUM {
                let why = format!("TooManyExports: a cluster can have {MAXIMUM} exports");
                return (service, Err(why));
            }
            let record = ExportRecord {
                owner: self.world.owner.clone(),
                service: service.clone(),
                export: export.clone(),
                is_empty: empty.contains(service),
            };
            let written = record.write().map_err(|error| format!("ExportTooLarge: {error}"));
            count += usize::from(is_new && written.is_ok());
            let written = written.map(|attributes| (attributes, left_out(export)));
            (service, written)
        })
    }

    /// Writes the records of the exports that stand and that of the cluster if it is due, and completes the outcomes.
    /// Cloud Map has no endpoint of those that are `empty`.
    pub(super) async fn write(
        &self,
        desired: &Desired,
        (mut outcomes, empty): (BTreeMap<ServiceRef, ExportOutcome>, &BTreeSet<ServiceRef>),
        selection: &Selection,
        options: Options,
    ) -> Written {
        let mut wanted = self.cluster_record(selection, options.now);
        let is_due = !wanted.is_empty();
        let standing = desired.services.iter().filter_map(|(service, published)| {
            let stands = matches!(outcomes.get(service)?, ExportOutcome::Exported(_));
            stands.then_some((service, &published.export.as_ref()?.export))
        });
        let fitting: Vec<_> = self.fit(standing, empty).collect();
        for (service, record) in fitting {
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
        let of_cluster = self.failure.as_ref().or_else(|| failures.get(CLUSTER_RECORD));
        for (service, outcome) in &mut outcomes {
            let id = id::export_record(service);
            if let ExportOutcome::Exported(_) = outcome
                && let Some(failure) = failures.get(&id).or(of_cluster)
            {
                *outcome = failure.clone();
            }
            let is_left =
                !matches!(outcome, ExportOutcome::Exported(_) | ExportOutcome::Invalid(_));
            if is_left && self.has_record(&id) {
                let of_run = std::mem::replace(outcome, ExportOutcome::TimeRanOut);
                *outcome = ExportOutcome::AsBefore(Box::new(of_run));
            }
        }
        let has_cluster_record = self.has_cluster_record() || is_due && of_cluster.is_none();
        Written { report: published.report, outcomes, has_cluster_record }
    }
}

/// A sentence about the labels and annotations of an export that its imports lack.
fn left_out(export: &Export) -> Option<String> {
    if record::as_recorded(export) != *export {
        return Some("labels and annotations are left out, since they do not fit".to_owned());
    }
    export.properties.as_ref().and_then(record::left_out_metadata)
}
