//! The cost of an hour: prices with their sources, and the amounts of a deployment. Each is the least amount, since a
//! round takes at least the time of `deployment`. Registered instances are left out: every program pays the same for
//! them.

use cloud_map_sync::report::metrics::{CLUSTER_METRICS, INVOCATION_METRICS};

use super::deployment::{Deployment, SCHEDULES, count};
use super::measured;

// Dollars in us-east-1, as of November 2026.
/// A GB and second on arm64, and a million requests: <https://aws.amazon.com/lambda/pricing/>
const SECOND: f64 = 0.000_013_333_4;
const REQUESTS: f64 = 0.20;
/// A million requests of a standard queue: <https://aws.amazon.com/sqs/pricing/>
const QUEUE: f64 = 0.40;
/// A GB of logs, and a metric for a month: <https://aws.amazon.com/cloudwatch/pricing/>
const LOG: f64 = 0.50;
const METRIC: f64 = 0.30;

const MILLION: f64 = 1e6;
/// Of a month.
const HOURS: f64 = 730.0;
/// Metrics of clusters and of the function that only a clusterset has.
const OF_A_CLUSTERSET: (usize, usize) = (6, 1);
/// Those of the function for a Cloud Map that its processes have not read whole yet.
const OF_UNREAD: usize = 1;
/// Lambda polls a queue by five connections of 20 seconds each.
const POLLS: f64 = 5.0 * 3600.0 / 20.0;
/// The kB of Lambda's own records of an invocation.
const LAMBDAS_RECORDS: f64 = 1.0;

/// The dollars of an hour.
#[derive(Clone, Copy, Debug)]
pub struct Hour {
    pub lambda: f64,
    pub queue: f64,
    pub log: f64,
    pub metrics: f64,
}

impl Hour {
    /// Of full syncs with the shortest schedule; `None` if there is none.
    pub fn of(deployment: &Deployment) -> Option<Self> {
        let minutes = deployment.schedule()?;
        assert!(SCHEDULES.contains(&minutes));
        let rounds = 60.0 / count(minutes);
        let fleet = deployment.fleet;
        let clusters = count(fleet.clusters);
        let seconds = deployment.time()?.seconds;
        Some(Self {
            lambda: lambda(rounds, rounds * seconds, deployment.memory()?),
            queue: POLLS * QUEUE / MILLION,
            log: rounds * (clusters * measured::log() + LAMBDAS_RECORDS) * LOG / MILLION,
            metrics: metrics(deployment) * METRIC / HOURS,
        })
    }

    pub fn sum(&self) -> f64 {
        self.lambda + self.queue + self.log + self.metrics
    }
}

/// The dollars of invocations that take these seconds in all, with this memory in MB.
fn lambda(invocations: f64, seconds: f64, memory: f64) -> f64 {
    seconds * memory / 1024.0 * SECOND + invocations * REQUESTS / MILLION
}

/// The number of metrics with values.
fn metrics(deployment: &Deployment) -> f64 {
    let of_cluster = CLUSTER_METRICS.len() - OF_A_CLUSTERSET.0;
    let of_function = INVOCATION_METRICS.len() - OF_A_CLUSTERSET.1 - OF_UNREAD;
    count(deployment.fleet.clusters * of_cluster + of_function)
}
