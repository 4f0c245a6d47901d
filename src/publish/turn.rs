//! One turn, from its first change to its last: makes the changes that the pass machine hands out, and does the reads
//! that it asks for. It decides nothing.
//!
//! Registrations are made at the pace that the rate allows. One at a time waits for its token: the others do not grow old
//! in the queue of the rate, and an endpoint that is gone by then takes no token. Nothing else is held while the slices
//! are read, so a cluster that answers late holds up no other.
//!
//! The order in which the turns of a run begin needs no memory between runs, only the clock: runs that are cut short do not
//! leave the same Services for last, and overlapping runs are seldom at the same one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::sync::{Mutex, SetOnce};
use tokio::time::Instant;

use super::{Execution, Options, observe};
use crate::cloud_map::{Call, CloudMap, Token, Urgency};
use crate::error::chain;
use crate::model::{InstanceKey, Outcome, ServiceRef, Timestamp, fingerprint};
use crate::publish::apply::{Permitted, TurnCalls, call_of};
use crate::publish::passes::{Effect, Results, Step, Turn};
use crate::publish::plan::{Change, Observation, Reason, RereadScope, Stage};

/// The number of changes of a turn made at once. Most of them wait for an operation to end; the client limits the
/// calls.
const SIDE_BY_SIDE: usize = 256;
/// A registration rests on a read that is not older: pods come and go, and other runs register.
const FRESH: Duration = Duration::from_secs(5);
/// In place of `FRESH` for a run that registers so much that the next run of the schedule may begin meanwhile.
const BULK: Duration = Duration::from_secs(2);
/// The same limit if this run has met another one.
const CROWDED: Duration = Duration::from_secs(1);
/// A Service with at most this number of changes does not wait for those with many: it goes first if there is much to do.
const FEW: usize = 10;

/// The turns of one run begin one after the other, by their first call and their urgency: many plans that were made at
/// a time would be old again when they are due.
#[derive(Default)]
pub(super) struct Beginnings([Mutex<()>; 4]);

impl Beginnings {
    fn of(&self, call: Call, urgency: Urgency) -> &Mutex<()> {
        let creates = usize::from(call == Call::CreateService);
        &self.0[2 * creates + usize::from(urgency != Urgency::Urgent)]
    }
}

/// A turn with the parts of the world that it needs.
struct Shell<'a> {
    execution: &'a Execution<'a>,
    cloud_map: CloudMap,
    options: Options,
    beginnings: &'a Beginnings,
    turn: Turn<'a>,
    /// The start of the read that the next changes rest on.
    observed: Instant,
    /// Whether it registers, and has met no other run since.
    has_begun: bool,
    /// The token with which it begins, for a call of this kind.
    token: Option<(Call, Token)>,
}

