//! Apply: makes the changes that a turn hands out, each by one call (`change`). It plans nothing; if a
//! change could be wrong, the rule against it belongs in the plan.
//!
//! Registrations are made at the pace that the rate allows. One at a time waits for its token: the others do not grow old
//! in the queue of the rate, and an endpoint that is gone by then takes no token. Nothing else is held while the slices
//! are read, so a cluster that answers late holds up no other.

mod change;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use tokio::sync::SetOnce;
use tokio::time::Instant;

use crate::cloud_map::{Admission, Call, CloudMap, Permit, SharedResults, Token};
use crate::model::{Desired, InstanceKey, Outcome};
use crate::publish::passes::{Effect, Turn};
use crate::publish::plan::{Change, Stage};
use crate::time::Deadline;

use change::call_of;
pub use change::delete;

/// The number of changes of a turn made at once. Most of them wait for an operation to end; the client limits the
/// calls.
const SIDE_BY_SIDE: usize = 256;

/// The calls of one turn.
pub struct TurnCalls<'a> {
    pub cloud_map: &'a CloudMap,
    pub results: &'a SharedResults,
    /// No new call begins after this time.
    pub deadline: Deadline,
    /// The start of the read that the changes rest on.
    pub observed: Instant,
    /// Reads the endpoints again that the changes are about.
    pub look: &'a Look<'a>,
    pub turn: &'a Turn<'a>,
    /// The answer to the first call: whether no other run was at the same instance.
    pub is_free: SetOnce<bool>,
}

/// A read of Services with their endpoints.
pub type Look<'a> = dyn Fn() -> BoxFuture<'a, Result<Desired, Outcome>> + Sync + 'a;

/// Makes changes of a turn, all by calls of one kind. They get their permits one after the other, so that only those
/// under way take memory, and are made side by side. The first registration has its token if the turn has just begun.
/// The others wait for the answer to it: if another run is at the Service, only that one meets it, and the rest is not
/// made twice.
pub async fn apply(
    of_turn: &TurnCalls<'_>,
    changes: Vec<Change>,
    token: Option<Token>,
) -> Vec<(Change, Effect)> {
    let (is_next, read) = (token.is_some(), of_turn.observed);
    let pace = Pace { is_next, has_begun: false, token, read, wanted: Ok(None) };
    stream::unfold((changes.into_iter(), pace), |(mut changes, mut pace)| async move {
        let change = changes.next()?;
        let permitted = of_turn.permitted(&mut pace, &change).await;
        Some(((change, permitted), (changes, pace)))
    })
    .map(|(change, permitted)| async move {
        let effect = match permitted {
            Ok(permitted) => Box::pin(of_turn.make(&change, permitted)).await,
            Err(effect) => effect,
        };
        // Without an answer each other change makes its own call.
        _ = of_turn.is_free.set(true);
        (change, effect)
    })
    .buffer_unordered(SIDE_BY_SIDE)
    .collect()
    .await
}

/// A registration rests on a read that is not older: pods come and go, and other runs register.
pub const FRESH: Duration = Duration::from_secs(5);

/// How far the calls of a turn are, and the last look at its endpoints.
struct Pace {
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

/// The parts of a call that may be made.
struct Permitted<'a> {
    call: Call,
    arn: &'a str,
    permit: Permit<'a>,
    /// The admission of its new instance.
    admission: Option<Admission>,
}

impl TurnCalls<'_> {
    /// Waits until the call of a change may be made. There is none if the change takes calls of its own.
    async fn permitted(
        &self,
        pace: &mut Pace,
        change: &Change,
    ) -> Result<Option<Permitted<'_>>, Effect> {
        let Self { cloud_map, deadline, .. } = self;
        let Some(call) = call_of(change) else { return Ok(None) };
        let key = &change.place().key;
        let Some(service) = self.turn.observation.registry.services.get(key) else {
            return Err(self.turn.without_service(key));
        };
        let is_registration = change.stage() == Stage::Register;
        if is_registration && std::mem::replace(&mut pace.has_begun, true) {
            let _waiting = pace.is_next.then(|| cloud_map.plan(call));
            if !*self.is_free.wait().await {
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
        let Self { cloud_map, results, look, .. } = self;
        pace.refuse(change)?;
        let token = match pace.token.take() {
            Some(token) => token,
            None => cloud_map.token(call).await,
        };
        if change.stage() == Stage::Register && pace.read.elapsed() >= FRESH {
            pace.read = Instant::now();
            pace.wanted = look().await.map(|read| self.turn.registrations_on(read));
            pace.refuse(change)?;
        }
        let _waiting = cloud_map.plan(call);
        let admission = match change {
            // In a namespace known to be full, a Service takes the place that it freed itself, without an admission.
            Change::Register { place, .. } if !self.knows_full(&place.key) => {
                let admitted = results.admissions.admit(&place.key.namespace).await;
                Some(admitted.map_err(Effect::Full)?)
            }
            _ => None,
        };
        Ok(Permitted { call, arn, permit: cloud_map.permit_with(token).await, admission })
    }
}
