//! The pairs of invocations: a world, its change, and the two causes that follow from it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::faults::play::Stage;
use crate::faults::situation::Situation;
use crate::fleet::give_pods;
use crate::queue::{batch, message};

/// Two invocations of two processes.
pub struct Pair {
    pub situation: Situation,
    /// What has happened when they begin.
    pub already: fn(&Stage),
    /// The payloads. The change of the world comes before, between or after their calls.
    pub causes: [Value; 2],
    /// How long Cloud Map's operations take.
    pub operations: Duration,
}

impl Pair {
    fn new(situation: Situation, causes: [Value; 2]) -> Self {
        Self { situation, already: |_| {}, causes, operations: Duration::ZERO }
    }

    pub fn schedule_and_message() -> Self {
        let operations = Duration::from_secs(3);
        let causes = [json!({ "action": "sync" }), about("blue", "web")];
        Self { operations, ..Self::new(Situation::rolling_replacement(), causes) }
    }

    pub fn two_messages() -> Self {
        let causes = [about("blue", "web"), about("blue", "web")];
        Self::new(Situation::rolling_replacement(), causes)
    }

    pub fn two_clusters() -> Self {
        let causes = [about("blue", "web"), about("green", "web")];
        Self::new(Situation::shared_name(), causes)
    }

    /// A Service of each cluster gets its first pods, under names that do not exist yet, beside a rename.
    pub fn two_schedules() -> Self {
        let change = |stage: &Stage| {
            stage.fleet.annotate("cart", "hostname", "basket");
            stage.fleet.web("new", "prod", &["10.0.1.9"]);
            give_pods(&stage.green, "web", &["10.0.2.3"]);
        };
        let situation = Situation { change, name: "two schedules", ..Situation::scale() };
        let sync = || json!({ "action": "sync" });
        Self { operations: Duration::from_secs(3), ..Self::new(situation, [sync(), sync()]) }
    }

    /// A pod is away for a moment, so that one process deregisters it while the other one sees it back.
    pub fn flapping_pod() -> Self {
        let change = |stage: &Stage| stage.fleet.pods("web", &["10.0.1.1", "10.0.1.2"]);
        let situation = Situation { change, name: "flapping pod", ..Situation::scale() };
        let already = |stage: &Stage| stage.fleet.pods("web", &["10.0.1.1"]);
        Self { already, ..Self::new(situation, [about("blue", "web"), about("blue", "web")]) }
    }
}

fn about(cluster: &str, service: &str) -> Value {
    let body = json!({ "cluster": cluster, "namespace": "shop", "service": service });
    batch(&[message("one", &body)])
}
