//! The log of a run: a line for each change, each cluster and each dropped message, with fields named as in the report.
//! All errors of the report are logged here. No line contains a payload, a token or a secret. Of a dry run only the
//! planned changes that `planned` calls new are logged.

use tracing::{error, info, warn};

use crate::report::{
    ChangeLine, ChangeResult, ClusterReport, Deletion, Dropped, EmptyServices, GuardReport, Mode,
    MultiClusterReport, Obstacle, OrphanReport, Report, ServiceReport,
};

use super::planned::{Difference, lines as planned};

/// Whether a planned change is logged; without a difference to dry runs before, each is.
fn is_new(news: Option<&Difference>, line: &str) -> bool {
    news.is_none_or(|news| news.new.contains(line))
}

/// Logs in one line what a dry run no longer plans.
fn ended(of: &str, news: Option<&Difference>) {
    let Some((news, first)) = news.and_then(|news| Some((news, news.ended.first()?))) else {
        return;
    };
    info!(
        cluster = of,
        ended = news.ended.len(),
        "no longer planned: {} of the changes, such as: {first}",
        news.ended.len()
    );
}

/// Logs a message that is not delivered again, since a retry does not help.
pub fn dropped(Dropped { message, reason, detail }: &Dropped) {
    warn!(message_id = message, reason = &**reason, "message dropped: {detail}");
}

/// Logs the report of one cluster.
pub fn cluster(report: &ClusterReport, mode: Mode) {
    lines(report, mode, None);
    summary(report, mode);
}

/// Logs the part of a cluster in its clusterset.
pub fn multi_cluster(
    cluster: &str,
    report: &MultiClusterReport,
    mode: Mode,
    news: Option<&Difference>,
) {
    for Obstacle { reason, detail, failed } in &report.obstacles {
        if *failed {
            error!(cluster, reason = &**reason, "clusterset: {detail}");
        } else {
            warn!(cluster, reason = &**reason, "clusterset: {detail}");
        }
    }
    for line in &report.changes {
        match &line.result {
            ChangeResult::Failed { .. } => error!(cluster, "import: {line}"),
            ChangeResult::Undone { .. } => warn!(cluster, "import: {line}"),
            ChangeResult::Planned if !is_new(news, &planned::import(line)) => {}
            ChangeResult::Planned | ChangeResult::Applied => {
                info!(cluster, %mode, "import: {line}");
            }
        }
    }
    ended(cluster, news);
    for stale in &report.stale {
        let member = stale.cluster_id.as_str();
        warn!(cluster, member, heartbeat = stale.heartbeat, "stale: {stale}");
    }
    if let Some(line) = &report.guard {
        guard(cluster, line, mode);
    }
    for line in &report.held_back {
        info!(cluster, kubernetes_service = %line.service, reason = &*line.reason, "held back: {}", line.detail);
    }
    for line in &report.conflicts {
        info!(cluster, kubernetes_service = %line.service, reason = &*line.reason, "conflict: {}", line.detail);
    }
    let (exports, imports) = (report.exports, report.imports);
    let (clusterset, member) = (report.clusterset.as_deref(), report.cluster_id.as_deref());
    info!(cluster, %mode, clusterset, member, exports, imports, "clusterset");
}

/// Logs each line of the report of one cluster.
pub fn lines(report: &ClusterReport, mode: Mode, news: Option<&Difference>) {
    let cluster = report.cluster.as_str();
    for service in &report.services {
        if let Some(problem) = &service.unreadable {
            let place = format!("{}/{}", service.namespace, service.name);
            error!(cluster, cloud_map_service = place, "not read: {problem}");
        }
        for line in &service.notes {
            let place = format!("{}/{}", service.namespace, service.name);
            info!(cluster, cloud_map_service = place, "{}: {}", line.note, line.detail);
        }
        for line in &service.changes {
            if line.result != ChangeResult::Planned || is_new(news, &planned::change(service, line))
            {
                change(cluster, service, line, mode);
            }
        }
        if service.emptied && is_new(news, &planned::emptying(service)) {
            let place = format!("{}/{}", service.namespace, service.name);
            warn!(cluster, %mode, cloud_map_service = place,
                "emptied: no instance is left under {place}");
        }
        for line in &service.held_back {
            let place = format!("{}/{}", service.namespace, service.name);
            info!(cluster, kubernetes_service = %line.service, cloud_map_service = place,
                reason = &*line.reason, "held back: {}", line.detail);
        }
    }
    ended(cluster, news);
    for warning in &report.warnings {
        warn!(cluster, "{warning}");
    }
    for line in &report.held_back {
        info!(cluster, kubernetes_service = %line.service, reason = &*line.reason, "held back: {}", line.detail);
    }
    if let Some(problem) = &report.error {
        error!(cluster, "cluster not read, nothing changed: {problem}");
        return;
    }
    if let Some(line) = &report.guard {
        guard(cluster, line, mode);
    }
}

