//! The planned changes of a report, a line for each, by which a dry run is compared with the ones before.

use std::collections::BTreeSet;

use crate::report::{
    ChangeLine, ChangeResult, ClusterReport, Deletion, EmptyServices, MultiClusterReport,
    ServiceReport,
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
    format!(
        "{} {instance} in {namespace}/{name} for {}: {}",
        line.change, line.service, line.detail
    )
}

/// A name that the planned changes empty.
pub fn emptying(service: &ServiceReport) -> String {
    format!("empties {}/{}", service.namespace, service.name)
}

/// The lines of the planned changes of imports.
pub fn of_imports(report: &MultiClusterReport) -> BTreeSet<String> {
    let planned = report.changes.iter().filter(|line| line.result == ChangeResult::Planned);
    planned.map(ToString::to_string).collect()
}

/// The lines of the planned deletions.
pub fn of_deletions(empty: &EmptyServices) -> BTreeSet<String> {
    let planned = empty.deletions.iter().filter(|it| it.result == ChangeResult::Planned);
    planned.map(|Deletion { namespace, name, .. }| format!("{namespace}/{name}")).collect()
}
