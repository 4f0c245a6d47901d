//! The numbers of a forwarder for Prometheus, by its own library: the messages that the queue accepted and rejected, the
//! time from a change to its message, the failures of each watch, and whether the pod is ready. `health` records them,
//! with the state that it keeps for the probes, and answers `/metrics` with their text.

use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// A quarter of a second is the least: changes are collected for so long. A queue that rejects messages is tried every
/// half minute.
const DELAYS: [f64; 9] = [0.3, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0, 300.0, 1800.0];

#[derive(Debug)]
pub struct Metrics {
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
        let (sent, rejected) = (Counter::default(), Counter::default());
        let (delays, watch_failures) = (Histogram::new(DELAYS), Family::default());
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

impl Metrics {
    /// Counts a message that the queue accepted so long after the first change that it is about.
    pub fn sent(&self, after: Duration) {
        self.sent.inc();
        self.delays.observe(after.as_secs_f64());
    }

    pub fn rejected(&self, messages: usize) {
        self.rejected.inc_by(u64::try_from(messages).unwrap_or(u64::MAX));
    }

    pub fn watch_failed(&self, name: &'static str) {
        self.watch_failures.get_or_create(&[("watch", name)]).inc();
    }

    /// All numbers as text in the format OpenMetrics 1.0.
    pub fn text(&self, is_ready: bool) -> String {
        self.ready.set(is_ready.into());
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a String takes all text");
        text
    }
}