/// Logs the counts of a cluster that was read.
pub fn summary(report: &ClusterReport, mode: Mode) {
    if report.error.is_some() {
        return;
    }
    let (cluster, counts) = (report.cluster.as_str(), report.counts);
    info!(
        cluster,
        %mode,
        complete = report.is_complete(),
        created = counts.created,
        updated = counts.updated,
        registered = counts.registered,
        rewritten = counts.rewritten,
        adopted = counts.adopted,
        health = counts.health,
        deregistered = counts.deregistered,
        emptied = counts.emptied,
        unchanged = counts.unchanged,
        foreign = counts.foreign,
        held_back = counts.held_back,
        failed = counts.failed,
        undone = counts.undone,
        "cluster {counts}"
    );
}

/// Logs the guard's verdict. A loss that an earlier full sync already held needs a decision by the operator.
fn guard(cluster: &str, line: &GuardReport, mode: Mode) {
    warn!(
        cluster,
        %mode,
        guard = %line.state,
        loss = line.loss,
        instances = line.instances,
        services = line.services.len(),
        first_seen = line.first_seen.as_deref().unwrap_or_default(),
        later_look = line.later_look,
        "guard: {}",
        line.detail
    );
}

fn change(cluster: &str, service: &ServiceReport, line: &ChangeLine, mode: Mode) {
    let place = format!("{}/{}", service.namespace, service.name);
    let (verb, instance) = (line.change, line.instance.as_deref().unwrap_or_default());
    match &line.result {
        ChangeResult::Failed { error } => error!(cluster, kubernetes_service = %line.service,
            cloud_map_service = place, change = verb.as_str(), instance, "change failed: {error}"),
        ChangeResult::Undone { why } => warn!(cluster, kubernetes_service = %line.service,
            cloud_map_service = place, change = verb.as_str(), instance, "change not made: {why}"),
        ChangeResult::Planned | ChangeResult::Applied => info!(cluster, %mode,
            kubernetes_service = %line.service, cloud_map_service = place, change = verb.as_str(), instance,
            "{verb} in {place}: {}", line.detail),
    }
}

/// Logs the deletion of empty services.
pub fn empty_services(empty: &EmptyServices, mode: Mode, news: Option<&Difference>) {
    for Deletion { namespace, name, result } in &empty.deletions {
        let place = format!("{namespace}/{name}");
        match result {
            ChangeResult::Planned if !is_new(news, &place) => {}
            ChangeResult::Failed { error } => {
                error!(cloud_map_service = place, change = "delete", "change failed: {error}");
            }
            ChangeResult::Undone { why } => {
                warn!(cloud_map_service = place, change = "delete", "change not made: {why}");
            }
            ChangeResult::Planned | ChangeResult::Applied => info!(%mode,
                cloud_map_service = place, change = "delete", "delete {place}: no Service claims it"),
        }
    }
    ended("", news);
    for why in &empty.kept {
        info!("empty services kept: {why}");
    }
}

/// Logs the orphans of a cluster.
pub fn orphans(report: &OrphanReport, mode: Mode, news: Option<&Difference>) {
    let cluster = report.done.cluster.as_str();
    let (instances, reason) = (report.instances, &*report.reason);
    warn!(cluster, instances, reason, "orphans: {}", report.detail);
    if !report.done.services.is_empty() {
        lines(&report.done, mode, news);
        summary(&report.done, mode);
    }
}

/// Logs the counts of the whole run.
pub fn run(report: &Report) {
    let (clusters, run) = (report.clusters.len(), if report.cleanup { "cleanup" } else { "run" });
    info!(clusters, ok = report.ok, mode = %report.mode, "{run} {}", report.counts);
}
