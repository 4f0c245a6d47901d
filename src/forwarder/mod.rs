//! The forwarder that may run in a cluster, in a binary of its own: when an annotated Service or the
//! endpoints behind it change, the function's queue hears of it within a second.
//!
//! ```text
//! watch ──> changes ──> pending ──> deliver ──> queue
//! (kube)    (pure)      (a moment)              (SQS)
//! ```
//!
//! It keeps nothing that a restart would lose: what changed while nobody watched is asked for with one
//! message about the whole cluster. Two of them at once only send each message twice.

mod backoff;
mod changes;
mod deliver;
mod followed;
mod pending;
mod place;
mod queue;
mod settings;
mod watch;

use std::future::Future;

use kube::Client;
use tracing::info;

pub use place::Place;
pub use queue::{Queue, sdk_config};
pub use settings::{DOCUMENTED, QueueUrl, Settings};
pub use watch::connect;

use pending::Pending;

/// Forwards what changes in a cluster to the queue until `end` comes.
pub async fn forward(
    client: Client,
    queue: &Queue,
    annotation_prefix: &str,
    end: impl Future<Output = ()>,
) {
    let pending = Pending::default();
    tokio::select! {
        () = watch::follow(client, annotation_prefix, |place| pending.add(place)) => {}
        () = deliver::deliver(queue, &pending, end) => {}
    }
    info!("the forwarder ends");
}
