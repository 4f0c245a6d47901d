//! The log of a run: a line for each change, each cluster and each dropped message, with fields named as in the report.
//! All errors of the report are logged here. No line contains a payload, a token or a secret. Lines that say the same in
//! each run are logged when `standing` calls them new, and when they have ended.

use tracing::{error, info, warn};

use crate::model::Outcome;
use crate::report::{
    ChangeLine, ClusterReport, Dropped, EmptyServices, GuardReport, HeldBackLine, Mode,
    MultiClusterReport, Obstacle, OrphanReport, Report,
};

use super::standing::{Line, RunDifference};

/// Whether a line is logged; without a difference to the runs before, each is.
fn is_new(news: Option<&RunDifference>, line: &Line) -> bool {
    news.is_none_or(|news| news.new.contains(line))
}

/// Logs the lines that have ended.
fn ended(cluster: &str, news: Option<&RunDifference>) {
    for line in news.iter().flat_map(|news| &news.ended) {
        let Line { cloud_map_service, kubernetes_service, reason, word, text } = line;
        info!(cluster, kubernetes_service, cloud_map_service, reason, "ended: {word}: {text}");
    }
}

/// Logs a line about something that is held back, if it is new.
fn held_back(cluster: &str, place: &str, line: &HeldBackLine, news: Option<&RunDifference>) {
    if is_new(news, &Line::of_held_back(place, line)) {
        info!(cluster, kubernetes_service = %line.service, cloud_map_service = place,
            reason = &*line.reason, "held back: {}", line.detail);
    }
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
    news: Option<&RunDifference>,
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
            Outcome::Failed { .. } => error!(cluster, "import: {line}"),
            Outcome::Undone { .. } => warn!(cluster, "import: {line}"),
            Outcome::Planned if !is_new(news, &Line::of_import(line)) => {}
            Outcome::Planned | Outcome::Applied => {
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
    let held_back = report.held_back.iter().map(|line| ("held back", line));
    let conflicts = report.conflicts.iter().map(|line| ("conflict", line));
    for (word, line) in held_back.chain(conflicts) {
        if is_new(news, &Line::of_clusterset(word, line)) {
            info!(cluster, kubernetes_service = %line.service, reason = &*line.reason, "{word}: {}", line.detail);
        }
    }
    let (exports, imports) = (report.exports, report.imports);
    let (held_back, conflicts) = (report.held_back.len(), report.conflicts.len());
    let (clusterset, member) = (report.clusterset.as_deref(), report.cluster_id.as_deref());
    info!(cluster, %mode, clusterset, member, exports, imports, held_back, conflicts, "clusterset");
}

/// Logs each line of the report of one cluster.
pub fn lines(report: &ClusterReport, mode: Mode, news: Option<&RunDifference>) {
    let cluster = report.cluster.as_str();
    for service in &report.services {
        let place = service.place();
        if let Some(problem) = &service.unreadable {
            error!(cluster, cloud_map_service = place, "not read: {problem}");
        }
        for line in service.notes.iter().filter(|line| is_new(news, &Line::of_note(&place, line))) {
            info!(cluster, cloud_map_service = place, "{}: {}", line.note, line.detail);
        }
        for line in &service.changes {
            let is_planned = line.result == Outcome::Planned;
            if !is_planned || is_new(news, &Line::of_change(&place, line)) {
                change(cluster, &place, line, mode);
            }
        }
        if service.emptied && (mode == Mode::Sync || is_new(news, &Line::of_emptying(&place))) {
            warn!(cluster, %mode, cloud_map_service = place,
                "emptied: no instance is left under {place}");
        }
        for line in &service.held_back {
            held_back(cluster, &place, line, news);
        }
    }
    ended(cluster, news);
    for warning in &report.warnings {
        warn!(cluster, "{warning}");
    }
    for line in &report.held_back {
        held_back(cluster, "", line, news);
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
    let reasons = report.reasons();
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
        reasons,
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

fn change(cluster: &str, place: &str, line: &ChangeLine, mode: Mode) {
    let (verb, instance) = (line.change, line.instance.as_deref().unwrap_or_default());
    match &line.result {
        Outcome::Failed { error } => error!(cluster, kubernetes_service = %line.service,
            cloud_map_service = place, change = verb.as_str(), instance, "change failed: {error}"),
        Outcome::Undone { why } => warn!(cluster, kubernetes_service = %line.service,
            cloud_map_service = place, change = verb.as_str(), instance, "change not made: {why}"),
        Outcome::Planned | Outcome::Applied => info!(cluster, %mode,
            kubernetes_service = %line.service, cloud_map_service = place, change = verb.as_str(), instance,
            "{verb} in {place}: {}", line.detail),
    }
}

/// Logs the deletion of empty services.
pub fn empty_services(empty: &EmptyServices, mode: Mode, news: Option<&RunDifference>) {
    for deletion in &empty.deletions {
        let place = deletion.place();
        match &deletion.result {
            Outcome::Planned if !is_new(news, &Line::of_deletion(&place)) => {}
            Outcome::Failed { error } => {
                error!(cloud_map_service = place, change = "delete", "change failed: {error}");
            }
            Outcome::Undone { why } => {
                warn!(cloud_map_service = place, change = "delete", "change not made: {why}");
            }
            Outcome::Planned | Outcome::Applied => info!(%mode,
                cloud_map_service = place, change = "delete", "delete {place}: no Service claims it"),
        }
    }
    ended("", news);
    for why in empty.kept.iter().filter(|why| is_new(news, &Line::of_kept(why))) {
        info!("empty services kept: {why}");
    }
}

/// Logs the orphans of a cluster.
pub fn orphans(report: &OrphanReport, mode: Mode, news: Option<&RunDifference>) {
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
