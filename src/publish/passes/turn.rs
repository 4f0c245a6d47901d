//! The turn of one Kubernetes Service, or of several that wait for each other.

use std::collections::{BTreeMap, BTreeSet};

use super::record::Record;
use super::{Effect, Outcome, Results};
use crate::model::{CloudMapService, Desired, ServiceKey, ServiceRef};
use crate::publish::plan::{Change, Intent, Observation, Reason, Refused, RereadScope, Stage};

/// The reason for a change that is not tried near the deadline.
pub const NO_TIME: &str = "the time of this invocation is used up";

/// The next step of a turn.
#[derive(Debug)]
pub enum Step {
    /// Make these changes, side by side, and report the effect of each.
    Make(Vec<Change>),
    /// Read this again: the named Cloud Map services, then the Services with their endpoints.
    Read(RereadScope),
    /// Read the endpoints of these Services again.
    ReadEndpoints(Desired),
    Done,
}

/// The changes of one turn, on their way.
#[derive(Clone, Debug)]
pub struct Turn<'a> {
    pub(super) intent: Intent<'a>,
    pub(super) services: BTreeSet<ServiceRef>,
    /// The Cloud Map services that were read for the first plan; `None` means all.
    pub(super) keys: Option<BTreeSet<ServiceKey>>,
    /// Whether the run is about a part of the cluster.
    pub(super) is_part: bool,
    pub(super) observation: Observation,
    /// The changes that are planned and not made yet.
    pub(super) open: Vec<Change>,
    /// The Cloud Map services that this turn created.
    pub(super) created: BTreeSet<ServiceKey>,
    /// The changes that conflicted with another writer.
    pub(super) contested: Vec<Change>,
    /// Registrations that were left out, since their endpoints have changed.
    pub(super) outdated: Vec<Change>,
    /// Registrations for which Cloud Map had no capacity.
    pub(super) refused: Vec<Change>,
    /// The Cloud Map services that may have other settings than this process remembers, with the pass that found it.
    pub(super) doubted: BTreeMap<ServiceKey, usize>,
    pub(super) pass: usize,
    /// Whether a change was carried out in this pass.
    pub(super) progress: bool,
    /// Services of which an endpoint was deregistered and might be back.
    pub(super) removed: BTreeSet<ServiceRef>,
    /// Whether the endpoints were read once more after the removals.
    pub(super) rechecked: bool,
    pub(super) record: Record,
}

impl<'a> Turn<'a> {
    /// A turn that makes `changes`, planned on `observation`, in which the Cloud Map services under `keys` were read,
    /// `None` for all; `is_part` is whether the run is about a part of the cluster.
    pub(super) fn new(
        intent: Intent<'a>,
        observation: Observation,
        (keys, is_part): (Option<BTreeSet<ServiceKey>>, bool),
        changes: BTreeMap<ServiceRef, Vec<Change>>,
    ) -> Self {
        let services = changes.keys().cloned().collect();
        let mut record = Record::default();
        let open = record.announce(changes);
        Self {
            intent,
            services,
            keys,
            is_part,
            created: BTreeSet::new(),
            observation,
            open,
            contested: Vec::new(),
            outdated: Vec::new(),
            refused: Vec::new(),
            doubted: BTreeMap::new(),
            pass: 1,
            progress: false,
            removed: BTreeSet::new(),
            rechecked: false,
            record,
        }
    }

    /// The last observation, with the changes made since.
    pub fn observation(&self) -> &Observation {
        &self.observation
    }

    /// The changes that are planned and not made yet.
    pub fn open(&self) -> &[Change] {
        &self.open
    }

    /// The Services that changes are made for, as they were read last.
    pub fn made_for(&self, changes: &[Change]) -> Desired {
        self.observation.desired_of(changes.iter().map(|change| self.record.service(change)))
    }

    /// The outcomes of the turn, once it is over.
    pub fn into_results(self) -> Results {
        self.record.results
    }

