//! Asynchronous operations: accepted at once, done later. Nothing runs in the background: the next access to the state
//! completes the operations that are due, in order of their time. So the same calls at the same times give the same
//! registry, also with tokio's clock paused.
//!
//! The effect of an asynchronous operation when it ends. It can fail at that time only, since the registry may have
//! changed after it was accepted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::input::Input;
use super::resource::{DnsConfig, Instance, Namespace, NamespaceKind};
use super::state::State;
use super::wire::{ApiError, Checked};

/// What an operation works on.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Targets {
    pub namespace: String,
    pub service: Option<String>,
    pub instance: Option<String>,
}

impl Targets {
    pub fn instance(namespace: &str, service: &str, instance: &str) -> Self {
        let [namespace, service, instance] = [namespace, service, instance].map(str::to_owned);
        Self { namespace, service: Some(service), instance: Some(instance) }
    }
}

/// How an operation is to end against its effect: an ErrorCode with its text.
#[derive(Clone)]
pub struct Failure {
    pub code: &'static str,
    pub message: String,
}

impl Failure {
    /// The thing to change went away meanwhile.
    /// Assumed (code_of_a_registration_in_a_deleted_service): INTERNAL_FAILURE.
    pub fn gone(id: &str) -> Self {
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
pub struct Operation {
    pub effect: Effect,
    pub targets: Targets,
    pub creator_request_id: Option<String>,
    pub submitted: Instant,
    begins: Instant,
    due: Option<Instant>,
    pub failure: Option<Failure>,
    settled: bool,
}

impl Operation {
    /// The status and since when it is so.
    pub fn status(&self, now: Instant) -> (&'static str, Instant) {
        match (self.settled, self.due, &self.failure) {
            (true, Some(due), Some(_)) => ("FAIL", due),
            (true, Some(due), None) => ("SUCCESS", due),
            _ if now >= self.begins => ("PENDING", self.begins),
            _ => ("SUBMITTED", self.submitted),
        }
    }

    /// When it ended well.
    pub fn succeeded(&self) -> Option<Instant> {
        self.due.filter(|_| self.settled && self.failure.is_none())
    }
}

/// All operations since the start, and which of them are in flight.
#[derive(Default)]
pub struct Operations {
    all: BTreeMap<String, Operation>,
    in_flight: BTreeSet<(Option<Instant>, u64, String)>,
    /// Which operation in flight works on what.
    busy: BTreeMap<Targets, String>,
    /// Which operation worked on it last, and when that ended.
    last: BTreeMap<Targets, (String, Instant)>,
    accepted: u64,
    /// What the next accepted operation is to suffer.
    pub next: Option<Fate>,
}

/// A fault that shows only in the operation.
pub enum Fate {
    Fails(&'static str),
    Denied(&'static str),
    Hangs,
}

impl Operations {
    /// Accepts an operation that takes `delay`.
    pub fn accept(
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
    pub fn busy(&self, targets: &Targets) -> Option<&String> {
        self.busy.get(targets)
    }

    /// The last operation on these targets that has ended, and when.
    pub fn last(&self, targets: &Targets) -> Option<&(String, Instant)> {
        self.last.get(targets)
    }

    /// The operations that have not ended.
    pub fn in_flight(&self) -> impl Iterator<Item = (&String, &Operation)> {
        self.in_flight.iter().map(|(_, _, id)| (id, &self.all[id]))
    }

    /// All operations by id.
    pub fn all(&self) -> &BTreeMap<String, Operation> {
        &self.all
    }

    /// One operation, to write down why it failed after all.
    pub fn get_mut(&mut self, id: &str) -> Option<&mut Operation> {
        self.all.get_mut(id)
    }

    /// Ends the operations that would never end, as failed.
    pub fn end_hanging(&mut self, now: Instant) {
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
    pub fn settle_next(&mut self, now: Instant) -> Option<(String, Instant)> {
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

impl State {
    pub fn get_operation(&mut self, input: Input<'_>) -> Checked<Value> {
        let id = input.text("OperationId", 255)?;
        let asked = input.optional_text("OwnerAccount", 12)?.unwrap_or(&self.account);
        let operation = self.operations.all().get(id);
        let operation = operation
            .filter(|operation| self.owner_of(&operation.targets.namespace) == asked)
            .ok_or_else(|| ApiError::missing("OperationNotFound", id))?;
        let (status, since) = operation.status(self.now);
        let mut shown = json!({
            "Id": id,
            "OwnerAccount": self.owner_of(&operation.targets.namespace),
            "Type": operation.effect.word(),
            "Status": status,
            "CreateDate": self.timestamp(operation.submitted),
            "UpdateDate": self.timestamp(since),
            "Targets": show_targets(&operation.targets),
        });
        if let Some(failure) = operation.failure.as_ref().filter(|_| status == "FAIL") {
            shown["ErrorCode"] = json!(failure.code);
            shown["ErrorMessage"] = json!(failure.message);
        }
        Ok(json!({ "Operation": shown }))
    }
}

fn show_targets(targets: &Targets) -> BTreeMap<&'static str, &str> {
    let service = targets.service.as_deref().map(|id| ("SERVICE", id));
    let instance = targets.instance.as_deref().map(|id| ("INSTANCE", id));
    [("NAMESPACE", targets.namespace.as_str())].into_iter().chain(service).chain(instance).collect()
}

/// What an operation changes when it succeeds.
#[derive(Clone)]
pub enum Effect {
    CreateNamespace(Box<Namespace>),
    DeleteNamespace,
    UpdateService {
        description: Option<String>,
        dns: Option<DnsConfig>,
        health_check: Option<Value>,
    },
    /// `adds`: the id was free when the registration was accepted.
    Register {
        instance: Arc<Instance>,
        adds: bool,
    },
    Deregister,
}

impl Effect {
    /// The operation's type in the API's words.
    pub fn word(&self) -> &'static str {
        match self {
            Self::CreateNamespace(_) => "CREATE_NAMESPACE",
            Self::DeleteNamespace => "DELETE_NAMESPACE",
            Self::UpdateService { .. } => "UPDATE_SERVICE",
            Self::Register { .. } => "REGISTER_INSTANCE",
            Self::Deregister => "DEREGISTER_INSTANCE",
        }
    }

    /// The call that began it, as DuplicateRequest names it.
    pub fn call(&self) -> &'static str {
        match self {
            Self::CreateNamespace(namespace) => match namespace.kind {
                NamespaceKind::Http => "CreateHttpNamespace",
                NamespaceKind::DnsPrivate => "CreatePrivateDnsNamespace",
                NamespaceKind::DnsPublic => "CreatePublicDnsNamespace",
            },
            Self::DeleteNamespace => "DeleteNamespace",
            Self::UpdateService { .. } => "UpdateService",
            Self::Register { .. } => "RegisterInstance",
            Self::Deregister => "DeregisterInstance",
        }
    }
}

impl State {
    /// Does what an operation was accepted for, as of `ended`.
    pub fn apply(
        &mut self,
        effect: Effect,
        targets: &Targets,
        ended: Instant,
    ) -> Result<(), Failure> {
        let service = targets.service.as_deref().unwrap_or_default();
        let instance = targets.instance.as_deref().unwrap_or_default();
        match effect {
            Effect::CreateNamespace(namespace) => {
                self.finish_create_namespace(&targets.namespace, *namespace, ended)
            }
            Effect::DeleteNamespace => self.finish_delete_namespace(&targets.namespace, ended),
            Effect::UpdateService { description, dns, health_check } => {
                self.finish_update_service(service, description, dns, health_check)
            }
            Effect::Register { instance: new, .. } => {
                self.finish_register(service, instance, new, ended)
            }
            Effect::Deregister => self.finish_deregister(service, instance, ended),
        }
    }
}
