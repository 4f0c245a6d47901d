//! One turn: makes the changes that the pass machine hands out, and reads what it asks for. It decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::{Instant, timeout_at};

use super::lead::Lead;
use super::{Outcome, Results, SIDE_BY_SIDE, Task, Terms};
use crate::cloud_map::{Call, CloudMap, Gate};
use crate::model::{ServiceKey, ServiceRef};
use crate::observe;
use crate::passes::{Effect, NO_TIME, Step, Turn};
use crate::plan::{Change, Observation, Observed, RereadScope, Stage};
use crate::report::chain;

/// A plan that is older than this is made again before anything is registered on its strength: pods come and go, and
/// other runs register.
const FRESH: Duration = Duration::from_secs(5);
/// The same if this run has met another one.
const CROWDED: Duration = Duration::from_secs(1);

/// What the calls of one turn need.
pub(super) struct Shell<'a> {
    pub(super) cloud_map: CloudMap,
    pub(super) terms: Terms,
    pub(super) task: &'a Task<'a>,
    pub(super) turn: Turn<'a>,
    /// When the reading began that the next changes rest on.
    observed: Instant,
}

/// Takes a turn to its end.
pub(super) async fn take<'a>(task: &'a Task<'a>, turn: Turn<'a>, terms: Terms) -> Results {
    let terms = Terms { urgency: terms.urgency(turn.len()), ..terms };
    let cloud_map = task.registry().cloud_map().with(terms.urgency);
    let mut shell = Shell { cloud_map, terms, task, turn, observed: terms.observed };
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
        let mut has_begun = false;
        loop {
            match self.turn.next(self.terms.deadline.is_open()) {
                Step::Make(changes) => {
                    if let Some(call) = first_call(&changes)
                        && !has_begun
                        && self.task.is_sync()
                    {
                        has_begun = true;
                        self.begin(call, changes).await;
                    } else {
                        self.make_all(changes).await;
                    }
                }
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

    /// Begins to register when there is a turn for it, on a plan that is made again if it is old by then.
    async fn begin(&mut self, call: Call, changes: Vec<Change>) {
        let gate = async {
            // A service is created when its instances can be registered right after.
            drop(self.cloud_map.gate(Call::RegisterInstance).await);
            self.cloud_map.gate(call).await
        };
        let gate: Option<Gate> = timeout_at(self.terms.deadline.stop(), gate).await.ok();
        let fresh = if self.task.registry().admissions().met_another() { CROWDED } else { FRESH };
        if self.observed.elapsed() < fresh || gate.is_none() {
            drop(gate);
            return self.make_all(changes).await;
        }
        let scope = self.turn.refresh(changes);
        if let Some(read) = self.read(&scope).await {
            self.turn.refreshed(read);
        }
        drop(gate);
    }

    /// Makes changes side by side. Registrations wait for the answer to the first one: if another run is at the
    /// Service, that one meets it, and the rest is not made twice.
    async fn make_all(&mut self, changes: Vec<Change>) {
        let leads = changes.first().is_some_and(|it| it.stage() == Stage::Register);
        let (shell, services, lead) = (&*self, &self.arns(), &Lead::default());
        let made: Vec<(Change, Effect)> = stream::iter(changes.into_iter().enumerate())
            .map(|(index, change)| async move {
                let effect = match (leads, index) {
                    (true, 0) => shell.make(&change, services, Some(lead)).await,
                    (true, _) if !lead.is_free().await => Effect::Contested,
                    _ => shell.make(&change, services, None).await,
                };
                (change, effect)
            })
            .buffer_unordered(SIDE_BY_SIDE)
            .collect()
            .await;
        for (change, effect) in made {
            if effect == Effect::Contested {
                self.task.registry().admissions().meet_another();
            }
            self.turn.record(change, effect);
        }
    }

    async fn read(&mut self, scope: &RereadScope) -> Option<Observed> {
        self.observed = Instant::now();
        let mut observation = self.turn.observation().clone();
        // Its ARN makes a namespace one that is there, whichever turn created it.
        for namespace in observation.registry.namespaces.values_mut() {
            let created = || self.task.registry().new_namespaces().arn(&namespace.name);
            namespace.arn = namespace.arn.take().or_else(created);
        }
        let read = self.task.read(observation, scope);
        let read = timeout_at(self.terms.deadline.stop(), read).await;
        self.settle(read)
    }

    async fn read_endpoints(&mut self, services: &BTreeSet<ServiceRef>) -> Option<Observation> {
        self.observed = Instant::now();
        let observation = self.turn.observation().clone();
        let read = self.task.read_endpoints(observation, services);
        let read = timeout_at(self.terms.deadline.stop(), read).await;
        self.settle(read)
    }

    fn settle<R, T>(&mut self, read: Result<Result<R, observe::Error>, T>) -> Option<R> {
        match read {
            Ok(Ok(read)) => return Some(read),
            Ok(Err(error)) => self.turn.fail(&Outcome::Failed(chain(&error))),
            Err(_) => self.turn.fail(&Outcome::Undone(NO_TIME.to_owned())),
        }
        None
    }

    fn arns(&self) -> BTreeMap<ServiceKey, String> {
        let services = self.turn.observation().registry.services.iter();
        services.map(|(key, service)| (key.clone(), service.arn.clone())).collect()
    }
}
