//! Changed pods of an hour: one message for each, beside the full syncs. A changed pod is one that is replaced; a process
//! that knows its Service has the message.

use cloud_map_sync::cloud_map::Call;

use super::deployment::{Deployment, count};
use super::measured;
use super::money;

/// The invocations for events that the queue starts at once, and the most messages of one (template.yaml).
const AT_ONCE: f64 = 2.0;
const BATCH: f64 = 1000.0;
const HOUR: f64 = 3600.0;

/// The events of an hour.
pub struct Events {
    pub calls: usize,
    /// The part of one account's share of ListInstances.
    pub part: f64,
    /// The seconds of invocations, if no two messages arrive together; at most all that the queue starts.
    pub seconds: f64,
    pub dollars: f64,
}

impl Events {
    pub fn of(deployment: &Deployment, pods: usize) -> Self {
        let calls = deployment.fleet.changed_pod();
        let listed = count(calls["ListInstances"] * pods);
        let seconds = (count(pods) * measured::message()).min(AT_ONCE * HOUR);
        let memory = deployment.memory().unwrap_or_default();
        let dollars = money::lambda(count(pods), seconds, memory) + money::messages(count(pods));
        Self {
            calls: calls.values().sum::<usize>() * pods,
            part: listed / rate_of(Call::ListInstances, deployment),
            seconds,
            dollars,
        }
    }
}

/// The pods that can change in an hour, and the limit: the rates that the full syncs leave over, or the queue.
pub fn most(deployment: &Deployment) -> Option<(f64, &'static str)> {
    let rounds = 60.0 / count(deployment.schedule()?);
    let calls = deployment.calls();
    let left = Call::ALL.into_iter().filter_map(|call| {
        let name = format!("{call:?}");
        let (name, of_pod) = deployment.fleet.changed_pod().remove_entry(name.as_str())?;
        let of_rounds = rounds * count(calls.get(name).copied().unwrap_or_default());
        let accounts = count(deployment.fleet.accounts);
        let left = (rate_of(call, deployment) * accounts - of_rounds).max(0.0);
        Some((left / count(of_pod), name))
    });
    let queue = (AT_ONCE * BATCH * HOUR / measured::message(), "the queue");
    left.chain([queue]).min_by(|a, b| a.0.total_cmp(&b.0))
}

/// The calls of an hour to one account.
fn rate_of(call: Call, deployment: &Deployment) -> f64 {
    call.rate().per_second * deployment.share * HOUR
}
