//! The HTTP server of the forwarder's pod. `/livez` answers as long as the process runs. `/readyz` answers 200 once all
//! first lists are complete and the queue has accepted a message. It answers 503 with the reasons while the queue
//! rejects messages or a watch has failed for a minute. So a rollout with a wrong queue or role stops at its first pod,
//! and the old pods stay. `/metrics` serves the metrics to Prometheus.

use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tracing::warn;

/// The content type of `/metrics`, as the OpenMetrics specification defines it.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The state before the first accepted message. No message is sent before the first lists are complete.
const STARTING: &str = "the cluster is being listed, and the queue has accepted no message yet";

/// How long a watch may fail while its pod stays ready. Every watch is interrupted when an API server restarts.
const LONGEST_INTERRUPTION: Duration = Duration::from_mins(1);

/// The state of delivery and of the watches, shared with the server.
#[derive(Clone, Debug)]
pub struct PodHealth {
    condition: Arc<Mutex<HealthState>>,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
struct HealthState {
    /// Why the last request delivered no message, or `STARTING`. `None` if it delivered one.
    undelivered: Option<String>,
    /// The watches that failed and have not been resumed since, by name, with the time of the first failure and the
    /// last error.
    failing: BTreeMap<&'static str, (Instant, String)>,
}

impl Default for PodHealth {
    fn default() -> Self {
        let condition =
            HealthState { undelivered: Some(STARTING.to_owned()), failing: BTreeMap::new() };
        Self { condition: Arc::new(Mutex::new(condition)), metrics: Arc::default() }
    }
}

impl PodHealth {
    /// Records the queue's answer to one request: `accepted` has the time since the change for each accepted message,
    /// `rejected` is the number of rejected messages, and `why` is the reason for one of them.
    pub(super) fn delivered(&self, accepted: &[Duration], rejected: usize, why: Option<&str>) {
        for after in accepted {
            self.metrics.sent.inc();
            self.metrics.delays.observe(after.as_secs_f64());
        }
        self.metrics.rejected.inc_by(u64::try_from(rejected).unwrap_or(u64::MAX));
        self.condition().undelivered = why
            .filter(|_| accepted.is_empty())
            .map(|why| format!("the queue accepts no messages: {why}"));
    }

    /// Records an error of a watch.
    pub(super) fn watch_failed(&self, name: &'static str, why: String) {
        self.metrics.watch_failures.get_or_create(&[("watch", name)]).inc();
        let mut condition = self.condition();
        let since = condition.failing.get(name).map_or_else(Instant::now, |(since, _)| *since);
        condition.failing.insert(name, (since, why));
    }

    /// Records that the API server accepted a watch.
    pub(super) fn watch_accepted(&self, name: &str) {
        self.condition().failing.remove(name);
    }

    fn condition(&self) -> MutexGuard<'_, HealthState> {
        self.condition.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all metrics as text in the format OpenMetrics 1.0.
    fn numbers(&self) -> String {
        self.metrics.ready.set((self.answer().0 == StatusCode::OK).into());
        let mut text = String::new();
        encode(&mut text, &self.metrics.registry).expect("a String takes all text");
        text
    }

    /// Returns the answer to `/readyz`.
    pub(super) fn answer(&self) -> (StatusCode, String) {
        let condition = self.condition();
        let failing = condition.failing.iter().filter_map(|(name, (since, why))| {
            let elapsed = since.elapsed();
            (elapsed >= LONGEST_INTERRUPTION).then(|| {
                format!("the watch of {name} has failed for {} s: {why}", elapsed.as_secs())
            })
        });
        let reasons: Vec<String> = failing.chain(condition.undelivered.clone()).collect();
        if reasons.is_empty() {
            (StatusCode::OK, "ready\n".to_owned())
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n")
        }
    }
}

/// Listens for probes and Prometheus on `port` of every IPv4 and IPv6 address.
///
/// # Errors
/// Returns an error if another process listens on the port.
pub async fn listen(port: u16) -> std::io::Result<TcpListener> {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        // IPv6 may be disabled on the node.
        Err(error) if error.kind() != std::io::ErrorKind::AddrInUse => {
            TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], port))).await
        }
        bound => bound,
    }
}

/// Answers probes and Prometheus as long as it is polled.
pub async fn answer_probes(listener: TcpListener, health: PodHealth) {
    let router = Router::new()
        .route("/livez", get(|| async { "alive\n" }))
        .route("/readyz", get(|State(health): State<PodHealth>| async move { health.answer() }))
        .route(
            "/metrics",
            get(|State(health): State<PodHealth>| async move {
                ([(header::CONTENT_TYPE, OPEN_METRICS)], health.numbers())
            }),
        )
        .with_state(health);
    if let Err(error) = axum::serve(listener, router).await {
        warn!("probes are not answered any more: {error}");
    }
}

/// The upper bounds of the buckets of the delivery time, in seconds. No delivery is faster than 0.25 s, for which
/// changes are collected. A queue that rejects messages is tried at least every 30 s.
const DELAYS: [f64; 9] = [0.3, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0, 300.0, 1800.0];

/// The metrics for Prometheus.
#[derive(Debug)]
struct Metrics {
    registry: Registry,
    sent: Counter,
    rejected: Counter,
    delays: Histogram,
    watch_failures: Family<[(&'static str, &'static str); 1], Counter>,
    ready: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("cloud_map_forwarder");
        let sent = Counter::default();
        let rejected = Counter::default();
        let delays = Histogram::new(DELAYS);
        let watch_failures = Family::default();
        let ready = Gauge::default();
        registry.register("messages_sent", "Messages that the queue accepted", sent.clone());
        let help = "Messages that the queue rejected; each is sent again";
        registry.register("messages_rejected", help, rejected.clone());
        let help = "Time from the first change to the accepted message";
        registry.register_with_unit("delivery", help, Unit::Seconds, delays.clone());
        registry.register("watch_failures", "Errors of a watch", watch_failures.clone());
        registry.register("ready", "1 if the pod is ready, else 0", ready.clone());
        Self { registry, sent, rejected, delays, watch_failures, ready }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_is_ready_from_the_first_accepted_message_and_not_while_the_queue_rejects_them() {
        let health = PodHealth::default();
        let ready = || health.answer().0 == StatusCode::OK;
        let after = [Duration::from_millis(400)];
        assert!(!ready());
        health.delivered(&[], 2, Some("AccessDenied"));
        assert!(!ready());
        health.delivered(&after, 1, Some("InternalError"));
        assert!(ready());
        health.delivered(&[], 1, Some("AccessDenied: no identity-based policy allows it"));
        let (status, why) = health.answer();
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(why.contains("no identity-based policy"), "{why}");
        health.watch_failed("Services", "refused".to_owned());
        health.delivered(&after, 0, None);
        assert!(ready());

        let numbers = health.numbers();
        let is_sample = |line: &&str| !line.starts_with('#') && !line.contains("_bucket");
        insta::assert_snapshot!(numbers.lines().filter(is_sample).collect::<Vec<_>>().join("\n"), @r#"
        cloud_map_forwarder_messages_sent_total 2
        cloud_map_forwarder_messages_rejected_total 4
        cloud_map_forwarder_delivery_seconds_sum 0.8
        cloud_map_forwarder_delivery_seconds_count 2
        cloud_map_forwarder_watch_failures_total{watch="Services"} 1
        cloud_map_forwarder_ready 1
        "#);
    }
}
