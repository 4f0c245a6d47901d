//! The answers to the probes of the forwarder's pod, over HTTP. `/livez` answers as long as the process turns. `/readyz`
//! answers 200 once everything is listed and the queue has accepted a message, and 503 with the reasons while the queue
//! rejects messages or a watch has failed for a minute: so a rollout with a wrong queue or role stops at its first pod,
//! and the pods before it go on.

use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tracing::warn;

/// Nothing is sent before the lists are complete, so this is also the state while they are read.
const STARTING: &str = "the cluster is being listed, and the queue has accepted no message yet";

/// How long a watch may fail while its pod stays ready. Every watch is interrupted when an API server restarts.
const LONGEST_INTERRUPTION: Duration = Duration::from_mins(1);

/// The state of delivery and of the watches, shared with the server.
#[derive(Clone, Debug)]
pub struct Health {
    condition: Arc<Mutex<Condition>>,
}

#[derive(Debug)]
struct Condition {
    /// Why the queue has no message of this pod.
    undelivered: Option<String>,
    /// The watches that failed and have not been resumed since, by name.
    failing: BTreeMap<&'static str, Failing>,
}

#[derive(Debug)]
struct Failing {
    since: Instant,
    /// The last error.
    why: String,
}

impl Default for Health {
    fn default() -> Self {
        let condition =
            Condition { undelivered: Some(STARTING.to_owned()), failing: BTreeMap::new() };
        Self { condition: Arc::new(Mutex::new(condition)) }
    }
}

impl Health {
    /// Records that the queue accepted a message.
    pub fn accepted(&self) {
        self.condition().undelivered = None;
    }

    /// Records that the queue accepted none of some messages.
    pub fn refused(&self, why: &str) {
        self.condition().undelivered = Some(format!("the queue accepts no messages: {why}"));
    }

    /// Records an error of a watch.
    pub(super) fn watch_failed(&self, name: &'static str, why: String) {
        let mut condition = self.condition();
        let since = condition.failing.get(name).map_or_else(Instant::now, |failing| failing.since);
        condition.failing.insert(name, Failing { since, why });
    }

    /// Records that the API server accepted a watch.
    pub(super) fn watch_stands(&self, name: &str) {
        self.condition().failing.remove(name);
    }

    fn condition(&self) -> MutexGuard<'_, Condition> {
        self.condition.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn answer(&self) -> (StatusCode, String) {
        let condition = self.condition();
        let reasons: Vec<String> =
            condition.failing_watches().chain(condition.undelivered.clone()).collect();
        if reasons.is_empty() {
            (StatusCode::OK, "ready\n".to_owned())
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n")
        }
    }
}

impl Condition {
    fn failing_watches(&self) -> impl Iterator<Item = String> {
        self.failing.iter().filter_map(|(name, Failing { since, why })| {
            let elapsed = since.elapsed();
            (elapsed >= LONGEST_INTERRUPTION).then(|| {
                format!("the watch of {name} has failed for {} s: {why}", elapsed.as_secs())
            })
        })
    }
}

/// Listens for probes on a port of every address, of IPv4 and IPv6.
///
/// # Errors
/// Returns an error if another process has the port.
pub async fn listen(port: u16) -> std::io::Result<TcpListener> {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        // A node may have IPv6 off.
        Err(error) if error.kind() != std::io::ErrorKind::AddrInUse => {
            TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], port))).await
        }
        bound => bound,
    }
}

/// Answers probes as long as it is polled.
pub async fn answer_probes(listener: TcpListener, health: Health) {
    let router = Router::new()
        .route("/livez", get(|| async { "alive\n" }))
        .route("/readyz", get(|State(health): State<Health>| async move { health.answer() }))
        .with_state(health);
    if let Err(error) = axum::serve(listener, router).await {
        warn!("probes are not answered any more: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_ready_from_the_first_accepted_message_and_not_while_the_queue_rejects_them() {
        let health = Health::default();
        let ready = || health.answer().0 == StatusCode::OK;
        assert!(!ready());
        health.refused("AccessDenied");
        assert!(!ready());
        health.accepted();
        assert!(ready());
        health.refused("AccessDenied: no identity-based policy allows it");
        let (status, why) = health.answer();
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(why.contains("no identity-based policy"), "{why}");
        health.accepted();
        assert!(ready());
    }
}
