//! The verb `wait` plans one Service repeatedly until the Service is registered or has no instance, so that a pipeline
//! continues only then. It writes nothing. The deployed function or another command must sync the Service.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::answer::{Code, write};
use super::arguments::{AwaitedState, Wait};
use super::escape::{Output, escape};
use super::request::{FunctionRequest, LONGEST_RUN};
use super::{Error, RequestedScope, ask, scope};
use cloud_map_sync::error::chain;
use cloud_map_sync::model::Line;
use cloud_map_sync::report::{MultiClusterReport, Report, count};

/// The time between two plans.
const BETWEEN_PLANS: Duration = Duration::from_secs(5);

/// Waits for the state of a Service until the timeout. With a timeout of zero it plans once.
///
/// # Errors
/// Returns an error if the scope is invalid or has no Service, or if the first plan fails. A later plan that fails is
/// repeated, since the error may be temporary, as while the function is being deployed.
pub async fn wait(wait: Wait) -> Result<Code, Error> {
    let Wait { state, timeout, scope, aws } = wait;
    let scope = scope::resolve(&scope)?;
    if scope.service.is_none() {
        return Err(scope::Error::NoService.into());
    }
    let command = FunctionRequest::new("plan", scope);
    let end = Instant::now() + timeout;
    let end_of_first = if timeout.is_zero() { end + LONGEST_RUN } else { end };
    let plan = async || Ok::<_, Error>(ask::<Report>(&aws, &command).await?.parsed);
    let mut progress = WaitProgress::new(state);
    if let Ok(first) = timeout_at(end_of_first, plan()).await {
        progress.record_plan(&first?, &command.scope);
    }
    while !progress.is_reached {
        sleep(BETWEEN_PLANS.min(end.saturating_duration_since(Instant::now()))).await;
        if Instant::now() >= end {
            break;
        }
        match timeout_at(end, plan()).await {
            Ok(Ok(report)) => progress.record_plan(&report, &command.scope),
            Ok(Err(error)) => progress.record_error(&error),
            Err(_) => break,
        }
    }
    write(&format!("{progress}\n"))?;
    Ok(Code::from_success(progress.is_reached))
}

/// The result of all plans so far.
#[derive(Debug)]
struct WaitProgress {
    state: AwaitedState,
    is_reached: bool,
    /// The last plan. `None` before the first plan.
    last: Option<PlannedService>,
    /// Whether any plan showed the Service, an instance of it, or an obstacle.
    is_known: bool,
    /// The error of the last plan. `None` if it succeeded.
    error: Option<String>,
}

impl WaitProgress {
    fn new(state: AwaitedState) -> Self {
        Self { state, is_reached: false, last: None, is_known: false, error: None }
    }

    fn record_plan(&mut self, report: &Report, scope: &RequestedScope) {
        let service = PlannedService::of(report, scope);
        self.is_known |= service.is_known;
        self.is_reached = service.has_reached(self.state);
        self.last = Some(service);
        self.error = None;
    }

    fn record_error(&mut self, error: &Error) {
        self.error = Some(escape(&chain(&**error), Output::Terminal));
    }
}

impl Display for WaitProgress {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.state {
            _ if self.is_reached => {}
            AwaitedState::Registered => f.write_str("not registered in time: ")?,
            AwaitedState::Empty => f.write_str("not empty in time: ")?,
        }
        match &self.last {
            Some(service) => write!(f, "{service}")?,
            None => f.write_str("the function did not answer")?,
        }
        if self.last.is_some() && !self.is_known {
            f.write_str("; no Service of this name asks for a name in Cloud Map: check its name and namespace")?;
        }
        self.error.iter().try_for_each(|error| write!(f, "; the last look failed: {error}"))
    }
}

/// The state of one Service in a plan.
#[derive(Debug, Default, PartialEq, Eq)]
struct PlannedService {
    /// The names with unchanged instances, each with the number of these instances.
    registered: Vec<(String, usize)>,
    /// The number of changes to make.
    change_count: usize,
    /// The reasons for held-back requests, for held losses, and for failed reads.
    obstacles: Vec<String>,
    /// The reasons for which the cluster is kept out of its clusterset. They hide exported instances of the Service,
    /// but keep no annotated name from being registered.
    clusterset_obstacles: Vec<String>,
    /// Whether the Service has a name, a line with a reason, or an obstacle.
    is_known: bool,
}

impl PlannedService {
    fn of(report: &Report, scope: &RequestedScope) -> Self {
        let mut planned = Self::default();
        for cluster in report.clusters.iter().filter(|cluster| scope.includes(&cluster.cluster)) {
            planned.is_known |=
                !cluster.services.is_empty() || cluster.lines.iter().any(Line::has_reason);
            planned.obstacles.extend(cluster.error.clone());
            planned.obstacles.extend(cluster.guard.iter().map(|guard| guard.detail.clone()));
            let clusterset = cluster.multi_cluster.iter();
            planned.clusterset_obstacles.extend(clusterset.flat_map(obstacles_in_clusterset));
            for line in cluster.all_lines() {
                if line.is_change() {
                    planned.change_count += 1;
                } else if line.is_unfinished() || line.outcome.is_held_back() {
                    planned.obstacles.push(line.to_string());
                }
            }
            for service in cluster.services.iter().filter(|service| service.unchanged > 0) {
                planned.registered.push((service.place(), service.unchanged));
            }
        }
        planned.is_known |=
            !planned.obstacles.is_empty() || !planned.clusterset_obstacles.is_empty();
        planned
    }

    fn has_reached(&self, state: AwaitedState) -> bool {
        let is_settled = self.change_count == 0 && self.obstacles.is_empty();
        is_settled
            && match state {
                AwaitedState::Registered => !self.registered.is_empty(),
                AwaitedState::Empty => {
                    self.registered.is_empty() && self.clusterset_obstacles.is_empty()
                }
            }
    }
}

