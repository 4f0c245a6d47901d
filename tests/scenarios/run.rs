//! Verbs that start the function, and what its report and its calls to Cloud Map say of a run.

use std::collections::BTreeMap;
use std::time::SystemTime;

use cloud_map_sync::function::Function;
use cloud_map_sync::model::{Line, Outcome};
use cloud_map_sync::report::{ClusterReport, Report, metrics};
use serde_json::{Value, json};

use crate::fleet::Fleet;
use testbed::cloud_map::Call;
use testbed::function::invoke;

/// Runs one full sync on demand.
pub async fn sync(function: &Function) -> Report {
    report(function, &json!({ "action": "sync" })).await
}

/// Plans on demand.
pub async fn plan(function: &Function) -> Report {
    report(function, &json!({ "action": "plan" })).await
}

/// The command that syncs one Service of `shop`.
pub fn sync_of(cluster: &str, service: &str) -> Value {
    json!({ "action": "sync", "cluster": cluster, "namespace": "shop", "service": service })
}

/// Syncs one Service of `shop` in `blue` on demand.
pub async fn sync_service(function: &Function, service: &str) -> Report {
    report(function, &sync_of("blue", service)).await
}

/// Purges a cluster.
pub async fn purge(function: &Function, cluster: &str) -> Report {
    report(function, &json!({ "action": "purge", "cluster": cluster, "confirm": true })).await
}

/// Runs one full sync on demand, in which nothing fails.
pub async fn synced(function: &Function) -> Report {
    let report = sync(function).await;
    assert!(report.ok, "{report}");
    report
}

/// A process of the function after [`converge`].
pub async fn converged(fleet: &Fleet) -> Function {
    let function = fleet.function().await;
    converge(fleet, &function).await;
    function
}

/// A full sync in which nothing fails; the one after it finds nothing to write. See [`settled`].
pub async fn converge(fleet: &Fleet, function: &Function) -> Report {
    let report = synced(function).await;
    settled(fleet, function).await;
    report
}

/// One more full sync writes nothing. From here on the calls to Cloud Map are counted anew.
pub async fn settled(fleet: &Fleet, function: &Function) {
    fleet.cloud_map.forget_calls();
    let report = sync(function).await;
    assert_eq!(fleet.cloud_map.writes(), 0, "{report}");
    fleet.cloud_map.forget_calls();
}

/// The report of a direct invocation.
pub async fn report(function: &Function, payload: &Value) -> Report {
    let answer = invoke(function, payload).await;
    answer.response.expect("a direct invocation answers with its report");
    answer.report.expect("a report")
}

/// The documents of metrics: one for each cluster, and that of the invocation.
pub fn documents(report: &Report) -> Vec<Value> {
    let mut output = Vec::new();
    metrics::write(report, "sync", SystemTime::UNIX_EPOCH, &mut output).expect("memory");
    let text = String::from_utf8(output).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A metric of the invocation.
pub fn metric(report: &Report, name: &str) -> Option<u64> {
    documents(report).last().expect("a document")[name].as_u64()
}

/// The stable names of all that is held back, sorted.
pub fn held_back(report: &Report) -> Vec<&str> {
    reasons(report, false)
}

/// The reasons of the remarks, which hold nothing back.
pub fn remarks(report: &Report) -> Vec<&str> {
    reasons(report, true)
}

fn reasons(report: &Report, remark: bool) -> Vec<&str> {
    let of_kind = reasoned(report).filter(|line| (line.outcome == Outcome::Remark) == remark);
    let mut reasons: Vec<&str> = of_kind.map(|line| &*line.code).collect();
    reasons.sort_unstable();
    reasons
}

/// What is said of the first that is held back or remarked for a reason.
pub fn said_of(report: &Report, reason: &str) -> String {
    let found = reasoned(report).find(|line| line.code == reason);
    found.unwrap_or_else(|| panic!("nothing is held back as {reason}: {report}")).text.clone()
}

fn reasoned(report: &Report) -> impl Iterator<Item = &Line> {
    let lines = report.clusters.iter().flat_map(ClusterReport::all_lines);
    lines.filter(|line| line.has_reason())
}

/// The warnings about the first cluster.
pub fn warnings(report: &Report) -> Vec<&str> {
    let lines = report.clusters[0].lines.iter().filter(|line| line.code == "warning");
    lines.map(|line| line.text.as_str()).collect()
}

/// Why a cluster was not served; empty where it was.
pub fn problem(report: &Report, cluster: &str) -> String {
    let mut clusters = report.clusters.iter();
    let found = clusters.find(|it| it.cluster == cluster || it.cluster.ends_with(cluster));
    found.expect("the cluster's report").error.clone().unwrap_or_default()
}

/// The calls that would change something, in order: operation and Cloud Map service's name.
pub fn writes(fleet: &Fleet) -> Vec<String> {
    let named = [&fleet.http, &fleet.dns].map(|it| fleet.cloud_map.services(it)).concat();
    let line = |call: Call| {
        let service = call.service.unwrap_or_default();
        let known = named.iter().find(|view| view.id == service);
        let name = known.map_or(service.as_str(), |view| view.name.as_str());
        format!("{} {name}", call.operation)
    };
    fleet.cloud_map.calls().into_iter().filter(Call::is_write).map(line).collect()
}

/// So many calls by operation.
pub fn counts<'a>(calls: impl IntoIterator<Item = (&'a str, usize)>) -> BTreeMap<String, usize> {
    calls.into_iter().map(|(operation, count)| (operation.to_owned(), count)).collect()
}
