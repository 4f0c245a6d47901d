//! Apply: makes the changes that a turn hands out, each by one call (`change`, with `service`), at the
//! `pace` that the rate allows. It plans nothing; if a change could be wrong, the rule against it belongs in the plan.

mod change;
mod pace;
mod service;

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::cloud_map::admission::Admissions;
use crate::cloud_map::namespace::NewNamespaces;
use crate::cloud_map::new_service::NewServices;
use crate::cloud_map::{Call, CloudMap, Token};
use crate::model::{Desired, Outcome, ServiceKey};
use crate::publish::passes::{Effect, Turn};
use crate::publish::plan::{Change, Stage};
use crate::time::Deadline;

pub use pace::FRESH;
use pace::{Lead, Pace};
pub use service::delete;

/// The number of changes of a turn made at once. Most of them wait for an operation to end; the client limits the
/// calls.
const SIDE_BY_SIDE: usize = 256;

/// The parts that the calls of a run share.
#[derive(Clone, Copy)]
pub struct Calls<'a> {
    pub cloud_map: &'a CloudMap,
    pub new_namespaces: &'a NewNamespaces,
    pub new_services: &'a NewServices,
    /// The registrations that full namespaces admit.
    pub admissions: &'a Admissions,
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
    let services = turn.observation().registry.services.iter();
    let services = services.map(|(key, service)| (key.clone(), service.arn.clone())).collect();
    // No other turn begins before the calls of this one have their tokens.
    let is_next = token.is_some();
    let pace = Mutex::new(Pace::new(token, calls.observed));
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
