//! Makes one change by one call, and returns its [`Effect`]. Nothing is decided here: each answer of Cloud Map only
//! becomes the effect of the change. A rule against a wrong change belongs in the plan. A Cloud Map service is created
//! together with the namespace that it needs, by separate calls.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use crate::cloud_map::{
    Accepted, AdmissionSlots, Call, CallSlot, Class, CloudMap, Created, Error, NewServiceId,
    SharedResults, WaitResult,
};
use crate::model::{NamespaceKind, NewService, Outcome, Place};
use crate::publish::group::{Effect, GroupSync};
use crate::publish::plan::{Change, NotAdopted, Reason, Stage, with_note};
use crate::time::Deadline;

const NO_RIGHTS_IN_DNS: &str = "; the function's role may not change this in Route 53: deploy with this hosted zone in HostedZoneIds";

/// The maximum number of calls of one group in flight: if Cloud Map answers none of them, other groups still make
/// calls.
const MAX_CALLS_IN_FLIGHT: usize = 16;

/// The calls of one group.
pub struct GroupCalls<'a> {
    pub cloud_map: &'a CloudMap,
    pub results: &'a SharedResults,
    /// No new call begins after this time.
    pub deadline: Deadline,
    /// The start of the read that shows which Cloud Map services exist.
    pub observed: Instant,
    /// No addition begins after this time.
    pub until: Instant,
    pub group: &'a GroupSync<'a>,
    in_flight: Semaphore,
    /// Whether another run had an operation in progress on the same object when a call was made.
    has_conflict: AtomicBool,
}

impl<'a> GroupCalls<'a> {
    pub fn new(
        cloud_map: &'a CloudMap,
        results: &'a SharedResults,
        deadline: Deadline,
        observed: Instant,
        until: Instant,
        group: &'a GroupSync<'a>,
    ) -> Self {
        let in_flight = Semaphore::new(MAX_CALLS_IN_FLIGHT);
        let has_conflict = AtomicBool::new(false);
        Self { cloud_map, results, deadline, observed, until, group, in_flight, has_conflict }
    }

    /// Makes one change. Frees its admission slot when the call has its token.
    pub async fn make(&self, change: &Change, admission: AdmissionSlots) -> Effect {
        let Some(call) = call_of(change) else {
            return Box::pin(self.create_missing(change, admission)).await;
        };
        let key = &change.place().key;
        let observation = &self.group.observation;
        let Some(service) = observation.registry.services.get(key) else {
            return self.group.without_service(key);
        };
        // If the plan already knew that the namespace is full, this registration replaces an instance that its Service
        // has deregistered.
        let is_new = matches!(change, Change::Register { .. });
        if is_new
            && observation.registry.capacity.refusal(key).is_none()
            && let Some(message) = self.results.full_namespaces.refusal(&key.namespace)
        {
            return Effect::Full(message);
        }
        let acquire = async {
            // The semaphore is never closed, so there is no error to handle.
            let in_flight = self.in_flight.acquire().await.ok();
            (in_flight, self.cloud_map.acquire(call).await)
        };
        let is_addition = change.stage() == Stage::Register && !change.is_removal();
        let until = if is_addition { self.until } else { self.deadline.stop };
        let acquired = self.deadline.until_stop(timeout_at(until, acquire)).await;
        let (in_flight, slot) = match acquired {
            Ok(Ok(slots)) if self.deadline.is_open() => slots,
            Ok(Err(_)) if is_addition && self.deadline.is_open() => return Effect::Outdated,
            _ => return Effect::Settled(Outcome::out_of_time()),
        };
        drop(admission);
        if is_addition && self.has_conflict.load(Ordering::Relaxed) {
            return Effect::Contested;
        }
        let ready = ReadyCall { call, arn: &service.arn, slot, in_flight };
        let made = self.make_call(change, ready);
        self.deadline.until_end(made).await.unwrap_or_else(|_| timed_out(change))
    }

