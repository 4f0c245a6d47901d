//! The forwarder, an optional program that runs in a cluster: when an annotated Service or its endpoints change, it
//! sends a message to the function's queue within a second. With `MULTI_CLUSTER` it also follows exported Services.
//!
//! ```text
//! watch ──> changes ──> delivery
//! (kube)    (pure)      (debounced, to SQS)
//! ```
//!
//! `health` answers the probes of the pod, from the state of the watches and of the queue, and serves metrics to
//! Prometheus. A restart loses no change: at its start the forwarder sends one message about the whole cluster, which
//! covers all earlier changes. Two forwarders at the same time only send each message twice.

mod changes;
mod delivery;
mod health;
mod settings;
mod watch;

pub use delivery::{Queue, SyncScope, sdk_config};
pub use health::{PodHealth, answer_probes, listen};
pub use settings::{DOCUMENTED, ForwarderSettings, QueueUrl};
pub use watch::connect;

/// Forwards the changes of a cluster to the queue until `end`.
pub async fn forward(
    client: kube::Client,
    queue: &Queue,
    settings: &ForwarderSettings,
    health: &PodHealth,
    end: impl Future<Output = ()>,
) {
    let pending = delivery::Pending::default();
    tokio::select! {
        () = watch::follow(client, settings, health, |scope| pending.add(scope)) => {}
        () = delivery::deliver(queue, &pending, health, end) => {}
    }
    tracing::info!("the forwarder ends");
}
