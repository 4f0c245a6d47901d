//! The records of a member, as they are in Cloud Map: those of ended exports are taken away first, and those of exports
//! are written last (`write`). Each of both is a plan of its own, which is carried out like any other.

mod write;

use std::collections::{BTreeMap, BTreeSet};

use super::Refused;
use super::outcome::failures;
use crate::clusterset::conditions::ExportOutcome;
use crate::clusterset::id::CLUSTER_RECORD;
use crate::clusterset::record::{self, ClusterRecord, Record};
use crate::model::attributes::{EMPTY, SIGHTING};
use crate::model::clusterset::Member;
use crate::model::{
    Attributes, Place, Selection, ServiceKey, ServiceName, ServiceRef, SignedDuration, Timestamp,
};
use crate::publish::observe::World;
use crate::publish::plan::{
    Basis, Change, Holders, Observation, Observed, Plan, Records, no_service,
};
use crate::publish::{Options, Published, Task, carry_out};
use crate::report::{ClusterReport, Mode};

pub(super) use write::Written;

/// The age at which a full sync writes the heartbeat again.
const HEARTBEAT: SignedDuration = SignedDuration::from_mins(5);
/// The age at which the record of a cluster that exported, and has no exports, becomes that of one that only imports.
const ABANDONED: SignedDuration = SignedDuration::from_mins(15);
/// The number of exports of a cluster: a Cloud Map service has 1,000 instances, and one is the cluster's own record.
pub const MAXIMUM: usize = 999;

/// The records that a member has in Cloud Map.
pub(super) struct Kept<'w> {
    world: &'w World<'w>,
    member: &'w Member,
    observation: Observation,
    key: ServiceKey,
    /// The name of the Cloud Map service: the cluster id.
    name: ServiceName,
    /// Whether the member only imports.
    only_imports: bool,
}

impl<'w> Kept<'w> {
    /// # Errors
    /// Returns the reason if the records could not be read, or another cluster or installation holds the id.
    pub(super) fn new(
        world: &'w World<'w>,
        member: &'w Member,
        read: Option<(Observation, ServiceKey)>,
    ) -> Result<Self, Refused> {
        let ambiguous = || Refused::AmbiguousNamespace(record::namespace(&member.clusterset));
        let (observation, key) = read.ok_or_else(ambiguous)?;
        let namespace = record::namespace(&member.clusterset);
        let exists = observation.registry.namespaces.get(&key.namespace);
        let exists = exists.is_some_and(|namespace| namespace.arn.is_some());
        if let Some(why) = observation.rules.obstacle_to_records(&namespace).filter(|_| !exists) {
            return Err(Refused::NoNamespace { namespace, why });
        }
        let service = observation.registry.services.get(&key);
        if let Some(problem) = service.and_then(|service| service.unreadable.clone()) {
            return Err(Refused::Unreadable(problem));
        }
        if let Some(attributes) = observation.registry.instance(&key, CLUSTER_RECORD)
            && !world.owner.owns(attributes)
        {
            let holder = match record::read(&member.cluster, CLUSTER_RECORD, attributes) {
                Ok(Some(Record::Cluster(ClusterRecord { owner, .. })))
                    if owner.cluster == world.owner.cluster =>
                {
                    let id = member.cluster.to_string();
                    return Err(Refused::OtherOwner { namespace, id, owner: owner.id });
                }
                Ok(Some(Record::Cluster(record))) => Some(record.owner),
                _ => None,
            };
            return Err(Refused::taken(&member.cluster, holder.as_ref()));
        }
        let name = ServiceName::parse(member.cluster.as_str());
        let name = name.map_err(|error| Refused::Unreadable(error.to_string()))?;
        Ok(Self { world, member, observation, key, name, only_imports: false })
    }

    /// The same of a member that only imports.
    pub(super) fn of_importer(self) -> Self {
        Self { only_imports: true, ..self }
    }

    pub(super) fn has_cluster_record(&self) -> bool {
        self.has_record(CLUSTER_RECORD)
    }

    fn has_record(&self, id: &str) -> bool {
        self.observation.registry.instance(&self.key, id).is_some()
    }

    /// Writes the record of a new member before anything else of it.
    pub(super) async fn introduce(
        &mut self,
        selection: &Selection,
        options: Options,
    ) -> ClusterReport {
        if options.mode != Mode::Sync || self.has_cluster_record() {
            return ClusterReport::default();
        }
        self.write_own(selection, options).await.0
    }

    /// Writes the record of the cluster if it is due. Returns the outcome if it was refused, too.
    pub(super) async fn write_own(
        &mut self,
        selection: &Selection,
        options: Options,
    ) -> (ClusterReport, Option<ExportOutcome>) {
        let Some(record) = self.cluster_record(selection, options.now) else {
            return Default::default();
        };
        let wanted = (CLUSTER_RECORD.to_owned(), (no_service(), record.clone()));
        let records = self.records(BTreeMap::from([wanted]), BTreeSet::new());
        let mut published = self.apply(&records, options).await;
        let services = &mut self.observation.registry.services;
        services.append(&mut published.created);
        let failure = failures(&published).remove(CLUSTER_RECORD);
        if failure.is_none()
            && let Some(service) = services.get_mut(&self.key)
        {
            let instances = service.instances.get_or_insert_default();
            instances.insert(CLUSTER_RECORD.to_owned(), record);
        }
        (published.report, failure)
    }

