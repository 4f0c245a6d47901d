//! One turn, from its first change to its last: makes the changes that the pass machine hands out, and does the reads
//! that it asks for. It decides nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::Options;
use super::task::Task;
use crate::cloud_map::{Call, CloudMap, Gate};
use crate::error::chain;
use crate::model::ServiceRef;
use crate::publish::apply::{self, Calls};
use crate::publish::observe;
use crate::publish::passes::{Effect, NO_TIME, Outcome, Results, Step, Turn};
use crate::publish::plan::{Change, Observation, Observed, RereadScope, Stage};

/// If a plan is older than this, it is made again before it registers anything: pods come and go, and other runs
/// register.
const FRESH: Duration = Duration::from_secs(5);
/// The same limit for a run that registers so much that the next run of the schedule may begin meanwhile.
const BULK: Duration = Duration::from_secs(2);
/// The same limit if this run has met another one.
const CROWDED: Duration = Duration::from_secs(1);

/// A turn with the parts of the world that it needs.
struct Shell<'a> {
    task: &'a Task<'a>,
    cloud_map: CloudMap,
    options: Options,
    turn: Turn<'a>,
    /// The start of the read that the next changes rest on.
    observed: Instant,
    /// Whether it registers, and has met no other run since.
    has_begun: bool,
}

/// Takes a turn to its end.
pub(super) async fn run<'a>(task: &'a Task<'a>, turn: Turn<'a>, options: Options) -> Results {
    let cloud_map = task.registry().cloud_map().with(options.urgency(turn.len()));
    let (observed, has_begun) = (options.observed, !task.is_sync());
    let mut shell = Shell { task, cloud_map, options, turn, observed, has_begun };
    // Many turns wait here at a time, so their futures are kept small.
    Box::pin(shell.run()).await;
    shell.turn.into_results()
}

/// The call that the changes of a stage begin with, if they register or lead to a registration.
fn first_call(changes: &[Change]) -> Option<Call> {
    match changes.first()?.stage() {
        Stage::Create => Some(Call::CreateService),
        Stage::Register => Some(Call::RegisterInstance),
        _ => None,
    }
}

impl Shell<'_> {
    async fn run(&mut self) {
        loop {
            match self.turn.next(self.options.deadline.is_open()) {
                Step::Make(changes) => match first_call(&changes).filter(|_| !self.has_begun) {
                    Some(call) => self.begin(call, changes).await,
                    None => self.apply(changes).await,
                },
                Step::Read(scope) => {
                    if let Some(read) = self.read(&scope).await {
                        self.turn.observed(read);
                    }
                }
                Step::ReadEndpoints(services) => {
                    if let Some(observation) = self.read_endpoints(&services).await {
                        self.turn.endpoints_read(observation);
                    }
                }
                Step::Done => return,
            }
        }
    }

    /// Begins to register as soon as the rates allow it, on a plan that is made again if it is old by then.
    async fn begin(&mut self, call: Call, changes: Vec<Change>) {
        self.has_begun = true;
        let gate = async {
            // A service is created when its instances can be registered right after.
            drop(self.cloud_map.gate(Call::RegisterInstance).await);
            self.cloud_map.gate(call).await
        };
        let gate: Option<Gate> = timeout_at(self.options.deadline.stop(), gate).await.ok();
        let fresh = match self.task.registry().admissions().met_another() {
            true => CROWDED,
            false if self.options.is_bulk => BULK,
            false => FRESH,
        };
        if self.observed.elapsed() < fresh || gate.is_none() {
            drop(gate);
            return self.apply(changes).await;
        }
        // No other turn begins meanwhile: many plans that were made at a time would be old again when they are due.
        let cloud_map = self.cloud_map.clone();
        let planned = cloud_map.plan(Call::RegisterInstance);
        let scope = self.turn.refresh(changes);
        if let Some(read) = self.read(&scope).await {
            self.turn.refreshed(read);
        }
        drop((gate, planned));
    }

    async fn apply(&mut self, changes: Vec<Change>) {
        let registry = self.task.registry();
        let calls = Calls {
            cloud_map: &self.cloud_map,
            new_namespaces: registry.new_namespaces(),
            new_services: registry.new_services(),
            admissions: registry.admissions(),
            deadline: self.options.deadline,
            observed: self.observed,
        };
        for (change, effect) in apply::apply(calls, &self.turn, changes).await {
            if let (Change::CreateService { service, .. }, Effect::Created(arn)) =
                (&change, &effect)
            {
                registry.note_service(&service.namespace, arn);
            }
            if effect == Effect::Contested {
                self.has_begun = !self.task.is_sync();
                registry.admissions().meet_another();
            }
            self.turn.record(change, effect);
        }
    }

    async fn read(&mut self, scope: &RereadScope) -> Option<Observed> {
        let mut observation = self.turn.observation().clone();
        // With its ARN a namespace counts as existing, whichever turn created it.
        for namespace in observation.registry.namespaces.values_mut() {
            let created = || self.task.registry().new_namespaces().reference(&namespace.name);
            namespace.arn = namespace.arn.take().or_else(created);
        }
        let task = self.task;
        self.in_time(task.read(observation, scope)).await
    }

    async fn read_endpoints(&mut self, services: &BTreeSet<ServiceRef>) -> Option<Observation> {
        let (task, observation) = (self.task, self.turn.observation().clone());
        self.in_time(task.read_endpoints(observation, services)).await
    }

    /// The result of a read; without it the turn fails.
    async fn in_time<T>(
        &mut self,
        read: impl Future<Output = Result<T, observe::Error>>,
    ) -> Option<T> {
        self.observed = Instant::now();
        match timeout_at(self.options.deadline.stop(), read).await {
            Ok(Ok(read)) => return Some(read),
            Ok(Err(error)) => self.turn.fail(&Outcome::Failed(chain(&error))),
            Err(_) => self.turn.fail(&Outcome::Undone(NO_TIME.to_owned())),
        }
        None
    }
}
