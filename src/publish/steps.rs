//! Carries out the steps of one group, from its first change to its last. It decides nothing.
//!
//! A group waits in line until the rates allow its next changes. Only then does it read the data that they rest on,
//! unless that was read a moment ago. So the plans of 1,000 groups do not become stale in the queue of the rate. Each
//! change is sent as soon as it has its token: no call waits for the answer to another one. A group whose cluster
//! answers slowly leaves its places in the line to other groups meanwhile.

use std::pin::pin;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::{Instant, sleep, timeout};

use super::apply::GroupCalls;
use super::group::{Effect, GroupSync, PlannedChange, Results, Step};
use super::{Execution, observe};
use crate::cloud_map::{Call, LinePlaces};
use crate::error::chain;
use crate::model::Outcome;
use crate::publish::plan::{Change, Observation, Reason, RereadScope, Stage};

/// The maximum number of changes of a group made concurrently. Most of them wait for an operation to end; the client
/// limits the calls.
const SIDE_BY_SIDE: usize = 256;
/// The maximum age of the read that an addition rests on: pods come and go, and other runs register.
const FRESH: Duration = Duration::from_secs(5);
/// The maximum age of the read that a group begins on. If a run registers much, the next run of the schedule may have
/// begun meanwhile, and would register the same instances.
const RECENT: Duration = Duration::from_secs(1);
/// The wait after a conflict with another run. That run has begun more than one change of the same Service, and a read
/// shows these only when their operations have ended.
const OTHERS_OPERATIONS: Duration = Duration::from_secs(2);
/// A group that reads for longer than this gives up its places in the line.
const QUICK: Duration = Duration::from_secs(1);

/// A group, and the state of carrying it out.
struct Runner<'a> {
    execution: &'a Execution<'a>,
    group: GroupSync<'a>,
    /// The start of the read that the next changes rest on.
    began: Instant,
    /// The start of the read that shows which Cloud Map services exist. A read of known services alone does not count.
    listed: Instant,
    /// The end of the read that the next changes rest on; for the comparison, its start. Additions may be made for some
    /// time after it. `None` if an earlier run made a part of the read.
    observed: Option<Instant>,
    /// The places in the line of the additions that come next, if the group waited for them before it read.
    places: Option<(Call, LinePlaces)>,
}

/// Syncs a group to its end. The comparison was read at `observed` or later. With `None` it is old, and the group reads
/// before its first change.
pub async fn carry_out<'a>(
    execution: &'a Execution<'a>,
    group: GroupSync<'a>,
    observed: Option<Instant>,
) -> Results {
    let began = observed.unwrap_or_else(Instant::now);
    let observed = observed.filter(|_| group.observation.registry.is_current());
    let listed = began;
    let mut runner = Runner { execution, group, began, listed, observed, places: None };
    // Many groups wait here at a time, so their futures are kept small.
    Box::pin(runner.run()).await;
    runner.group.into_results()
}

/// Returns the call that makes these changes of one stage, if they register instances or create services.
fn call_of_additions(changes: &[PlannedChange]) -> Option<Call> {
    match changes.first()?.change.stage() {
        Stage::Create => Some(Call::CreateService),
        Stage::Register => Some(Call::RegisterInstance),
        _ => None,
    }
}