    /// Creates a namespace, or a service with the namespace that it needs.
    async fn create_missing(&self, change: &Change, admission: AdmissionSlots) -> Effect {
        let deadline = self.deadline;
        if let Some(name) = change.missing_namespace() {
            let namespace = deadline.until_end(self.namespace(name)).await;
            if let Err(effect) = namespace.unwrap_or_else(|_| Err(timed_out(change))) {
                return without_namespace(change, effect);
            }
        }
        let Change::CreateService { place, service } = change else {
            return Effect::Settled(Outcome::Applied);
        };
        let created = deadline.until_end(self.create(place, service, admission)).await;
        created.unwrap_or_else(|_| timed_out(change))
    }

    /// Creates a missing namespace. All Services that need it share the result.
    async fn namespace(&self, name: &str) -> Result<String, Effect> {
        let deadline = self.deadline;
        if !deadline.is_open() {
            return Err(Effect::Settled(Outcome::out_of_time()));
        }
        let created = &self.results.namespaces;
        let owner = &self.group.observation.owner.id;
        let arn = self.cloud_map.ensure_namespace(created, name, owner, deadline.stop).await;
        arn.map_err(|error| match error.class {
            Class::LimitExceeded => Effect::HeldBack(Reason::QuotaExceeded(error.in_full())),
            Class::NotFound => Effect::HeldBack(Reason::NamespaceInDeletion(name.to_owned())),
            _ => failed(&error),
        })
    }

    /// Creates a service, unless another group of this invocation has created it since the read that the change rests
    /// on.
    async fn create(
        &self,
        place: &Place,
        service: &NewService,
        admission: AdmissionSlots,
    ) -> Effect {
        let results = self.results;
        let owner = &self.group.observation.owner.id;
        let NewService { namespace, name, .. } = service;
        let created = || results.namespaces.reference(&namespace.name);
        let Some(arn) = namespace.arn.clone().or_else(created) else {
            return Effect::Settled(Outcome::not_attempted(
                "its Cloud Map namespace does not exist",
            ));
        };
        let is_own = std::cell::Cell::new(false);
        let creation = results.services.creation(&arn, name, owner, self.observed);
        let created = creation.get_or_try_init(|| async {
            is_own.set(true);
            self.call_create(place, service, &arn, admission)
                .await
                .map(|arn| Created::new(arn, service))
        });
        match created.await {
            Ok(created) if is_own.get() => Effect::Created(created.arn.clone()),
            Ok(created) if created.matches(service) => Effect::Exists(created.arn.clone()),
            Ok(_) => Effect::Contested,
            Err(effect) => effect,
        }
    }

    /// Calls CreateService. Returns the ARN of the service, or the effect if this call did not create it.
    async fn call_create(
        &self,
        place: &Place,
        service: &NewService,
        namespace: &str,
        admission: AdmissionSlots,
    ) -> Result<String, Effect> {
        let cloud_map = self.cloud_map;
        let deadline = self.deadline;
        let slot = match deadline.until_stop(cloud_map.acquire(Call::CreateService)).await {
            Ok(slot) if deadline.is_open() => slot,
            _ => return Err(Effect::Settled(Outcome::out_of_time())),
        };
        drop(admission);
        let owner = &self.group.observation.owner.id;
        let created = cloud_map.create_service(slot, place, service, namespace, owner).await;
        let created = created.map_err(|error| match error.class {
            Class::LimitExceeded => Effect::HeldBack(Reason::QuotaExceeded(error.in_full())),
            Class::Invalid => Effect::HeldBack(Reason::InvalidInput(error.in_full())),
            _ => failed(&error),
        });
        match created? {
            NewServiceId::Created(arn) => Ok(arn),
            NewServiceId::Exists(id) => {
                if let Some(id) = id {
                    self.results.services.record_already_existing(&place.key, id);
                }
                Err(Effect::Contested)
            }
        }
    }

    async fn make_call(&self, change: &Change, ready: ReadyCall<'_>) -> Effect {
        let ReadyCall { call, arn, slot, in_flight } = ready;
        if let Some(effect) = self.adoption_conflict(&slot, change, arn).await {
            return effect;
        }
        // The calls are boxed, so that their memory is freed before the operation, which takes much longer.
        let called = match change {
            Change::Note { .. } => match Box::pin(self.with_note(&slot, change, arn)).await {
                Ok(registration) => Box::pin(self.call(slot, &registration, arn)).await,
                Err(effect) => return effect,
            },
            _ => Box::pin(self.call(slot, change, arn)).await,
        };
        drop(in_flight);
        if matches!(called, Ok(Some(Accepted::Busy(_)))) {
            // The other run is probably about to make the remaining changes, too.
            self.has_conflict.store(true, Ordering::Relaxed);
        }
        match called {
            Ok(Some(accepted)) => self.finish(accepted, change, call).await,
            Ok(None) => Effect::Settled(Outcome::Applied),
            Err(error) => self.effect_of_error(change, &error),
        }
    }

