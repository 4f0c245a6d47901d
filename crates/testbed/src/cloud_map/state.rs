//! The state of the stand-in, behind one lock: the registry, the operations under way, the settings, the remaining
//! faults, the record of calls and the guard. `touch` completes the operations that are due before each access.
//!
//! The record of calls: one entry for each request that named an operation, with any result.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::behaviour::{Behaviour, Buckets};
use super::fault::Fault;
use super::guard::{Exporters, Guard, Kept};
use super::id::Ids;
use super::operation::{Effect, Operations, Targets};
use super::resource::{Namespace, Service};
use super::room::Room;
use super::wire::{ApiError, Checked};
use crate::gate::Gate;

/// The state of one account in one Region.
pub struct State {
    pub region: String,
    pub account: String,
    pub now: Instant,
    /// Grows with all that may have changed something.
    pub revision: u64,
    began: (Instant, f64),
    pub ids: Ids,
    pub namespaces: BTreeMap<String, Namespace>,
    pub services: BTreeMap<String, Service>,
    /// The services' ids by namespace and name.
    pub names: BTreeMap<(String, String), String>,
    /// The same of services that were deleted.
    pub former_names: BTreeMap<(String, String), String>,
    pub room: Room,
    pub operations: Operations,
    pub behaviour: Behaviour,
    pub buckets: Buckets,
    /// How many calls the rates refused since the record of calls began.
    pub throttled: usize,
    pub faults: Vec<Fault>,
    pub calls: Vec<Call>,
    /// When the record of calls began, and what was left of the rates then.
    pub recorded_from: (Instant, Buckets),
    pub guard: Guard,
    pub exporters: Exporters,
    pub kept: Kept,
    pub gate: Option<Gate>,
}

impl State {
    pub fn new(region: &str, account: &str) -> Self {
        let since_epoch =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = Instant::now();
        Self {
            region: region.to_owned(),
            account: account.to_owned(),
            now,
            revision: 0,
            began: (now, since_epoch.as_secs_f64()),
            ids: Ids::new(&format!("{account}/{region}")),
            namespaces: BTreeMap::new(),
            services: BTreeMap::new(),
            names: BTreeMap::new(),
            former_names: BTreeMap::new(),
            room: Room::default(),
            operations: Operations::default(),
            behaviour: Behaviour::default(),
            buckets: Buckets::default(),
            throttled: 0,
            faults: Vec::new(),
            calls: Vec::new(),
            recorded_from: (now, Buckets::default()),
            guard: Guard::default(),
            exporters: Exporters::default(),
            kept: Kept::default(),
            gate: None,
        }
    }

    /// Brings the state up to now: operations that are due end, and the guard looks at what they did.
    pub fn touch(&mut self) {
        self.now = self.now.max(Instant::now());
        while let Some((id, ended)) = self.operations.settle_next(self.now) {
            self.revision += 1;
            self.take_effect(&id, ended);
            self.guard.compare_after(&id, &self.services);
            self.check_watches(&format!("after operation {id}"));
        }
        self.forget_deleted_namespaces();
    }

    /// Lets another party change the registry: what it does to foreign instances is no violation.
    pub fn by_another_party<T>(&mut self, change: impl FnOnce(&mut Self) -> T) -> T {
        self.touch();
        self.revision += 1;
        let changed = change(self);
        self.guard.accept(&self.services);
        self.check_watches("after another party");
        changed
    }

    /// Looks at all that is watched; `cause` is what just happened.
    pub fn check_watches(&mut self, cause: &str) {
        self.check_exporters(cause);
        self.check_kept(cause);
    }

    /// Accepts an asynchronous operation and answers with its id, unless one on the same targets is in flight.
    pub fn submit(
        &mut self,
        effect: Effect,
        targets: Targets,
        creator_request_id: Option<&str>,
    ) -> Checked<Value> {
        self.refuse_duplicate(&targets)?;
        let id = self.ids.operation();
        self.reserve(&effect, &targets, false);
        let time = (self.now, self.behaviour.operation_delay);
        let id = self.operations.accept(id, effect, targets, creator_request_id, time);
        Ok(json!({ "OperationId": id }))
    }

    /// Refuses a change while another of the same targets is in flight, and by the settings for a while after its end.
    /// Whether both are of one type does not matter (external-dns 5134).
    pub fn refuse_duplicate(&self, targets: &Targets) -> Checked<()> {
        let refuse = |id: &String, state| {
            let call = self.operations.all()[id].effect.call();
            Err(ApiError::duplicate(call, id, state))
        };
        let stays = self.behaviour.completed_operation_stays;
        match (self.operations.busy(targets), self.operations.last(targets)) {
            (Some(id), _) => refuse(id, "is in progress"),
            (_, Some((id, ended))) if self.now < *ended + stays => refuse(id, "has completed"),
            _ => Ok(()),
        }
    }

    /// All that was seen to go wrong, after a look at every foreign instance there is.
    pub fn violations(&mut self) -> &mut Vec<String> {
        self.guard.compare_all(&self.services);
        &mut self.guard.violations
    }

    fn take_effect(&mut self, id: &str, ended: Instant) {
        let Some(operation) = self.operations.get_mut(id) else { return };
        let effect = operation.effect.clone();
        let targets = operation.targets.clone();
        let fails = operation.failure.is_some();
        self.reserve(&effect, &targets, true);
        if fails {
            if matches!(effect, Effect::DeleteNamespace) {
                self.leave(&targets.namespace, false);
            }
            return;
        }
        let failure = self.apply(effect, &targets, ended).err();
        if let Some(operation) = self.operations.get_mut(id) {
            operation.failure = failure;
        }
    }

    /// Milliseconds-exact seconds since 1970, as the wire has them: the wall clock of the start plus tokio's time.
    pub fn timestamp(&self, at: Instant) -> f64 {
        let seconds = self.began.1 + at.saturating_duration_since(self.began.0).as_secs_f64();
        (seconds * 1000.0).round() / 1000.0
    }
}

/// One call over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub operation: String,
    /// The service's id; for CreateService and DiscoverInstances, which know none, its name.
    pub service: Option<String>,
    pub instance: Option<String>,
    /// The HTTP status of the answer; 0 where the connection ended without one.
    pub status: u16,
}

impl Call {
    /// Whether the operation would change the registry.
    pub fn is_write(&self) -> bool {
        !["Get", "List", "Discover"].iter().any(|verb| self.operation.starts_with(verb))
    }
}
