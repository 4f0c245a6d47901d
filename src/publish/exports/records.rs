//! The records of a member, written and taken away in their order.

use std::collections::{BTreeMap, BTreeSet};

use super::Refused;
use super::outcome::{Stands, failures};
use crate::clusterset::conditions::ExportOutcome;
use crate::clusterset::id::{self, CLUSTER_RECORD};
use crate::clusterset::metadata;
use crate::clusterset::record::{self, ClusterRecord, ExportRecord, Record, WrittenExport};
use crate::model::attributes::SIGHTING;
use crate::model::clusterset::{Export, Member};
use crate::model::{
    Attributes, Place, Selection, ServiceKey, ServiceName, ServiceRef, SignedDuration, Timestamp,
};
use crate::publish::observe::World;
use crate::publish::plan::{Basis, Holders, Observation, Observed, Records, no_service, plan};
use crate::publish::{Options, Published, Task, carry_out};
use crate::report::ClusterReport;

/// The age at which a full sync writes the heartbeat again.
const HEARTBEAT: SignedDuration = SignedDuration::from_mins(5);
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
}

/// The result of writing records.
pub(super) struct Written {
    pub(super) report: ClusterReport,
    pub(super) outcomes: BTreeMap<ServiceRef, ExportOutcome>,
    /// Whether the cluster has its own record now.
    pub(super) has_cluster_record: bool,
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
                Ok(Some(Record::Cluster(record))) => {
                    format!(
                        "cluster {} of the installation {}",
                        record.owner.cluster, record.owner.id
                    )
                }
                _ => "an owner whose record cannot be read".to_owned(),
            };
            let id = member.cluster.to_string();
            return Err(Refused::ClusterIdTaken { id, holder });
        }
        let name = ServiceName::parse(member.cluster.as_str());
        let name = name.map_err(|error| Refused::Unreadable(error.to_string()))?;
        Ok(Self { world, member, observation, key, name })
    }

    pub(super) fn has_cluster_record(&self) -> bool {
        self.has_record(CLUSTER_RECORD)
    }

    fn has_record(&self, id: &str) -> bool {
        self.observation.registry.instance(&self.key, id).is_some()
    }

    /// The Services with a record that are not exported any more. A Service of which the guard holds instances is
    /// exported until they go.
    pub(super) fn ended(&self, observed: &Observed, selection: &Selection) -> BTreeSet<ServiceRef> {
        let exported = &observed.observation.desired.services;
        let is_gone =
            |service: &ServiceRef| selection.contains(service) && !exported.contains_key(service);
        let records = self.observation.marked(&self.key);
        let of_exports = records.filter(|record| record.id != CLUSTER_RECORD);
        let mut ended: BTreeSet<ServiceRef> =
            of_exports.map(|record| record.service).filter(is_gone).collect();
        if ended.is_empty() {
            return ended;
        }
        let plan = plan(observed.basis());
        let held = plan.guard.iter().filter(|guard| guard.state.holds());
        let held: BTreeSet<&ServiceRef> =
            held.flat_map(|guard| guard.losses.iter().map(|loss| &loss.service)).collect();
        ended.retain(|service| !held.contains(service));
        ended
    }

    fn records(
        &self,
        wanted: BTreeMap<String, (ServiceRef, Attributes)>,
        ended: BTreeSet<ServiceRef>,
    ) -> Records {
        let place = Place::of(&self.key, &self.observation.registry);
        Records { place, name: self.name.clone(), wanted, ended, taken_off: Vec::new() }
    }

    async fn apply(&self, records: &Records, options: Options) -> Published {
        if records.wanted.contains_key(CLUSTER_RECORD) {
            self.world.registry.forget_cluster_record(&self.key);
        }
        let (observation, holders) = (&self.observation, &Holders::default());
        let basis = Basis { observation, holders, affected: &BTreeSet::new() };
        carry_out(&Task::Records(self.world.registry, records), basis, options).await
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

    /// The cluster's own record, if it is to be written: there is none, or in a full sync its heartbeat is old.
    fn cluster_record(&self, selection: &Selection, now: Timestamp) -> Option<Attributes> {
        let present = self.observation.registry.instance(&self.key, CLUSTER_RECORD);
        let present = present.map(|it| record::read(&self.member.cluster, CLUSTER_RECORD, it));
        let is_due = match present {
            Some(Ok(Some(Record::Cluster(record)))) => {
                let is_old = now.duration_since(record.heartbeat) > HEARTBEAT;
                *selection == Selection::Everything && is_old
                    || record.clusterset != self.member.clusterset
            }
            _ => true,
        };
        let (owner, clusterset) = (self.world.owner.clone(), self.member.clusterset.clone());
        is_due.then(|| ClusterRecord { owner, clusterset, heartbeat: now }.write())
    }

    /// Writes a note about a loss of imports to the record of the cluster, or takes it off.
    pub(super) async fn note(&self, text: Option<String>, options: Options) -> ClusterReport {
        let (owner, clusterset) = (self.world.owner.clone(), self.member.clusterset.clone());
        let record = ClusterRecord { owner, clusterset, heartbeat: options.now };
        let mut attributes = record.write();
        let taken_off = if text.is_none() { vec![SIGHTING] } else { Vec::new() };
        attributes.extend(text.map(|text| (SIGHTING.to_owned(), text)));
        let wanted = BTreeMap::from([(CLUSTER_RECORD.to_owned(), (no_service(), attributes))]);
        let records = Records { taken_off, ..self.records(wanted, BTreeSet::new()) };
        self.apply(&records, options).await.report
    }

    /// Writes the records of the exports that stand and that of the cluster, and completes the outcomes.
    pub(super) async fn write(
        &self,
        observation: &Observation,
        stands: BTreeMap<ServiceRef, Stands>,
        (selection, options): (&Selection, Options),
    ) -> Written {
        let mut outcomes = BTreeMap::new();
        let mut wanted = BTreeMap::new();
        let mut messages = BTreeMap::new();
        let records = self.observation.marked(&self.key);
        let mut count = records.filter(|record| record.id != CLUSTER_RECORD).count();
        if let Some(attributes) = self.cluster_record(selection, options.now) {
            wanted.insert(CLUSTER_RECORD.to_owned(), (no_service(), attributes));
        }
        let writes_cluster_record = wanted.contains_key(CLUSTER_RECORD);
        for (service, stands) in stands {
            let message = match stands {
                Stands::Not(outcome) => {
                    outcomes.insert(service, outcome);
                    continue;
                }
                Stands::Exported(message) => message,
            };
            let published = observation.desired.services.get(&service);
            let Some(exported) = published.and_then(|it| it.export.as_ref()) else { continue };
            let id = id::export_record(&service);
            let is_new = !self.has_record(&id);
            if is_new && count >= MAXIMUM {
                let text = format!("TooManyExports: a cluster can have {MAXIMUM} exports");
                outcomes.insert(service, ExportOutcome::HeldBack(text));
                continue;
            }
            let (owner, export) = (self.world.owner.clone(), exported.export.clone());
            match (ExportRecord { owner, service: service.clone(), export }).write() {
                Ok(WrittenExport { attributes, lacks_labels }) => {
                    let left_out = left_out(&exported.export, lacks_labels);
                    let message: Vec<String> = Some(message)
                        .filter(|it| !it.is_empty())
                        .into_iter()
                        .chain(left_out)
                        .collect();
                    messages.insert(service.clone(), message.join("; "));
                    count += usize::from(is_new);
                    wanted.insert(id, (service, attributes));
                }
                Err(error) => {
                    let outcome = ExportOutcome::HeldBack(format!("ExportTooLarge: {error}"));
                    outcomes.insert(service, outcome);
                }
            }
        }
        let published = self.apply(&self.records(wanted, BTreeSet::new()), options).await;
        let failures = failures(&published);
        for (service, message) in messages {
            let outcome =
                failures.get(&id::export_record(&service)).or(failures.get(CLUSTER_RECORD));
            let outcome = outcome.cloned().unwrap_or(ExportOutcome::Exported(message));
            outcomes.insert(service, outcome);
        }
        let has_cluster_record = !failures.contains_key(CLUSTER_RECORD)
            && (self.has_cluster_record() || writes_cluster_record);
        Written { report: published.report, outcomes, has_cluster_record }
    }
}

/// A sentence about the labels and annotations of an export that its imports lack.
fn left_out(export: &Export, lacks_labels: bool) -> Option<String> {
    if lacks_labels {
        return Some("labels and annotations are left out, since they do not fit".to_owned());
    }
    export.properties.as_ref().and_then(metadata::left_out)
}