/// Takes a turn to its end.
pub(super) async fn run<'a>(
    execution: &'a Execution<'a>,
    turn: Turn<'a>,
    options: Options,
    beginnings: &'a Beginnings,
) -> Results {
    let cloud_map = execution.registry.cloud_map.clone();
    let (observed, has_begun, token) = (options.observed, !execution.task.is_sync(), None);
    let mut shell =
        Shell { execution, cloud_map, options, beginnings, turn, observed, has_begun, token };
    if let Some(made) = execution.made {
        shell.turn.record_made(made);
    }
    let tried = shell.refusals(&shell.turn.open).iter().filter(|it| it.is_none()).count();
    if tried <= FEW {
        shell.options.urgency = Urgency::Urgent;
    }
    shell.cloud_map = shell.cloud_map.with(shell.options.urgency);
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
            let step = self.turn.next(self.options.deadline.is_open());
            let token = self.token.take();
            match step {
                Step::Make(changes) => self.make(changes, token).await,
                Step::Read(scope) => {
                    if let Some(read) = self.read(&scope).await {
                        self.turn.observed(read);
                    }
                }
                Step::ReadEndpoints(services) => {
                    let execution = self.execution;
                    if let Some(read) = self.in_time(execution.read_endpoints(services)).await {
                        self.turn.endpoints_read(read);
                    }
                }
                Step::Done => return,
            }
        }
    }

    /// Makes changes, but those that Cloud Map would only refuse again. The first ones are made as soon as the rates
    /// allow it, on a plan that is made again if it is old by then.
    async fn make(&mut self, changes: Vec<Change>, mut token: Option<(Call, Token)>) {
        let refusals = self.refusals(&changes);
        let (refused, tried): (Vec<_>, Vec<_>) =
            changes.into_iter().zip(refusals).partition(|(_, refusal)| refusal.is_some());
        let tried: Vec<Change> = tried.into_iter().map(|(change, _)| change).collect();
        if let Some(call) = first_call(&tried).filter(|_| !self.has_begun) {
            self.has_begun = true;
            let beginning = self.beginnings.of(call, self.options.urgency);
            let begun = async { (beginning.lock().await, self.begin(call).await) };
            let begun = self.options.deadline.until_stop(begun).await.ok();
            let (_alone, begun) = begun.unzip();
            token = begun;
            if token.is_some() && self.is_old() {
                // It keeps its token. Turns of other runs begin meanwhile: a cluster that answers late holds up no other.
                self.token = token;
                let refused = refused.into_iter().map(|(change, _)| change);
                let scope = self.turn.refresh(tried.into_iter().chain(refused).collect());
                if let Some(read) = self.read(&scope).await {
                    self.turn.refreshed(read);
                }
                return;
            }
        }
        self.apply(tried, token).await;
        for (change, refusal) in refused {
            if let Some(refusal) = refusal {
                self.turn.leave(change, refusal);
            }
        }
    }

    /// The answers that changes had before, if they are not tried again yet. A person has them tried.
    fn refusals(&self, changes: &[Change]) -> Vec<Option<Reason>> {
        if !self.execution.task.is_sync() || self.options.is_direct {
            return vec![None; changes.len()];
        }
        self.execution.registry.refusals().standing(changes.iter(), &self.turn.observation)
    }

    /// Waits for the token of the first call.
    async fn begin(&self, call: Call) -> (Call, Token) {
        // A service is created when its instances can be registered right after.
        if call == Call::CreateService {
            drop(self.cloud_map.first_token(Call::RegisterInstance).await);
        }
        (call, self.cloud_map.first_token(call).await)
    }

    /// Whether the plan is made again before it registers anything.
    fn is_old(&self) -> bool {
        let fresh = match self.execution.registry.results.admissions.met_another() {
            true => CROWDED,
            false if self.options.is_bulk => BULK,
            false => FRESH,
        };
        self.observed.elapsed() >= fresh
    }

    async fn apply(&mut self, changes: Vec<Change>, token: Option<(Call, Token)>) {
        let registry = self.execution.registry;
        let first = first_call(&changes).filter(|first| *first == Call::RegisterInstance);
        let token = token.filter(|(call, _)| first == Some(*call)).map(|(_, token)| token);
        let made = self.call_all(changes, token).await;
        registry.note_changed(made.iter().map(|(change, _)| &change.place().key));
        if self.execution.task.is_sync() {
            let answers = made.iter().map(|(change, effect)| (change, effect.refused()));
            registry.refusals().note(answers, &self.turn.observation);
        }
        for (change, effect) in made {
            match (&change, &effect) {
                (Change::CreateService { service, .. }, Effect::Created(arn)) => {
                    registry.note_created(service, arn);
                }
                (Change::CreateNamespace { .. }, _) => registry.forget_namespaces(),
                (
                    change,
                    Effect::Contested | Effect::Is(Outcome::Applied | Outcome::Failed { .. }),
                ) if change.stage() == Stage::Register => {
                    // The next run may not be able to read its service any more.
                    let services = &self.turn.observation.registry.services;
                    registry.note_registered(services.get(&change.place().key));
                }
                _ => {}
            }
            if effect == Effect::Contested {
                self.has_begun = !self.execution.task.is_sync();
                registry.results.admissions.meet_another();
            }
            self.turn.record(change, effect);
        }
    }

    /// Makes changes of a turn, all by calls of one kind. They get their permits one after the other, so that only those
    /// under way take memory, and are made side by side. The first registration has its token if the turn has just begun.
    /// The others wait for the answer to it: if another run is at the Service, only that one meets it, and the rest is not
    /// made twice.
    async fn call_all(&self, changes: Vec<Change>, token: Option<Token>) -> Vec<(Change, Effect)> {
        let calls = &TurnCalls {
            cloud_map: &self.cloud_map,
            results: &self.execution.registry.results,
            deadline: self.options.deadline,
            observed: self.observed,
            turn: &self.turn,
            is_free: SetOnce::new(),
        };
        let pace = Pace {
            services: changes.iter().map(|it| self.turn.service(it).clone()).collect(),
            is_next: token.is_some(),
            has_begun: false,
            token,
            read: self.observed,
            wanted: Ok(None),
        };
        stream::unfold((changes.into_iter(), pace), |(mut changes, mut pace)| async move {
            let change = changes.next()?;
            let permitted = self.permitted(calls, &mut pace, &change).await;
            Some(((change, permitted), (changes, pace)))
        })
        .map(|(change, permitted)| async move {
            let effect = match permitted {
                Ok(permitted) => Box::pin(calls.make(&change, permitted)).await,
                Err(effect) => effect,
            };
            // Without an answer each other change makes its own call.
            _ = calls.is_free.set(true);
            (change, effect)
        })
        .buffer_unordered(SIDE_BY_SIDE)
        .collect()
        .await
    }

    /// Waits until the call of a change may be made. There is none if the change takes calls of its own.
    async fn permitted<'a>(
        &'a self,
        calls: &TurnCalls<'_>,
        pace: &mut Pace,
        change: &Change,
    ) -> Result<Option<Permitted<'a>>, Effect> {
        let (cloud_map, deadline) = (&self.cloud_map, self.options.deadline);
        let Some(call) = call_of(change) else { return Ok(None) };
        let key = &change.place().key;
        let Some(service) = self.turn.observation.registry.services.get(key) else {
            return Err(self.turn.without_service(key));
        };
        let is_registration = change.stage() == Stage::Register;
        if is_registration && std::mem::replace(&mut pace.has_begun, true) {
            let _waiting = pace.is_next.then(|| cloud_map.plan(call));
            if !*calls.is_free.wait().await {
                return Err(Effect::Contested);
            }
        }
        match deadline.until_stop(self.permit(pace, call, &service.arn, change)).await {
            Ok(Ok(permitted)) if deadline.is_open() => Ok(Some(permitted)),
            Ok(Err(effect)) => Err(effect),
            _ => Err(Effect::Is(Outcome::out_of_time())),
        }
    }

    async fn permit<'a>(
        &'a self,
        pace: &mut Pace,
        call: Call,
        arn: &'a str,
        change: &Change,
    ) -> Result<Permitted<'a>, Effect> {
        let cloud_map = &self.cloud_map;
        pace.refuse(change)?;
        let token = match pace.token.take() {
            Some(token) => token,
            None => cloud_map.token(call).await,
        };
        if change.stage() == Stage::Register && pace.read.elapsed() >= FRESH {
            pace.read = Instant::now();
            let services = self.turn.observation.desired_of(pace.services.iter());
            let read = Box::pin(self.execution.read_endpoints(services)).await;
            pace.wanted = read
                .map(|read| self.turn.registrations_on(read))
                .map_err(|error| Outcome::failed(chain(&error)));
            pace.refuse(change)?;
        }
        let _waiting = cloud_map.plan(call);
        let capacity = &self.turn.observation.registry.capacity;
        let admission = match change {
            // In a namespace known to be full, a Service takes the place that it freed itself, without an admission.
            Change::Register { place, .. } if capacity.refusal(&place.key).is_none() => {
                let admissions = &self.execution.registry.results.admissions;
                let admitted = admissions.admit(&place.key.namespace).await;
                Some(admitted.map_err(Effect::Full)?)
            }
            _ => None,
        };
        Ok(Permitted { call, arn, permit: cloud_map.permit_with(token).await, admission })
    }

    async fn read(&mut self, scope: &RereadScope) -> Option<Observation> {
        let mut observation = self.turn.observation.clone();
        // With its ARN a namespace counts as existing, whichever turn created it.
        for namespace in observation.registry.namespaces.values_mut() {
            let created = || self.execution.registry.results.namespaces.reference(&namespace.name);
            namespace.arn = namespace.arn.take().or_else(created);
        }
        let execution = self.execution;
        self.in_time(execution.read(observation, scope)).await
    }

    /// The result of a read; without it the turn fails.
    async fn in_time<T>(
        &mut self,
        read: impl Future<Output = Result<T, observe::Error>>,
    ) -> Option<T> {
        self.observed = Instant::now();
        match self.options.deadline.until_stop(read).await {
            Ok(Ok(read)) => return Some(read),
            Ok(Err(error)) => self.turn.fail(&Outcome::failed(chain(&error))),
            Err(_) => self.turn.fail(&Outcome::out_of_time()),
        }
        None
    }
}

