//! What the exports of a member need: their names in Cloud Map, room for their records, no other controller, and routes
//! to their ports.

use std::collections::BTreeSet;

use super::count;
use crate::actions::doctor::Check;
use crate::clusterset::conditions::ExportOutcome;
use crate::clusterset::endpoints::endpoints_of;
use crate::clusterset::{members, record};
use crate::model::Registry;
use crate::publish::exports::{Exported, MAXIMUM};
use crate::publish::plan::DEFAULT_NAMESPACE_QUOTA;
use crate::reconcile::Joined;

/// The number of lines that are listed.
const LISTED: usize = 10;

/// Checks the exports as a sync would publish them.
pub(super) fn check(exported: &Exported, joined: &Joined<'_>, checks: &mut Vec<Check>) {
    let exports = exported.exports().len();
    let detail = format!("{} of at most {MAXIMUM}", count(exports, "ServiceExport"));
    checks.push(if exports > MAXIMUM {
        Check::failed("exports", detail, "delete ServiceExports, or move some to another cluster")
    } else {
        Check::ok("exports", detail)
    });
    let problems = exported.outcomes.iter().filter_map(|(service, outcome)| {
        let is_exported = matches!(outcome.of_run(), ExportOutcome::Exported(_));
        let (_, problem) = outcome.problem().filter(|_| !is_exported)?;
        Some(format!("{service} is not exported: {problem}"))
    });
    let problems: Vec<String> = problems.collect();
    let (listed, more) = problems.split_at(problems.len().min(LISTED));
    for problem in listed {
        let (service, _) = problem.split_once(" is not").unwrap_or((problem, ""));
        let (namespace, name) = service.split_once('/').unwrap_or(("", service));
        let fix = format!("kubectl cloudmap explain service/{name} -n {namespace}");
        checks.push(Check::note("exports", problem, fix));
    }
    if !more.is_empty() {
        let detail = format!("{} more are not exported", more.len());
        checks.push(Check::note("exports", detail, "kubectl cloudmap plan"));
    }
    checks.extend(check_ports(exported, joined));
}

/// The ports of the endpoints: whether clients of other clusters reach them cannot be tested from here.
fn check_ports(exported: &Exported, joined: &Joined<'_>) -> Option<Check> {
    let services = exported.overlay.desired.services.values();
    let endpoints = services
        .filter_map(|service| Some((service.export.as_ref()?, service.endpoints.as_ref()?)));
    let mut ports = BTreeSet::new();
    for (export, endpoints) in endpoints {
        let led_to =
            endpoints.iter().flat_map(|it| endpoints_of(export, it, joined.arn().region()));
        ports.extend(led_to.filter_map(|it| it.port).map(|port| (port.protocol, port.number)));
    }
    let ports = ports.iter().map(|(protocol, number)| format!("{} {number}", protocol.as_str()));
    let ports: Vec<String> = ports.collect();
    (!ports.is_empty()).then(|| {
        let detail = format!(
            "not tested: pods of the other members must reach the pods of this cluster at {}",
            ports.join(", ")
        );
        let fix = "route the pod networks to each other, and allow these ports in the security groups of pods and nodes";
        Check::note("network", detail, fix)
    })
}

/// Checks the records of the clusterset, and the signs of AWS's controller, in Cloud Map.
pub(super) fn check_registry(joined: &Joined<'_>, registry: &Registry, checks: &mut Vec<Check>) {
    let member = &joined.member;
    let name = record::namespace(&member.clusterset);
    let of_records = registry.namespaces.values().filter(|namespace| namespace.name == name);
    let of_records: BTreeSet<&String> = of_records.map(|namespace| &namespace.id).collect();
    let records = registry.services.iter().filter(|(key, _)| of_records.contains(&key.namespace));
    let records: usize = records
        .map(|(key, service)| {
            let listed = usize::try_from(service.instance_count).unwrap_or(usize::MAX);
            service.instances.as_ref().map_or(listed, |_| registry.instances(key).count())
        })
        .sum();
    if !of_records.is_empty() {
        checks.push(check_room(&name, records));
    }
    let all = members::clustersets(registry);
    let view = all.get(&member.clusterset).and_then(|it| it.get(&member.cluster));
    if let Some(view) = view.filter(|view| view.aws_instances > 0) {
        let detail = format!(
            "{} under the cluster id {} without our marks: AWS's controller registered them, or another program",
            count(view.aws_instances, "instance"),
            member.cluster
        );
        let fix = "if AWS's controller still runs in this cluster, stop one of the two: it deregisters every instance that it did not make";
        checks.push(Check::note("clusterset", detail, fix));
    }
}

fn check_room(namespace: &str, records: usize) -> Check {
    let detail = format!(
        "{namespace} has {} of all members; the default quota of a namespace is {DEFAULT_NAMESPACE_QUOTA}",
        count(records, "record")
    );
    if records * 10 < DEFAULT_NAMESPACE_QUOTA * 9 {
        return Check::ok("quota", detail);
    }
    let fix = "check \"instances per namespace\" of this account in Service Quotas, and request an increase: without room a new export is held back";
    Check::note("quota", detail, fix)
}
