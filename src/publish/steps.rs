//! Carries out the steps of one group, from its first change to its last. It decides nothing.
//!
//! A group waits until its next additions are admitted, since only so many calls wait for their tokens at a time. Only
//! then does the group read the data that they rest on, unless that was read a moment ago. So the plans of 1,000 groups
//! do not become stale while they wait for the rate limit. Each change is sent as soon as it has its token: no call
//! waits for the reply to another one. A group whose cluster answers slowly frees its admission slots for other groups.

use std::pin::pin;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::{Instant, sleep, timeout};

use super::apply::GroupCalls;
use super::group::{Effect, GroupSync, PlannedChange, Results, Step};
use super::{Execution, observe};
use crate::cloud_map::{AdmissionSlots, Call};
use crate::error::chain;
use crate::model::Outcome;
use crate::publish::plan::{Change, Observation, Reason, RereadScope, Stage};

/// The maximum number of changes of a group made concurrently. Most of them wait for an operation to end; the client
/// limits the calls.
const MAX_CONCURRENT_CHANGES: usize = 256;
/// The maximum age of the read when an addition is sent: pods come and go, and other runs register.
const MAX_AGE_WHEN_SENT: Duration = Duration::from_secs(5);
/// The maximum age of the read when a group begins the additions of a stage. If a run registers many instances, the
/// next run of the schedule may have begun meanwhile and have registered the same instances.
const MAX_AGE_WHEN_BEGUN: Duration = Duration::from_secs(1);
/// The wait after a conflict with another run. That run has begun more than one change of the same Service, and a read
/// shows these only when their operations have ended.
const CONFLICT_WAIT: Duration = Duration::from_secs(2);
/// A group that reads for longer than this frees its admission slots.
const MAX_READ_WITH_SLOTS: Duration = Duration::from_secs(1);

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
    /// The admission slots of the additions that come next, if the group waited for them before it read.
    slots: Option<(Call, AdmissionSlots)>,
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
    let mut runner = Runner { execution, group, began, listed, observed, slots: None };
    // Many groups wait here at a time, so their futures are kept small.
    Box::pin(runner.run()).await;
    runner.group.into_results()
}

/// Returns the call that makes these changes of one stage, if they register instances or create services. Only these
/// calls need admission.
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
                    if let Some(read) =
                        self.until_deadline(execution.read_endpoints(services)).await
                    {
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
        let mut not_retried = Vec::new();
        let answers = self.refusals(&changes);
        for (planned, answer) in changes.into_iter().zip(answers) {
            match answer {
                Some(answer) => not_retried.push((planned, answer)),
                None => tried.push(planned),
            }
        }
        let mut slots = AdmissionSlots::default();
        let call = call_of_additions(&tried);
        if let Some(call) = call {
            let Some(admitted) = self.admit(call, tried.len()).await else {
                return self.settle_out_of_time(tried);
            };
            slots = admitted;
        }
        if self.is_old_for(&tried) {
            let changes =
                tried.into_iter().chain(not_retried.into_iter().map(|(planned, _)| planned));
            let read = self.read_again_for(changes.collect(), call.map(|call| (call, slots))).await;
            if let Some(read) = read {
                self.group.observed(read);
            }
            return;
        }
        self.apply(tried, slots).await;
        for (planned, answer) in not_retried {
            self.group.record_earlier_refusal(planned, answer);
        }
    }

    /// Whether the read that these changes rest on is too old for them.
    fn is_old_for(&self, changes: &[PlannedChange]) -> bool {
        let Some(planned) = changes.first() else { return false };
        match self.observed {
            // A note needs no read here: it is written and removed on a read of its instance.
            None => !planned.change.is_note(),
            Some(observed) => {
                call_of_additions(changes).is_some() && observed.elapsed() >= MAX_AGE_WHEN_BEGUN
            }
        }
    }

    /// Reads the data that these changes rest on. Keeps their admission slots only for a short time.
    async fn read_again_for(
        &mut self,
        changes: Vec<PlannedChange>,
        mut slots: Option<(Call, AdmissionSlots)>,
    ) -> Option<Observation> {
        // The reads of an earlier run may lack a service that a list of this run shows.
        let is_listed = self.observed.is_some();
        let scope = self.group.refresh(changes, is_listed);
        let read = {
            let mut reading = pin!(self.read(&scope));
            if let Ok(read) = timeout(MAX_READ_WITH_SLOTS, &mut reading).await {
                read
            } else {
                if let Some((_, held)) = &mut slots {
                    *held = AdmissionSlots::default();
                }
                reading.await
            }
        };
        self.slots = slots;
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
        registry.refusals().remembered_answers(changes, &self.group.observation)
    }

    /// Waits until the additions of a stage are admitted. Only one group of a run waits for each call at a time, so
    /// that groups of other clusters get their turn.
    async fn admit(&mut self, call: Call, calls: usize) -> Option<AdmissionSlots> {
        if let Some((admitted_call, slots)) = self.slots.take()
            && admitted_call == call
        {
            return Some(slots);
        }
        let execution = self.execution;
        let admit = async {
            let turns = &execution.admission_turns;
            let turn =
                if call == Call::CreateService { &turns.creation } else { &turns.registration };
            let _turn = turn.lock().await;
            execution.registry.cloud_map.admit(call, calls).await
        };
        execution.options.deadline.until_stop(admit).await.ok()
    }

    fn settle_out_of_time(&mut self, changes: Vec<PlannedChange>) {
        for planned in changes {
            self.group.record(planned, Effect::Settled(Outcome::out_of_time()));
        }
    }

    async fn apply(&mut self, changes: Vec<PlannedChange>, mut slots: AdmissionSlots) {
        let Execution { task, registry, options, .. } = self.execution;
        let cloud_map = &registry.cloud_map;
        let calls = &GroupCalls::new(
            cloud_map,
            &registry.results,
            options.deadline,
            self.listed,
            self.observed.unwrap_or_else(Instant::now) + MAX_AGE_WHEN_SENT,
            &self.group,
        );
        let made: Vec<(PlannedChange, Effect)> = stream::iter(changes)
            .map(|planned| {
                let slot = slots.split();
                async move {
                    let effect = Box::pin(calls.make(&planned.change, slot)).await;
                    (planned, effect)
                }
            })
            .buffer_unordered(MAX_CONCURRENT_CHANGES)
            .collect()
            .await;
        registry.record_changed(made.iter().map(|(planned, _)| &planned.change.place().key));
        if task.is_sync() {
            let answers =
                made.iter().map(|(planned, effect)| (&planned.change, effect.permanent_refusal()));
            registry.refusals().record(answers, &self.group.observation);
        }
        if made.iter().any(|(_, effect)| *effect == Effect::Contested) {
            _ = options.deadline.until_stop(sleep(CONFLICT_WAIT)).await;
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
        self.until_deadline(execution.read(observation, scope)).await
    }

    /// Returns the result of a read. Without a result, fails the group.
    async fn until_deadline<T>(
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
