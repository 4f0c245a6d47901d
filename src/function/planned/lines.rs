//! The planned changes of a report, a line for each, by which a dry run is compared with the ones before. A note with the
//! present time is planned anew in each run, so times are left out.

use std::collections::BTreeSet;

use crate::model::Timestamp;
use crate::report::{
    ChangeLine, ChangeResult, ClusterReport, Deletion, EmptyServices, ImportLine,
    MultiClusterReport, ServiceReport,
};

/// The lines of the planned changes of a cluster.
pub fn of_cluster(report: &ClusterReport) -> BTreeSet<String> {
    let of_service = |service: &ServiceReport| {
        let planned = service.changes.iter().filter(|line| line.result == ChangeResult::Planned);
        let lines = planned.map(|line| change(service, line));
        lines.chain(service.emptied.then(|| emptying(service))).collect::<Vec<_>>()
    };
    report.services.iter().flat_map(of_service).collect()
}

/// A planned change of an instance or of a Cloud Map service.
pub fn change(service: &ServiceReport, line: &ChangeLine) -> String {
    let instance = line.instance.as_deref().unwrap_or("service");
    let ServiceReport { namespace, name, .. } = service;
    let detail = without_times(&line.detail);
    format!("{} {instance} in {namespace}/{name} for {}: {detail}", line.change, line.service)
}

fn without_times(text: &str) -> String {
    let is_time = |word: &str| {
        let word = word.trim_matches(|it: char| !it.is_ascii_alphanumeric());
        word.parse::<Timestamp>().is_ok()
    };
    text.split(' ').filter(|word| !is_time(word)).collect::<Vec<_>>().join(" ")
}

/// A name that the planned changes empty.
pub fn emptying(service: &ServiceReport) -> String {
    format!("empties {}/{}", service.namespace, service.name)
}

/// The lines of the planned changes of imports.
pub fn of_imports(report: &MultiClusterReport) -> BTreeSet<String> {
    let planned = report.changes.iter().filter(|line| line.result == ChangeResult::Planned);
    planned.map(import).collect()
}

/// A planned change of an import.
pub fn import(line: &ImportLine) -> String {
    without_times(&line.to_string())
}

/// The lines of the planned deletions.
pub fn of_deletions(empty: &EmptyServices) -> BTreeSet<String> {
    let planned = empty.deletions.iter().filter(|it| it.result == ChangeResult::Planned);
    planned.map(|Deletion { namespace, name, .. }| format!("{namespace}/{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_left_out() {
        let rows = [
            ("10.0.1.1 port 8080 (pod web-a)", "10.0.1.1 port 8080 (pod web-a)"),
            ("orphaned-since nothing -> 2026-11-21T10:51:00Z", "orphaned-since nothing ->"),
            ("a 2026-11-21T10:51:00Z -> 2026-11-21T10:52:00Z, b 1 -> 2", "a -> b 1 -> 2"),
            ("guard nothing -> \"2026-11-21T10:51:00Z 3fa9c1\"", "guard nothing -> 3fa9c1\""),
        ];
        for (text, expected) in rows {
            assert_eq!(without_times(text), expected);
        }
    }
}