    /// The Services with a record that are not exported any more. A Service of which the guard holds instances is
    /// exported until they go.
    pub(super) fn ended(
        &self,
        observed: &Observed,
        plan: &Plan,
        selection: &Selection,
    ) -> BTreeSet<ServiceRef> {
        let exported = &observed.observation.desired.services;
        let is_gone =
            |service: &ServiceRef| selection.contains(service) && !exported.contains_key(service);
        let records = self.observation.marked(&self.key);
        let of_exports = records.filter(|record| record.id != CLUSTER_RECORD);
        let held = plan.guard.iter().filter(|guard| guard.state.holds());
        let held: BTreeSet<&ServiceRef> =
            held.flat_map(|guard| guard.losses.iter().map(|loss| &loss.service)).collect();
        let ended = of_exports.map(|record| record.service).filter(is_gone);
        ended.filter(|service| !held.contains(service)).collect()
    }

    fn records(
        &self,
        wanted: BTreeMap<String, (ServiceRef, Attributes)>,
        ended: BTreeSet<ServiceRef>,
    ) -> Records {
        let place = Place::of(&self.key, &self.observation.registry);
        let in_one_turn = !self.observation.registry.services.contains_key(&self.key);
        let name = self.name.clone();
        Records { place, name, wanted, ended, in_one_turn, taken_off: Vec::new() }
    }

    async fn apply(&self, records: &Records, options: Options) -> Published {
        if records.wanted.contains_key(CLUSTER_RECORD) {
            self.world.registry.forget_cluster_record(&self.key);
        }
        let (observation, holders) = (&self.observation, &Holders::default());
        let basis = Basis { observation, holders, affected: &BTreeSet::new() };
        carry_out(&Task::Records(self.world.registry, records), basis, options).await
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
        let wanted: BTreeMap<_, _> = empty.collect();
        if wanted.is_empty() {
            return ClusterReport::default();
        }
        let records = self.records(wanted, BTreeSet::new());
        let published = self.apply(&records, options).await;
        let failures = failures(&published);
        let service = self.observation.registry.services.get_mut(&self.key);
        if let Some(present) = service.and_then(|service| service.instances.as_mut()) {
            let written = records.wanted.into_iter().filter(|(id, _)| !failures.contains_key(id));
            present.extend(written.map(|(id, (_, record))| (id, record)));
        }
        published.report
    }

    /// Takes the records of ended exports away.
    pub(super) async fn take_away(
        &mut self,
        ended: &BTreeSet<ServiceRef>,
        options: Options,
    ) -> ClusterReport {
        if ended.is_empty() {
            return ClusterReport::default();
        }
        let records = self.records(BTreeMap::new(), ended.clone());
        let report = self.apply(&records, options).await.report;
        if let Some(service) = self.observation.registry.services.get_mut(&self.key) {
            let owner = &self.world.owner;
            let instances = service.instances.iter_mut();
            instances.for_each(|all| {
                all.retain(|_, it| !owner.service_of(it).is_some_and(|it| ended.contains(&it)));
            });
        }
        report
    }

    /// The cluster's own record, if it is to be written.
    fn cluster_record(&self, selection: &Selection, now: Timestamp) -> Option<Attributes> {
        let record = self.own_record(now);
        let is_due = self.present().is_none_or(|present| {
            let age = now.duration_since(present.heartbeat);
            let is_due = match (present.only_imports, self.only_imports) {
                // Another function may publish exports of this cluster.
                (false, true) => age > ABANDONED && !self.has_exports(),
                (true, true) => false,
                (true, false) => true,
                (false, false) => age > HEARTBEAT && *selection == Selection::Everything,
            };
            is_due || present.clusterset != record.clusterset
        });
        is_due.then(|| record.write())
    }

    fn own_record(&self, heartbeat: Timestamp) -> ClusterRecord {
        ClusterRecord {
            owner: self.world.owner.clone(),
            clusterset: self.member.clusterset.clone(),
            heartbeat,
            only_imports: self.only_imports,
        }
    }

    /// The cluster's own record as it is in Cloud Map, if it can be read.
    fn present(&self) -> Option<ClusterRecord> {
        let attributes = self.observation.registry.instance(&self.key, CLUSTER_RECORD)?;
        match record::read(&self.member.cluster, CLUSTER_RECORD, attributes) {
            Ok(Some(Record::Cluster(record))) => Some(record),
            _ => None,
        }
    }

    fn has_exports(&self) -> bool {
        self.observation.registry.instances(&self.key).any(|(id, _)| id != CLUSTER_RECORD)
    }

    /// Writes a note about a loss of imports to the record of the cluster, or takes it off.
    pub(super) async fn note(&self, text: Option<String>, options: Options) -> ClusterReport {
        let only_imports = self.present().is_some_and(|present| present.only_imports);
        let record = ClusterRecord { only_imports, ..self.own_record(options.now) };
        let mut attributes = record.write();
        let taken_off = if text.is_none() { vec![SIGHTING] } else { Vec::new() };
        attributes.extend(text.map(|text| (SIGHTING.to_owned(), text)));
        let wanted = BTreeMap::from([(CLUSTER_RECORD.to_owned(), (no_service(), attributes))]);
        let records = Records { taken_off, ..self.records(wanted, BTreeSet::new()) };
        self.apply(&records, options).await.report
    }
}