    /// The next step; `has_time` is whether something new may begin.
    pub fn next(&mut self, has_time: bool) -> Step {
        if !has_time {
            self.close(false);
            return Step::Done;
        }
        if let Some(changes) = self.take_due() {
            return Step::Make(changes);
        }
        if let Some(scope) = self.next_read() {
            // A Cloud Map service that another writer changes or has replaced is read as if it were new.
            for change in &self.contested {
                let key = &change.place().key;
                if change.stage() == Stage::Update || self.doubted.contains_key(key) {
                    self.observation.registry.services.remove(key);
                }
            }
            return Step::Read(scope);
        }
        if let Some(services) = self.take_rechecked() {
            return Step::ReadEndpoints(self.observation.desired_of(services.iter()));
        }
        self.close(true);
        Step::Done
    }

    /// From now on the service of a creation exists, without an instance.
    fn note_created(&mut self, creation: &Change, arn: String) {
        let Change::CreateService { place, service } = creation else { return };
        let mut created = CloudMapService::created(arn, service.name.as_str(), service.kind);
        created.custom_health = service.custom_health;
        self.record.results.created.insert(place.key.clone(), created.clone());
        self.observation.registry.services.insert(place.key.clone(), created);
    }

    /// The services that another writer had created first, as they were read since.
    pub(super) fn note_found(&mut self) {
        let creations = self.contested.iter().filter(|it| it.stage() == Stage::Create);
        for key in creations.map(|creation| &creation.place().key) {
            if let Some(service) = self.observation.registry.services.get(key) {
                self.record.results.created.insert(key.clone(), service.clone());
            }
        }
    }

    /// Whether the service of a refused registration has to be read anew. A sync of single Services remembers its
    /// settings, and one that is created again under its name comes back with its id: its records may be others.
    fn doubts(&mut self, change: &Change, outcome: &Outcome) -> bool {
        let Outcome::HeldBack(Reason::InvalidInput(_) | Reason::RecordTypeMismatch { .. }) =
            outcome
        else {
            return false;
        };
        if !self.is_part || !change.is_registration() || self.rechecked {
            return false;
        }
        let first = self.doubted.entry(change.place().key.clone()).or_insert(self.pass);
        *first == self.pass
    }

    /// Leaves out a change that was refused before, with the outcome that it had then.
    pub fn leave(&mut self, change: Change, refused: Refused) {
        match refused {
            Refused::HeldBack(reason) => self.settle(change, Outcome::HeldBack(reason)),
            Refused::Full(message) => self.record(change, Effect::Full(message)),
        }
    }

    /// Records the effect of a change.
    pub fn record(&mut self, change: Change, effect: Effect) {
        match effect {
            Effect::Is(outcome) if self.doubts(&change, &outcome) => self.contested.push(change),
            Effect::Is(outcome) => self.settle(change, outcome),
            Effect::Contested => self.contested.push(change),
            Effect::Outdated => self.outdated.push(change),
            Effect::Created(arn) => {
                self.note_created(&change, arn);
                self.created.insert(change.place().key.clone());
                self.settle(change, Outcome::Applied);
            }
            // It is no change of this turn. Others register there, so it is read again like every other service.
            Effect::Exists(arn) => self.note_created(&change, arn),
            // Cloud Map says so of an instance that needs no further place, so the capacity cannot show the reason.
            Effect::Full(message) if !matches!(change, Change::Register { .. }) => {
                self.settle(change, Outcome::HeldBack(Reason::QuotaExceeded(message)));
            }
            Effect::Full(message) => {
                let (key, capacity) =
                    (&change.place().key, &mut self.observation.registry.capacity);
                // The registrations of one pass are under way together: only a later one took a freed place.
                if capacity.refusal(key).is_none() || self.pass > 1 {
                    capacity.refuse(&key.namespace, &message);
                }
                self.refused.push(change);
            }
        }
    }
}