    /// Makes the call. Returns the operation that Cloud Map accepted, if the call begins one.
    async fn call(
        &self,
        slot: CallSlot<'_>,
        change: &Change,
        arn: &str,
    ) -> Result<Option<Accepted>, Error> {
        let cloud_map = self.cloud_map;
        let accepted = match change {
            Change::CreateNamespace { .. } | Change::CreateService { .. } | Change::Note { .. } => {
                return Ok(None);
            }
            Change::UpdateService { place, update } => {
                cloud_map.update_service(slot, arn, place, update).await
            }
            Change::Register { place, instance, attributes, .. }
            | Change::Rewrite { place, instance, attributes, .. } => {
                cloud_map.register(slot, arn, place, instance, attributes).await
            }
            Change::Deregister { place, instance, .. } => {
                cloud_map.deregister(slot, arn, place, instance).await
            }
        };
        accepted.map(Some)
    }

    /// Reads the instance of an adoption again. Returns the effect if it has changed since the plan or cannot be read.
    /// A write between this check and the registration goes unnoticed: Cloud Map has no compare-and-swap.
    async fn adoption_conflict(
        &self,
        slot: &CallSlot<'_>,
        change: &Change,
        arn: &str,
    ) -> Option<Effect> {
        let Change::Rewrite { place, instance, adopted: Some(adopted), .. } = change else {
            return None;
        };
        let now = Box::pin(self.cloud_map.instance(slot, arn, place, instance));
        match now.await {
            Ok(Some(now)) if now == adopted.present => None,
            Ok(_) => {
                let instance = instance.clone();
                let why = NotAdopted::Changed;
                Some(Effect::HeldBack(Reason::NotAdopted { instance, why }))
            }
            Err(error) => Some(failed(&error)),
        }
    }

    /// Returns the registration that writes or removes a note of the guard. It keeps the other attributes that the
    /// instance has now. An instance that another run has deregistered meanwhile is not registered again.
    async fn with_note(
        &self,
        slot: &CallSlot<'_>,
        change: &Change,
        arn: &str,
    ) -> Result<Change, Effect> {
        let Change::Note { place, instance, service, text, .. } = change else {
            return Err(Effect::Settled(Outcome::Applied));
        };
        let now = self.cloud_map.instance(slot, arn, place, instance).await;
        let now = now.map_err(|error| failed(&error))?;
        let noted = now.and_then(|now| {
            with_note(&self.group.observation.owner, service, &now, text.as_deref())
        });
        let Some(attributes) = noted else {
            let outcome = match text {
                Some(_) => {
                    Outcome::not_attempted("the instance has gone, or passed to another Service")
                }
                None => Outcome::Applied,
            };
            return Err(Effect::Settled(outcome));
        };
        Ok(Change::rewrite(place.clone(), instance.clone(), attributes, Vec::new()))
    }

    /// The effect of a call that failed.
    fn effect_of_error(&self, change: &Change, error: &Error) -> Effect {
        match (error.class, change) {
            // A missing instance is the wanted result. A run never deregisters an instance that it registered, so "not
            // found" cannot mean "not visible yet".
            (Class::NotFound, Change::Deregister { .. }) => Effect::Settled(Outcome::Applied),
            (Class::LimitExceeded, change) if change.is_registration() => {
                let message = error.source.to_string();
                if matches!(change, Change::Register { .. }) {
                    self.results.full_namespaces.note(&change.place().key.namespace, &message);
                }
                Effect::Full(message)
            }
            // The only expected refusal of an input: an endpoint of one IP family in a service with records of both.
            (
                Class::Invalid,
                Change::Register { place, attributes, .. }
                | Change::Rewrite { place, attributes, .. },
            ) => {
                let service = self.group.observation.registry.services.get(&place.key);
                let mismatch = service
                    .and_then(|service| Reason::record_type_mismatch(service.kind, attributes));
                let invalid_input = || Reason::InvalidInput(error.in_full());
                Effect::HeldBack(mismatch.unwrap_or_else(invalid_input))
            }
            _ => failed(error),
        }
    }

