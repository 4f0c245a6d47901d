//! Asynchronous operations: accepted at once, done later. Nothing runs in the background: the next access to the state
//! completes the operations that are due, in order of their time. So the same calls at the same times give the same
//! registry, also with tokio's clock paused.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::effect::Effect;

/// What an operation works on.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Targets {
    pub(super) namespace: String,
    pub(super) service: Option<String>,
    pub(super) instance: Option<String>,
}

/// How an operation is to end against its effect: an ErrorCode with its text.
#[derive(Clone)]
pub(super) struct Failure {
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Failure {
    /// The thing to change went away meanwhile.
    /// Assumed (code_of_a_registration_in_a_deleted_service): INTERNAL_FAILURE.
    pub(super) fn gone(id: &str) -> Self {
        Self { code: "INTERNAL_FAILURE", message: format!("{id} does not exist any more") }
    }

    /// Route 53 refused the caller a right.
    fn denied(right: &str) -> Self {
        let user = "arn:aws:sts::111122223333:assumed-role/cloud-map-sync/cloud-map-sync";
        let message = format!("User: {user} is not authorized to perform: {right}");
        Self { code: "ACCESS_DENIED", message }
    }

    /// The service came back and did not go on with the operation.
    /// Assumed (no case): the code INTERNAL_FAILURE, since an outage of AWS cannot be asked for.
    fn given_up() -> Self {
        Self { code: "INTERNAL_FAILURE", message: "the operation was given up".to_owned() }
    }
}

/// One operation.
pub(super) struct Operation {
    pub(super) effect: Effect,
    pub(super) targets: Targets,
    pub(super) creator_request_id: Option<String>,
    pub(super) submitted: Instant,
    begins: Instant,
    due: Option<Instant>,
    pub(super) failure: Option<Failure>,
    settled: bool,
}

impl Operation {
    /// The status and since when it is so.
    pub(super) fn status(&self, now: Instant) -> (&'static str, Instant) {
        match (self.settled, self.due, &self.failure) {
            (true, Some(due), Some(_)) => ("FAIL", due),
            (true, Some(due), None) => ("SUCCESS", due),
            _ if now >= self.begins => ("PENDING", self.begins),
            _ => ("SUBMITTED", self.submitted),
        }
    }

    /// When it ended well.
    pub(super) fn succeeded(&self) -> Option<Instant> {
        self.due.filter(|_| self.settled && self.failure.is_none())
    }
}

/// All operations since the start, and which of them are in flight.
#[derive(Default)]
pub(super) struct Operations {
    all: BTreeMap<String, Operation>,
    in_flight: BTreeSet<(Option<Instant>, u64, String)>,
    /// Which operation in flight works on what.
    busy: BTreeMap<Targets, String>,
    /// Which operation worked on it last, and when that ended.
    last: BTreeMap<Targets, (String, Instant)>,
    accepted: u64,
    /// What the next accepted operation is to suffer.
    pub(super) next: Option<Fate>,
}

/// A fault that shows only in the operation.
pub(super) enum Fate {
    Fails(&'static str),
    Denied(&'static str),
    Hangs,
}

impl Operations {
    /// Accepts an operation that takes `delay`.
    pub(super) fn accept(
        &mut self,
        id: String,
        effect: Effect,
        targets: Targets,
        creator_request_id: Option<&str>,
        (now, delay): (Instant, Duration),
    ) -> String {
        let fate = self.next.take();
        let failure = match fate {
            Some(Fate::Fails(code)) => {
                Some(Failure { code, message: format!("The operation failed: {code}") })
            }
            Some(Fate::Denied(right)) => Some(Failure::denied(right)),
            _ => None,
        };
        let due = (!matches!(fate, Some(Fate::Hangs))).then_some(now + delay);
        self.accepted += 1;
        self.in_flight.insert((due, self.accepted, id.clone()));
        self.busy.insert(targets.clone(), id.clone());
        let operation = Operation {
            effect,
            targets,
            creator_request_id: creator_request_id.map(str::to_owned),
            submitted: now,
            begins: now + delay / 3,
            due,
            failure,
            settled: false,
        };
        self.all.insert(id.clone(), operation);
        id
    }

    /// The operation in flight on these targets.
    pub(super) fn busy(&self, targets: &Targets) -> Option<&String> {
        self.busy.get(targets)
    }

    /// The last operation on these targets that has ended, and when.
    pub(super) fn last(&self, targets: &Targets) -> Option<&(String, Instant)> {
        self.last.get(targets)
    }

    /// The operations that have not ended.
    pub(super) fn in_flight(&self) -> impl Iterator<Item = (&String, &Operation)> {
        self.in_flight.iter().map(|(_, _, id)| (id, &self.all[id]))
    }

    /// All operations by id.
    pub(super) fn all(&self) -> &BTreeMap<String, Operation> {
        &self.all
    }

    /// One operation, to write down why it failed after all.
    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut Operation> {
        self.all.get_mut(id)
    }

    /// Ends the operations that would never end, as failed.
    pub(super) fn end_hanging(&mut self, now: Instant) {
        let hangs = |(due, _, _): &(Option<Instant>, u64, String)| due.is_none();
        for (_, number, id) in self.in_flight.extract_if(.., hangs).collect::<Vec<_>>() {
            if let Some(operation) = self.all.get_mut(&id) {
                operation.due = Some(now);
                operation.failure = Some(Failure::given_up());
            }
            self.in_flight.insert((Some(now), number, id));
        }
    }

    /// Ends the next operation that is due by `now` and gives its id and when it ended.
    pub(super) fn settle_next(&mut self, now: Instant) -> Option<(String, Instant)> {
        let entry =
            self.in_flight.iter().find(|(due, _, _)| due.is_some_and(|due| due <= now))?.clone();
        self.in_flight.remove(&entry);
        let (due, _, id) = entry;
        let operation = self.all.get_mut(&id)?;
        operation.settled = true;
        self.busy.remove(&operation.targets);
        self.last.insert(operation.targets.clone(), (id.clone(), due?));
        Some((id, due?))
    }
}
