//! Apply: makes the changes that a turn hands out, each by one call (`change`, with `service`). It plans nothing; if a
//! change could be wrong, the rule against it belongs in the plan.
//!
//! Registrations are made at the pace that the rate allows. One at a time waits for its token: the others do not grow old
//! in the queue of the rate, and an endpoint that is gone by then takes no token. Nothing else is held while the slices
//! are read, so a cluster that answers late holds up no other.

mod change;
mod service;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use tokio::sync::{Mutex, SetOnce};
use tokio::time::Instant;

use crate::cloud_map::{Admission, Call, CloudMap, Permit, SharedResults, Token};
use crate::model::{Desired, InstanceKey, Outcome, ServiceKey};
use crate::publish::passes::{Effect, Turn};
use crate::publish::plan::{Change, Stage};
use crate::time::Deadline;

pub use service::delete;

/// The number of changes of a turn made at once. Most of them wait for an operation to end; the client limits the
/// calls.
const SIDE_BY_SIDE: usize = 256;

/// The parts that the calls of a run share.
#[derive(Clone, Copy)]
pub struct Calls<'a> {
    pub cloud_map: &'a CloudMap,
    pub results: &'a SharedResults,
    /// No new call begins after this time.
    pub deadline: Deadline,
    /// The start of the read that the changes rest on.
    pub observed: Instant,
    /// Reads the endpoints again that the changes are about.
    pub look: &'a Look<'a>,
}

/// A read of Services with their endpoints.
pub type Look<'a> = dyn Fn() -> BoxFuture<'a, Result<Desired, Outcome>> + Sync + 'a;

/// The calls of one turn.
struct TurnCalls<'a> {
    calls: Calls<'a>,
    turn: &'a Turn<'a>,
    /// The ARN of every Cloud Map service that exists.
    services: BTreeMap<ServiceKey, String>,
    pace: Mutex<Pace>,
}

/// Makes changes of a turn side by side; the first registration has its token if the turn has just begun. The others
/// wait for the answer to it: if another run is at the Service, only that one meets it, and the rest is not made twice.
pub async fn apply<'a>(
    calls: Calls<'a>,
    turn: &'a Turn<'a>,
    changes: Vec<Change>,
    token: Option<Token>,
) -> Vec<(Change, Effect)> {
    let leads = changes.first().is_some_and(|it| it.stage() == Stage::Register);
    let services = turn.observation.registry.services.iter();
    let services = services.map(|(key, service)| (key.clone(), service.arn.clone())).collect();
    // No other turn begins before the calls of this one have their tokens.
    let is_next = token.is_some();
    let pace = Mutex::new(Pace { token, read: calls.observed, wanted: Ok(None) });
    let (of_turn, lead) = (&TurnCalls { calls, turn, services, pace }, &Lead::new());
    let is_free = &|| async {
        let _waiting = is_next.then(|| calls.cloud_map.plan(Call::RegisterInstance));
        *lead.wait().await
    };
    stream::iter(changes.into_iter().enumerate())
        .map(|(index, change)| async move {
            let effect = match (leads, index) {
                (true, 0) => of_turn.make(&change, Some(lead)).await,
                (true, _) if !is_free().await => Effect::Contested,
                _ => of_turn.make(&change, None).await,
            };
            (change, effect)
        })
        .buffer_unordered(SIDE_BY_SIDE)
        .collect()
        .await
}

/// A registration rests on a read that is not older: pods come and go, and other runs register.
pub const FRESH: Duration = Duration::from_secs(5);

/// The last look at the endpoints of a turn.
struct Pace {
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

impl TurnCalls<'_> {
    /// Waits until the call of a change may be made.
    async fn permit(
        &self,
        call: Call,
        change: &Change,
    ) -> Result<(Permit<'_>, Option<Admission>), Effect> {
        let Calls { cloud_map, results, look, .. } = self.calls;
        if change.stage() != Stage::Register {
            return Ok((cloud_map.permit(call).await, None));
        }
        let mut pace = self.pace.lock().await;
        pace.refuse(change)?;
        let token = match pace.token.take() {
            Some(token) => token,
            None => cloud_map.token(call).await,
        };
        if pace.read.elapsed() >= FRESH {
            pace.read = Instant::now();
            pace.wanted = look().await.map(|read| self.turn.registrations_on(read));
            pace.refuse(change)?;
        }
        let admission = match change {
            // In a namespace known to be full, a Service takes the place that it freed itself, without an admission.
            Change::Register { place, .. } if !self.knows_full(&place.key) => {
                let _waiting = cloud_map.plan(call);
                let admitted = results.admissions.admit(&place.key.namespace).await;
                Some(admitted.map_err(Effect::Full)?)
            }
            _ => None,
        };
        drop(pace);
        Ok((cloud_map.permit_with(token).await, admission))
    }
}

/// The answer to the first registration: whether no other run was at the same instance.
type Lead = SetOnce<bool>;
