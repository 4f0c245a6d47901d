//! The forwarder, an optional program that runs in a cluster: when an annotated Service or its endpoints change, it
//! sends a message to the function's queue within a second. With `MULTI_CLUSTER` it also follows exported Services.
//!
//! ```text
//! watch ──> changes ──> pending ──> deliver ──> queue
//! (kube)    (pure)      (debounced)             (SQS)
//! ```
//!
//! `health` answers the probes of its pod, by the state of the watches and of the queue, and Prometheus (`metrics`). It
//! has no state that a restart would lose: changes before its start are covered by one message about the whole cluster.
//! Two forwarders at once only send each message twice.

mod backoff;
mod changes;
mod deliver;
mod exports;
mod health;
mod metrics;
mod objects;
mod pending;
mod place;
mod queue;
mod settings;
mod watch;

use std::future::Future;

use kube::Client;
use tracing::info;

pub use health::{Health, answer_probes, listen};
pub use place::Place;
pub use queue::{Queue, sdk_config};
pub use settings::{DOCUMENTED, QueueUrl, Settings};
pub use watch::connect;

use pending::Pending;

/// Forwards the changes of a cluster to the queue until `end`.
pub async fn forward(
    client: Client,
    queue: &Queue,
    settings: &Settings,
    health: &Health,
    end: impl Future<Output = ()>,
) {
    let pending = Pending::default();
    tokio::select! {
        () = watch::follow(client, settings, health, |place| pending.add(place)) => {}
        () = deliver::deliver(queue, &pending, health, end) => {}
    }
    info!("the forwarder ends");
}
