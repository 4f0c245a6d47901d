//! A report as rows: each change, each held-back request and each name that was not read. `markdown` writes those of one
//! report as tables, `difference` compares those of two.

use cloud_map_sync::report::{
    ChangeLine, ChangeResult, ClusterReport, Deletion, HeldBackLine, ImportLine,
    MultiClusterReport, ServiceReport,
};

/// A line about one name, instance or Service. A part that it does not have is empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// The kind of change, `held back` or `not read`.
    pub verb: &'static str,
    /// The namespace and name in Cloud Map.
    pub name: String,
    pub instance: String,
    /// The Kubernetes Service.
    pub service: String,
    pub detail: String,
}

impl Row {
    /// A row about no instance and no Kubernetes Service.
    pub fn about(verb: &'static str, name: &str, detail: &str) -> Self {
        let (instance, service) = (String::new(), String::new());
        Self { verb, name: name.to_owned(), instance, service, detail: detail.to_owned() }
    }

    fn held_back(name: &str, line: &HeldBackLine) -> Self {
        let detail = format!("{}: {}", line.reason, line.detail);
        Self { service: line.service.to_string(), ..Self::about("held back", name, &detail) }
    }

    fn change(name: &str, line: &ChangeLine) -> Self {
        let detail = format!("{}{}", line.detail, outcome(&line.result));
        Self {
            instance: line.instance.clone().unwrap_or_default(),
            service: line.service.to_string(),
            ..Self::about(line.change.as_str(), name, &detail)
        }
    }
}

/// The rows of a cluster's Cloud Map services, and of the held-back requests that belong to none.
pub fn of_cluster(cluster: &ClusterReport) -> Vec<Row> {
    let held_back = cluster.held_back.iter().map(|line| Row::held_back("", line));
    cluster.services.iter().flat_map(of_service).chain(held_back).collect()
}

fn of_service(service: &ServiceReport) -> Vec<Row> {
    let name = format!("{}/{}", service.namespace, service.name);
    let unread = service.unreadable.iter().map(|problem| Row::about("not read", &name, problem));
    let changes = service.changes.iter().map(|line| Row::change(&name, line));
    let held_back = service.held_back.iter().map(|line| Row::held_back(&name, line));
    unread.chain(changes).chain(held_back).collect()
}

/// The row of a deletion of a Cloud Map service without instances.
pub fn of_deletion(Deletion { namespace, name, result }: &Deletion) -> Row {
    let detail = format!("without instances{}", outcome(result));
    Row::about("delete", &format!("{namespace}/{name}"), &detail)
}

/// The exports and imports of a cluster, a line each: they are about objects of Kubernetes, not about names.
pub fn lines_of_clusterset(report: &MultiClusterReport) -> Vec<String> {
    let obstacles = report.obstacles.iter().map(|it| format!("! {}: {}", it.reason, it.detail));
    let changes = report.export_changes.iter().chain(&report.changes).map(ImportLine::to_string);
    let held_back = report.held_back.iter().map(|line| format!("! held back {line}"));
    let conflicts = report.conflicts.iter().map(|line| format!("! Conflict {line}"));
    obstacles.chain(changes).chain(held_back).chain(conflicts).collect()
}

/// The reason for which a change was not made, behind its detail.
fn outcome(result: &ChangeResult) -> String {
    match result {
        ChangeResult::Planned | ChangeResult::Applied => String::new(),
        ChangeResult::Failed { error } => format!("; failed: {error}"),
        ChangeResult::Undone { why } => format!("; not done: {why}"),
    }
}