    /// Waits for the operation: an accepted call is not done yet.
    async fn finish(&self, accepted: Accepted, change: &Change, call: Call) -> Effect {
        let subject = change.instance().map_or_else(|| change.place().to_string(), str::to_owned);
        let namespace =
            self.group.observation.registry.namespaces.get(&change.place().key.namespace);
        let owner = namespace.and_then(|namespace| namespace.owner.as_deref());
        let kind = namespace.map_or(NamespaceKind::Http, |namespace| namespace.kind);
        let (operation, is_ours) = match accepted {
            Accepted::Operation(operation) => (operation, true),
            Accepted::Busy(operation) => (operation, false),
        };
        let deadline = self.deadline;
        match self.cloud_map.wait(&operation, (call, kind), owner, deadline.stop).await {
            Ok(WaitResult::Success { .. } | WaitResult::Fail { .. }) if !is_ours => {
                Effect::Contested
            }
            // Cloud Map forgets old operations: one that it does not know is not in progress.
            Err(error) if !is_ours && error.class == Class::NotFound => Effect::Contested,
            Ok(WaitResult::Success { .. }) => Effect::Settled(Outcome::Applied),
            // For a removal, this code is a temporary limit of Route 53.
            Ok(WaitResult::Fail { code, message })
                if code == "INVALID_CHANGE_BATCH" && change.is_registration() =>
            {
                Effect::HeldBack(Reason::AddressTaken { instance: subject, message })
            }
            Ok(WaitResult::Fail { code, message }) => {
                let mut text =
                    format!("operation {operation} on {subject} failed: {code}: {message}");
                // Cloud Map changes records in Route 53 with the rights of the caller, after it has accepted the call.
                if code == "ACCESS_DENIED" && kind != NamespaceKind::Http {
                    text += NO_RIGHTS_IN_DNS;
                }
                Effect::Settled(Outcome::failed(text))
            }
            Ok(WaitResult::Pending) => {
                let text = format!("operation {operation} on {subject} has not ended in time");
                let open = deadline.is_open();
                Effect::Settled(if open {
                    Outcome::failed(text)
                } else {
                    Outcome::not_attempted(text)
                })
            }
            Err(error) => failed(&error),
        }
    }
}

/// A call that may be sent: it has its token and its slots.
struct ReadyCall<'a> {
    call: Call,
    /// The ARN of the Cloud Map service.
    arn: &'a str,
    slot: CallSlot<'a>,
    /// Its slot among the calls of the group.
    in_flight: Option<SemaphorePermit<'a>>,
}

/// The call that makes a change; `None` for the creation of a namespace or a service, which takes several calls.
pub fn call_of(change: &Change) -> Option<Call> {
    match change {
        Change::CreateNamespace { .. } | Change::CreateService { .. } => None,
        Change::UpdateService { .. } => Some(Call::UpdateService),
        Change::Register { .. } | Change::Rewrite { .. } | Change::Note { .. } => {
            Some(Call::RegisterInstance)
        }
        Change::Deregister { .. } => Some(Call::DeregisterInstance),
    }
}

/// Reports a namespace that could not be created only for the change that creates it. Other changes there are left
/// undone.
fn without_namespace(change: &Change, effect: Effect) -> Effect {
    match effect {
        Effect::Settled(Outcome::Failed { .. })
            if !matches!(change, Change::CreateNamespace { .. }) =>
        {
            Effect::Settled(Outcome::not_attempted("its Cloud Map namespace does not exist"))
        }
        effect => effect,
    }
}

fn timed_out(change: &Change) -> Effect {
    let text = format!("cannot {change}: Cloud Map did not answer in time");
    Effect::Settled(Outcome::failed(text))
}

fn failed(error: &Error) -> Effect {
    Effect::Settled(Outcome::failed(error.in_full()))
}
