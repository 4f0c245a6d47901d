//! The answers to the probes of the forwarder's pod, over HTTP. `/livez` answers as long as the process turns. `/readyz`
//! answers 200 once everything is listed and the queue has accepted a message, and 503 with the reason while it rejects
//! them: so a rollout with a wrong queue or role stops at its first pod, and the pods before it go on.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;
use tracing::warn;

/// Nothing is sent before the lists are complete, so this is also the state while they are read.
const STARTING: &str = "the cluster is being listed, and the queue has accepted no message yet";

/// What delivery says of itself, shared with the server.
#[derive(Clone, Debug)]
pub struct Health {
    /// Why the pod is not ready.
    unready: Arc<Mutex<Option<String>>>,
}

impl Default for Health {
    fn default() -> Self {
        Self { unready: Arc::new(Mutex::new(Some(STARTING.to_owned()))) }
    }
}

impl Health {
    /// Records that the queue accepted a message.
    pub fn accepted(&self) {
        *self.unready() = None;
    }

    /// Records that the queue accepted none of some messages.
    pub fn refused(&self, why: &str) {
        *self.unready() = Some(format!("the queue accepts no messages: {why}"));
    }

    fn unready(&self) -> MutexGuard<'_, Option<String>> {
        self.unready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self) -> (StatusCode, String) {
        match self.unready().clone() {
            None => (StatusCode::OK, "ready\n".to_owned()),
            Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        }
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