/// How far the calls of a turn are, and the last look at its endpoints.
struct Pace {
    /// The Services of the changes.
    services: BTreeSet<ServiceRef>,
    /// Whether no other turn begins before the calls of this one have their tokens.
    is_next: bool,
    /// Whether the first registration was begun.
    has_begun: bool,
    /// The token of the first registration.
    token: Option<Token>,
    /// The start of the last read.
    read: Instant,
    /// The registrations that are wanted since, if endpoints have changed.
    wanted: Result<Option<BTreeMap<InstanceKey, Change>>, Outcome>,
}

impl Pace {
    /// The effect on a registration that is not made.
    fn refuse(&self, change: &Change) -> Result<(), Effect> {
        let is_wanted = |wanted: &BTreeMap<InstanceKey, Change>| {
            change.instance_key().is_some_and(|key| wanted.get(&key) == Some(change))
        };
        match &self.wanted {
            Err(outcome) => Err(Effect::Is(outcome.clone())),
            Ok(Some(wanted)) if !is_wanted(wanted) => Err(Effect::Outdated),
            Ok(_) => Ok(()),
        }
    }
}

/// Puts turns into the order of a run that begins at this time: by hash, so a run in the next minute has another one.
pub fn shuffle<T>(now: Timestamp, turns: Vec<T>) -> Vec<T> {
    let minute = (now.as_second() / 60).to_string();
    let hash = |place: usize| fingerprint::<8>(&[&minute, &place.to_string()]);
    let mut turns: Vec<(String, T)> =
        turns.into_iter().enumerate().map(|(place, turn)| (hash(place), turn)).collect();
    turns.sort_by(|(one, _), (other, _)| one.cmp(other));
    turns.into_iter().map(|(_, turn)| turn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(minute: i64, count: usize) -> Vec<usize> {
        let now = Timestamp::from_second(minute * 60).expect("a time");
        shuffle(now, (0..count).collect())
    }

    #[test]
    fn every_turn_begins_once_whatever_the_minute() {
        for count in [0, 1, 2, 3, 7, 12, 80, 97, 1000] {
            for minute in 29_000_000..29_000_050 {
                let mut places = order(minute, count);
                places.sort_unstable();
                assert_eq!(places, (0..count).collect::<Vec<_>>(), "{count} turns in {minute}");
            }
        }
    }

    #[test]
    fn runs_of_successive_minutes_are_seldom_at_the_same_turn() {
        let runs: Vec<Vec<usize>> = (29_000_000..29_000_020).map(|it| order(it, 200)).collect();
        let last: std::collections::BTreeSet<usize> = runs.iter().map(|run| run[199]).collect();
        assert!(last.len() > 15, "{last:?} are last");
        for runs in runs.windows(2) {
            // The one a quarter ahead of the other, as if it had begun earlier.
            for ahead in [0, 50, 100, 150] {
                let pairs = runs[0].iter().cycle().skip(ahead).zip(&runs[1]);
                let same = pairs.take(200).filter(|(one, other)| one == other).count();
                assert!(same < 20, "{same} of 200 at the same time");
            }
        }
    }
}