impl Runner<'_> {
    async fn run(&mut self) {
        loop {
            let is_open = self.execution.options.deadline.is_open();
            match self.group.next(is_open) {
                Step::Make(changes) => self.make(changes).await,
                Step::Read(scope) => {
                    let read = self.read(&scope).await;
                    self.listed = self.began;
                    if let Some(read) = read {
                        self.group.observed(read);
                    }
                }
                Step::ReadEndpoints(services) => {
                    let execution = self.execution;
                    if let Some(read) = self.in_time(execution.read_endpoints(services)).await {
                        self.group.endpoints_read(read);
                    }
                }
                Step::Done => return,
            }
        }
    }

    /// Makes changes, except those that Cloud Map would only refuse again. If the plan is too old when the rates allow
    /// the additions, it is made again first.
    async fn make(&mut self, changes: Vec<PlannedChange>) {
        let mut tried = Vec::new();
        let mut refused = Vec::new();
        let answers = self.refusals(&changes);
        for (planned, answer) in changes.into_iter().zip(answers) {
            match answer {
                Some(answer) => refused.push((planned, answer)),
                None => tried.push(planned),
            }
        }
        let mut places = LinePlaces::default();
        let call = call_of_additions(&tried);
        if let Some(call) = call {
            let Some(room) = self.enter_line(call, tried.len()).await else {
                return self.give_up(tried);
            };
            places = room;
        }
        if self.is_old_for(&tried) {
            let changes = tried.into_iter().chain(refused.into_iter().map(|(planned, _)| planned));
            let read = self.read_anew(changes.collect(), call.map(|call| (call, places))).await;
            if let Some(read) = read {
                self.group.observed(read);
            }
            return;
        }
        self.apply(tried, places).await;
        for (planned, answer) in refused {
            self.group.leave(planned, answer);
        }
    }

    /// Whether the read that these changes rest on is too old for them.
    fn is_old_for(&self, changes: &[PlannedChange]) -> bool {
        let Some(planned) = changes.first() else { return false };
        match self.observed {
            // A note needs no read here: it is written and removed on a read of its instance.
            None => !planned.change.is_note(),
            Some(observed) => call_of_additions(changes).is_some() && observed.elapsed() >= RECENT,
        }
    }

    /// Reads the data that these changes rest on. Keeps their places in the line only for a moment.
    async fn read_anew(
        &mut self,
        changes: Vec<PlannedChange>,
        mut places: Option<(Call, LinePlaces)>,
    ) -> Option<Observation> {
        // The reads of an earlier run may lack a service that a list of this run shows.
        let is_listed = self.observed.is_some();
        let scope = self.group.refresh(changes, is_listed);
        let read = {
            let mut reading = pin!(self.read(&scope));
            if let Ok(read) = timeout(QUICK, &mut reading).await {
                read
            } else {
                if let Some((_, room)) = &mut places {
                    *room = LinePlaces::default();
                }
                reading.await
            }
        };
        self.places = places;
        if !is_listed {
            self.listed = self.began;
        }
        read
    }

    /// Returns the earlier refusal of each change that is not tried again yet. If a person requested the run, all
    /// changes are tried.
    fn refusals(&self, changes: &[PlannedChange]) -> Vec<Option<Reason>> {
        let Execution { task, options, registry, .. } = self.execution;
        if !task.is_sync() || options.is_direct {
            return vec![None; changes.len()];
        }
        let changes = changes.iter().map(|planned| &planned.change);
        registry.refusals().standing(changes, &self.group.observation)
    }

    /// Waits for the places of additions in the line. Only one group of a run waits there at a time, so that groups of
    /// other clusters get their turn.
    async fn enter_line(&mut self, call: Call, calls: usize) -> Option<LinePlaces> {
        if let Some((of, room)) = self.places.take()
            && of == call
        {
            return Some(room);
        }
        let execution = self.execution;
        let enter = async {
            let next = &execution.next_in_line;
            let next =
                if call == Call::CreateService { &next.creation } else { &next.registration };
            let _next = next.lock().await;
            execution.registry.cloud_map.enter_line(call, calls).await
        };
        execution.options.deadline.until_stop(enter).await.ok()
    }

    fn give_up(&mut self, changes: Vec<PlannedChange>) {
        for planned in changes {
            self.group.record(planned, Effect::Settled(Outcome::out_of_time()));
        }
    }

    async fn apply(&mut self, changes: Vec<PlannedChange>, mut places: LinePlaces) {
        let Execution { task, registry, options, .. } = self.execution;
        let cloud_map = &registry.cloud_map;
        let calls = &GroupCalls::new(
            cloud_map,
            &registry.results,
            options.deadline,
            self.listed,
            self.observed.unwrap_or_else(Instant::now) + FRESH,
            &self.group,
        );
        let made: Vec<(PlannedChange, Effect)> = stream::iter(changes)
            .map(|planned| {
                let place = places.split();
                async move {
                    let effect = Box::pin(calls.make(&planned.change, place)).await;
                    (planned, effect)
                }
            })
            .buffer_unordered(SIDE_BY_SIDE)
            .collect()
            .await;
        registry.record_changed(made.iter().map(|(planned, _)| &planned.change.place().key));
        if task.is_sync() {
            let answers = made.iter().map(|(planned, effect)| (&planned.change, effect.refused()));
            registry.refusals().note(answers, &self.group.observation);
        }
        if made.iter().any(|(_, effect)| *effect == Effect::Contested) {
            _ = options.deadline.until_stop(sleep(OTHERS_OPERATIONS)).await;
        }
        for (planned, effect) in made {
            self.remember(&planned.change, &effect);
            self.group.record(planned, effect);
        }
    }

    /// Notes in the memory of the process what a call has changed.
    fn remember(&self, change: &Change, effect: &Effect) {
        let registry = self.execution.registry;
        match (change, effect) {
            (Change::CreateService { service, .. }, Effect::Created(arn)) => {
                registry.record_created(service, arn);
            }
            (Change::CreateNamespace { .. }, _) => registry.forget_namespaces(),
            (
                change,
                Effect::Contested | Effect::Settled(Outcome::Applied | Outcome::Failed { .. }),
            ) if change.stage() == Stage::Register => {
                // The next run may not be able to read the service of this instance.
                let services = &self.group.observation.registry.services;
                registry.record_registered(services.get(&change.place().key));
            }
            _ => {}
        }
    }

    async fn read(&mut self, scope: &RereadScope) -> Option<Observation> {
        let mut observation = self.group.observation.clone();
        // A namespace with an ARN counts as existing, whichever group created it.
        for namespace in observation.registry.namespaces.values_mut() {
            let created = || self.execution.registry.results.namespaces.reference(&namespace.name);
            namespace.arn = namespace.arn.take().or_else(created);
        }
        let execution = self.execution;
        self.in_time(execution.read(observation, scope)).await
    }

    /// Returns the result of a read. Without a result, fails the group.
    async fn in_time<T>(
        &mut self,
        read: impl Future<Output = Result<T, observe::Error>>,
    ) -> Option<T> {
        self.began = Instant::now();
        let read = self.execution.options.deadline.until_stop(read).await;
        self.observed = Some(Instant::now());
        match read {
            Ok(Ok(read)) => return Some(read),
            Ok(Err(error)) => self.group.fail(&Outcome::failed(chain(&error))),
            Err(_) => self.group.fail(&Outcome::out_of_time()),
        }
        None
    }
}
