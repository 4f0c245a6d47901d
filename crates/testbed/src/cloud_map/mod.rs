//! A stand-in for AWS Cloud Map: one account in one Region, served in the JSON 1.1 protocol. It behaves like the
//! service: changes are operations that end later or fail, lists are divided into pages and then filtered, a
//! registration replaces, and limits and patterns are enforced. After every call it checks that no foreign instance was
//! changed, and panics if a test ends with a violation.
//!
//! A request passes through `wire` (protocol) and `dispatch` (fault, rate limit, guard) to the file of its noun;
//! `state` holds everything. Tests change and read it by `seed` without HTTP. It shares no code with
//! `src/`.
//!
//! tests/cloud_map asks it, and by a person's command AWS, for each behaviour. One that no public source describes is
//! marked by `Assumed`, with the name of the case of that suite that settles it.

mod attribute;
mod behaviour;
mod discover;
mod dispatch;
mod dns;
mod fault;
mod guard;
mod health;
mod id;
mod input;
mod instance;
mod namespace;
mod operation;
mod resource;
mod room;
mod seed;
mod service;
mod state;
mod tag;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::Request;
use axum::response::Response;
use state::State;

use super::gate::{Gate, access_key};

pub use behaviour::{Behaviour, Quotas};
pub use fault::{Fault, FaultKind};
pub use resource::{DnsConfig, NamespaceKind, RecordType};
pub use seed::{ServiceKind, ServiceView};
pub use state::Call;

/// A test's handle on the stand-in. When the last one is dropped after something foreign was touched, it panics.
#[derive(Clone)]
pub struct CloudMap {
    wire: Wire,
    _verdict: Arc<Verdict>,
}

/// What the server's task holds: it answers, and does not count as a handle. A panic in a task would be lost.
#[derive(Clone)]
pub struct Wire(Arc<Mutex<State>>);

impl Wire {
    /// Answers one request as the service would.
    pub async fn answer(&self, operation: &str, request: &Request<Bytes>) -> Response {
        let (latency, gate) = {
            let state = self.lock();
            (state.behaviour.latency, state.gate.clone())
        };
        if let Some(gate) = gate {
            gate.pass(access_key(request.headers()).as_deref()).await;
        }
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        let answer = self.lock().serve(operation, request);
        if !answer.wait.is_zero() {
            tokio::time::sleep(answer.wait).await;
        }
        answer.into_response()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no call to the Cloud Map stand-in panicked before")
    }
}

impl CloudMap {
    /// An empty registry of one account in one Region.
    pub fn new(region: &str, account: &str) -> Self {
        let wire = Wire(Arc::new(Mutex::new(State::new(region, account))));
        Self { _verdict: Arc::new(Verdict(wire.clone())), wire }
    }

    /// The side that a server holds.
    pub fn wire(&self) -> Wire {
        self.wire.clone()
    }

    /// Turns the dials.
    pub fn behave(&self, behaviour: Behaviour) {
        self.look().behaviour = behaviour;
    }

    /// Turns some dials, and leaves the others as they are.
    pub fn adjust(&self, turn: impl FnOnce(&mut Behaviour)) {
        turn(&mut self.look().behaviour);
    }

    /// Holds calls at a gate from now on.
    pub fn hold_at(&self, gate: &Gate) {
        self.look().gate = Some(gate.clone());
    }

    /// Asks for a fault.
    pub fn inject(&self, fault: Fault) {
        self.look().faults.push(fault);
    }

    /// Refuses every call of an operation from now on.
    pub fn deny(&self, operation: &str) {
        self.inject(Fault::on(operation, FaultKind::AccessDenied).always());
    }

    /// The same of the calls about one service.
    pub fn deny_in(&self, service: &str, operation: &str) {
        let denied = Fault::on(operation, FaultKind::AccessDenied);
        self.inject(denied.service(service).always());
    }

    /// Whether no fault is due any more.
    pub fn is_sound(&self) -> bool {
        self.look().faults.is_empty()
    }

    /// Forgets the faults that are still due, and ends the operations that hang.
    pub fn heal(&self) {
        let mut state = self.look();
        state.faults.clear();
        let now = state.now;
        state.operations.end_hanging(now);
    }

    /// A number that grows with all that may have changed something.
    pub fn revision(&self) -> u64 {
        self.look().revision
    }

    /// All calls over the wire that named an operation, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.look().calls.clone()
    }

    /// How many calls of one operation there were.
    pub fn count(&self, operation: &str) -> usize {
        self.look().calls.iter().filter(|call| call.operation == operation).count()
    }

    /// How many calls there were that would change something, whatever became of them.
    pub fn writes(&self) -> usize {
        self.look().calls.iter().filter(|call| call.is_write()).count()
    }

    /// How many calls the rates refused.
    pub fn throttled(&self) -> usize {
        self.look().throttled
    }

    /// How many calls there were of each operation.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for call in &self.look().calls {
            *counts.entry(call.operation.clone()).or_insert(0) += 1;
        }
        counts
    }

    /// Another party makes a call of this kind, which counts to the quotas: whether it is throttled.
    pub fn throttles(&self, operation: &str) -> bool {
        self.change(|state| {
            let Some(quotas) = &state.behaviour.quotas else { return false };
            !state.buckets.take(quotas, operation, state.now)
        })
    }

    /// Starts the record of calls anew.
    pub fn forget_calls(&self) {
        let mut state = self.look();
        state.calls.clear();
        state.throttled = 0;
        state.recorded_from = (state.now, state.buckets.clone());
    }

    /// The time that the rates alone force for the recorded calls, with what was left of them when the record began.
    pub fn forced_time(&self) -> Duration {
        let calls = self.counts();
        let state = self.look();
        let (began, buckets) = &state.recorded_from;
        let quotas = state.behaviour.quotas.as_ref();
        quotas.map_or(Duration::ZERO, |quotas| buckets.forced_time(quotas, &calls, *began))
    }

    /// Says whose marks are ours from now on; all other instances are foreign and guarded.
    pub fn watch_over(&self, owner: &str, clusters: &[impl AsRef<str>]) {
        let clusters: Vec<&str> = clusters.iter().map(AsRef::as_ref).collect();
        self.change(|state| {
            let in_flight = state.operations.in_flight().map(|(id, _)| id.clone()).collect();
            state.guard.watch(owner, &clusters, &state.services, in_flight);
        });
    }

    /// Lets the function take exactly these instances, each named by its service and its id, until this is said
    /// again. They are guarded as before until they carry our marks.
    pub fn allow_adoption(&self, instances: &[(&str, &str)]) {
        let instances = instances.iter().map(|(service, id)| ((*service).into(), (*id).into()));
        let instances = instances.collect();
        self.change(|state| state.guard.adoptable(instances));
    }

    /// What was done to instances that are not ours so far.
    pub fn violations(&self) -> Vec<String> {
        self.look().violations().clone()
    }

    /// Takes the violations, for a test that provoked them on purpose.
    pub fn take_violations(&self) -> Vec<String> {
        std::mem::take(self.look().violations())
    }

    fn look(&self) -> MutexGuard<'_, State> {
        let mut state = self.wire.lock();
        state.touch();
        state
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        self.wire.lock().by_another_party(change)
    }
}

/// Lives as long as the test's handles.
struct Verdict(Wire);

impl Drop for Verdict {
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        let mut state = self.0.lock();
        state.touch();
        let violations = std::mem::take(state.violations());
        drop(state);
        assert!(
            violations.is_empty(),
            "instances that are not ours were touched:\n{}",
            violations.join("\n")
        );
    }
}