/// The codes of the obstacles that concern imports only. No instance of the Service depends on them.
const IMPORT_OBSTACLES: [&str; 2] = ["OtherOwner", "Policy"];

/// Returns the lines because of which a plan may lack exported instances.
fn obstacles_in_clusterset(part: &MultiClusterReport) -> impl Iterator<Item = String> {
    let obstacles = part.lines.iter().filter(|line| line.is_obstacle() || line.is_unfinished());
    let obstacles = obstacles.filter(|line| !IMPORT_OBSTACLES.contains(&&*line.code));
    obstacles.map(Line::to_string)
}

impl Display for PlannedService {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self
            .registered
            .iter()
            .map(|(name, count)| format!("{count} registered under {name}"))
            .collect();
        if parts.is_empty() {
            parts.push("no instance is registered".to_owned());
        }
        if self.change_count > 0 {
            parts.push(format!("{} to make", count(self.change_count, "change")));
        }
        parts.extend(self.obstacles.iter().chain(&self.clusterset_obstacles).cloned());
        f.write_str(&parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn report(services: &Value, error: Option<&str>) -> Report {
        let report = json!({
            "mode": "plan", "whole": false, "ok": error.is_none(), "counts": {},
            "clusters": [{"cluster": "blue", "services": services, "error": error}],
        });
        serde_json::from_value(report).expect("a report")
    }

    fn blue() -> RequestedScope {
        RequestedScope { cluster: Some("blue".to_owned()), ..RequestedScope::default() }
    }

    fn seen(services: &Value, error: Option<&str>) -> PlannedService {
        PlannedService::of(&report(services, error), &blue())
    }

    #[test]
    fn service_is_not_empty_while_an_obstacle_may_hide_its_exported_instances() {
        let line = |code: &str, outcome: &str| json!({"sign": "!", "code": code, "text": "why", "outcome": outcome});
        for (cluster, line, obstacle) in [
            ("blue", line("Unreadable", "unread"), "; ! not read   why"),
            ("blue", line("NoIdentity", "held_back"), "; ! obstacle   (NoIdentity): why"),
            ("blue", line("ClusterIdTaken", "kept_out"), "; ! held back  (ClusterIdTaken): why"),
            ("blue", line("Policy", "held_back"), ""),
            ("blue", line("OtherOwner", "held_back"), ""),
            ("blue", line("stale", "remark"), ""),
            ("green", line("Unreadable", "unread"), ""),
        ] {
            let text = line.to_string();
            let part = serde_json::from_value(json!({"lines": [line]})).expect("a part");
            let mut report = report(&json!([]), None);
            report.clusters[0].cluster = cluster.to_owned();
            report.clusters[0].multi_cluster = Some(part);
            let seen = PlannedService::of(&report, &blue());
            assert_eq!(seen.to_string(), format!("no instance is registered{obstacle}"), "{text}");
            assert_eq!(seen.has_reached(AwaitedState::Empty), obstacle.is_empty(), "{text}");
            assert_eq!(seen.is_known, !obstacle.is_empty(), "{text}");
        }
    }

    #[test]
    fn service_is_registered_if_nothing_is_open_and_empty_if_nothing_is_left() {
        let service = |unchanged: usize, lines: &Value| json!([{"namespace": "prod", "name": "web", "unchanged": unchanged, "lines": lines}]);
        let change = json!([{
            "sign": "+", "code": "register", "object": "i", "text": "10.0.0.1", "outcome": "planned",
            "service": {"namespace": "shop", "name": "web"},
        }]);
        let held = json!([{
            "sign": "!", "code": "ServiceFull", "text": "no room", "outcome": "kept_out",
            "service": {"namespace": "shop", "name": "web"},
        }]);
        let mut remark = held.clone();
        remark[0]["outcome"] = "remark".into();
        let none = json!([]);
        for (services, error, registered, empty, line) in [
            (service(2, &none), None, true, false, "2 registered under prod/web"),
            (service(2, &remark), None, true, false, "2 registered under prod/web"),
            (
                service(2, &change),
                None,
                false,
                false,
                "2 registered under prod/web; 1 change to make",
            ),
            (
                service(0, &change),
                None,
                false,
                false,
                "no instance is registered; 1 change to make",
            ),
            (service(0, &none), None, false, true, "no instance is registered"),
            (none.clone(), None, false, true, "no instance is registered"),
            (none.clone(), Some("no route"), false, false, "no instance is registered; no route"),
        ] {
            let seen = seen(&services, error);
            let reached = [AwaitedState::Registered, AwaitedState::Empty]
                .map(|state| seen.has_reached(state));
            assert_eq!((reached, seen.to_string().as_str()), ([registered, empty], line));
        }
        let after_plans = |plans: &[Value]| {
            let mut progress = WaitProgress::new(AwaitedState::Empty);
            for services in plans {
                progress.record_plan(&report(services, None), &blue());
            }
            (progress.is_reached, progress.to_string())
        };
        let never = "no instance is registered; no Service of this name asks for a name in Cloud Map: check its name and namespace";
        let gone = "no instance is registered";
        for (seen, line) in [
            (vec![none.clone()], never),
            (vec![service(2, &none), none.clone()], gone),
            (vec![service(0, &none)], gone),
        ] {
            assert_eq!(after_plans(&seen), (true, line.to_owned()), "{seen:?}");
        }
        let seen = seen(&service(1, &held), None);
        assert!(
            !seen.has_reached(AwaitedState::Registered) && seen.to_string().contains("no room"),
            "{seen}"
        );
    }
}
