//! Apply: makes the changes that a turn hands out, each by one call (`change`, with `service` and `instance`). It plans
//! nothing and reads nothing; if a change could be wrong, the rule against it belongs in the plan.

mod change;
mod deletion;
mod instance;
mod lead;
mod service;

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use crate::cloud_map::CloudMap;
use crate::cloud_map::admission::Admissions;
use crate::cloud_map::namespace::NewNamespaces;
use crate::cloud_map::new_service::NewServices;
use crate::model::ServiceKey;
use crate::publish::passes::{Effect, Turn};
use crate::publish::plan::{Change, Stage};
use crate::time::Deadline;

pub use deletion::delete;
use lead::Lead;

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
}

/// The calls of one turn.
struct TurnCalls<'a> {
    calls: Calls<'a>,
    turn: &'a Turn<'a>,
    /// The ARN of every Cloud Map service that exists.
    services: BTreeMap<ServiceKey, String>,
}

/// Makes changes of a turn side by side. Registrations wait for the answer to the first one: if another run is at the
/// Service, only that one meets it, and the rest is not made twice.
pub async fn apply(
    calls: Calls<'_>,
    turn: &Turn<'_>,
    changes: Vec<Change>,
) -> Vec<(Change, Effect)> {
    let leads = changes.first().is_some_and(|it| it.stage() == Stage::Register);
    let services = turn.observation().registry.services.iter();
    let services = services.map(|(key, service)| (key.clone(), service.arn.clone())).collect();
    let (of_turn, lead) = (&TurnCalls { calls, turn, services }, &Lead::default());
    stream::iter(changes.into_iter().enumerate())
        .map(|(index, change)| async move {
            let effect = match (leads, index) {
                (true, 0) => of_turn.make(&change, Some(lead)).await,
                (true, _) if !lead.is_free().await => Effect::Contested,
                _ => of_turn.make(&change, None).await,
            };
            (change, effect)
        })
        .buffer_unordered(SIDE_BY_SIDE)
        .collect()
        .await
}
