//! The log of a run: a line for each change, each cluster and each dropped message, with fields named as in the report.
//! All errors of the report are logged here. No line contains a payload, a token or a secret.
//!
//! Some lines say the same in each run until something changes: what is held back, what is left as it is, and the planned
//! changes of dry runs. A full sync finds them every minute, so each is logged once when it begins and once when it ends
//! ([`Standing`]); the counts of each run, and the report, have all of them. The memory may be lost: a new process logs all
//! lines as new.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use tracing::{error, info, warn};

use super::Function;
use crate::model::{Outcome, Timestamp, join};
use crate::report::{
    ChangeLine, ClusterReport, ClustersetLine, Counts, Dropped, GuardReport, HeldBackLine, Mode,
    MultiClusterReport, Obstacle, OrphanReport, Report, ServiceReport,
};

/// A cluster or a Cloud Map, and the kind of its lines. Each kind is planned as a whole.
type ReportPart = (String, &'static str);

/// The lines that were logged and have not ended, by part.
#[derive(Default)]
pub(super) struct Standing(Mutex<BTreeMap<ReportPart, BTreeSet<Line>>>);

/// The difference between the lines of a run and those of the runs before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RunDifference {
    /// The lines to log.
    new: BTreeSet<Line>,
    /// The lines that stand no more, and none about the same in their place.
    ended: BTreeSet<Line>,
}

impl Standing {
    /// Compares the lines of a run with those that stand. `is_whole`: the run was about all of the part. Another one does
    /// not show what has ended, and neither does one that left something undone in the Cloud Map service of a line.
    fn compare(&self, part: ReportPart, run: Lines, is_whole: bool) -> RunDifference {
        let mut standing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let standing = standing.entry(part).or_default();
        let about: BTreeSet<_> = run.lines.iter().map(Line::about).collect();
        let gone: BTreeSet<Line> = standing
            .difference(&run.lines)
            .filter(|line| is_whole && !run.unsure.contains(&line.cloud_map_service))
            .cloned()
            .collect();
        let ended = gone.iter().filter(|line| !about.contains(&line.about())).cloned().collect();
        let new = run.lines.difference(standing).cloned().collect();
        standing.retain(|line| !gone.contains(line));
        standing.extend(run.lines);
        RunDifference { new, ended }
    }
}

/// The log of a part of a report: it gets the lines in their order, each with its [`Line`] if that stands until something
/// changes, and the function that writes it.
type Log<'a> = &'a mut dyn FnMut(Option<Line>, &dyn Fn());

impl Function {
    /// Logs the lines of a cluster in the report of a run. `is_whole`: the run was about all of the cluster.
    pub(super) fn log_lines(
        &self,
        kind: &'static str,
        report: &ClusterReport,
        (mode, is_whole): (Mode, bool),
    ) {
        // A cluster that was not read has no lines, and none has ended.
        let unsure = report.error.is_none().then(|| unsure_services(report));
        let part = (report.cluster.as_str(), kind);
        let lines = |log: Log<'_>| of_cluster(report, mode, log);
        let news = self.compare(part, (mode, is_whole), unsure, lines);
        write(&report.cluster, news, lines);
    }

    /// Logs the part of a cluster in its clusterset.
    pub(super) fn log_multi_cluster(
        &self,
        cluster: &str,
        report: &MultiClusterReport,
        (mode, is_whole): (Mode, bool),
    ) {
        let unsure = (!report.has_failed()).then(BTreeSet::new);
        let is_complete = is_whole && report.unfinished.is_empty();
        let lines = |log: Log<'_>| of_member(cluster, report, mode, log);
        let news = self.compare((cluster, "imports"), (mode, is_complete), unsure, lines);
        write(cluster, news, lines);
        let (exports, imports) = (report.exports, report.imports);
        let (held_back, conflicts) = (report.held_back.len(), report.conflicts.len());
        let (clusterset, member) = (report.clusterset.as_deref(), report.cluster_id.as_deref());
        info!(cluster, %mode, clusterset, member, exports, imports, held_back, conflicts, "clusterset");
    }

    /// The difference to the runs before; `None` if all is to be logged: in the plan of a person, and if it is not known
    /// which Cloud Map services are `unsure`.
    fn compare(
        &self,
        (of, kind): (&str, &'static str),
        (mode, is_whole): (Mode, bool),
        unsure: Option<BTreeSet<String>>,
        lines: impl Fn(Log<'_>),
    ) -> Option<RunDifference> {
        let mut run =
            Lines { lines: BTreeSet::new(), unsure: unsure.filter(|_| mode != Mode::Plan)? };
        lines(&mut |line, _| run.lines.extend(line));
        Some(self.standing.compare((of.to_owned(), kind), run, is_whole))
    }
}

/// Logs the lines of a part, of those that stand the new ones, and then those that have ended.
fn write(cluster: &str, news: Option<RunDifference>, lines: impl Fn(Log<'_>)) {
    let Some(RunDifference { new, ended }) = news else {
        return lines(&mut |_, write| write());
    };
    lines(&mut |line, write| {
        if line.is_none_or(|line| new.contains(&line)) {
            write();
        }
    });
    for Line { cloud_map_service, kubernetes_service, reason, word, text } in &ended {
        info!(cluster, kubernetes_service, cloud_map_service, reason, "ended: {word}: {text}");
    }
}

/// Logs a message that is not delivered again, since a retry does not help.
pub(super) fn dropped(Dropped { message, reason, detail }: &Dropped) {
    warn!(message_id = message, reason = &**reason, "message dropped: {detail}");
}

/// Logs the orphans of a cluster in one Cloud Map.
pub(super) fn orphans(report: &OrphanReport) {
    let OrphanReport { cluster, registry, instances, detail } = report;
    let registry = registry.as_deref().unwrap_or_default();
    warn!(cluster, registry, instances, "orphans: {detail}");
}

/// Logs each line of the report of one cluster.
pub(super) fn lines(report: &ClusterReport, mode: Mode) {
    write(&report.cluster, None, |log| of_cluster(report, mode, log));
}

fn of_cluster(report: &ClusterReport, mode: Mode, log: Log<'_>) {
    let cluster = report.cluster.as_str();
    for service in &report.services {
        let place = service.place();
        if let Some(problem) = &service.unreadable {
            log(None, &|| error!(cluster, cloud_map_service = place, "not read: {problem}"));
        }
        if let Some(problem) = &service.left_unread {
            let line = Line::new(&place, "not read", ("", ""), problem);
            log(Some(line), &|| info!(cluster, cloud_map_service = place, "not read: {problem}"));
        }
        for line in &service.changes {
            change(cluster, &place, line, mode, log);
        }
        if service.emptied {
            let text = format!("no instance is left under {place}");
            let standing = (mode != Mode::Sync).then(|| Line::planned(&place, "", &text));
            log(standing, &|| {
                warn!(cluster, %mode, cloud_map_service = place, "emptied: {text}");
            });
        }
        for line in &service.held_back {
            held_back(cluster, &place, line, log);
        }
    }
    for warning in &report.warnings {
        log(None, &|| warn!(cluster, "{warning}"));
    }
    for line in &report.held_back {
        held_back(cluster, "", line, log);
    }
    match (&report.error, &report.guard) {
        (Some(problem), _) => {
            log(None, &|| error!(cluster, "cluster not read, nothing changed: {problem}"));
        }
        (None, Some(line)) => log(None, &|| guard(cluster, line, mode)),
        (None, None) => {}
    }
}

fn change(cluster: &str, place: &str, line: &ChangeLine, mode: Mode, log: Log<'_>) {
    let ChangeLine { change, instance, service, detail, result } = line;
    let standing = (*result == Outcome::Planned).then(|| {
        let subject = instance.as_deref().unwrap_or("service");
        let text = format!("{change} {subject} in {place}: {detail}");
        Line::planned(place, &service.to_string(), &text)
    });
    let (verb, instance) = (change.as_str(), instance.as_deref().unwrap_or_default());
    log(standing, &|| match result {
        Outcome::Failed { error } => error!(cluster, kubernetes_service = %service,
            cloud_map_service = place, change = verb, instance, "change failed: {error}"),
        Outcome::Undone { why } => warn!(cluster, kubernetes_service = %service,
            cloud_map_service = place, change = verb, instance, "change not made: {why}"),
        Outcome::Planned | Outcome::Applied => info!(cluster, %mode, kubernetes_service = %service,
            cloud_map_service = place, change = verb, instance, "{verb} in {place}: {detail}"),
    });
}

/// Something that is held back; `place` is empty if it belongs to no Cloud Map service.
fn held_back(cluster: &str, place: &str, line: &HeldBackLine, log: Log<'_>) {
    let HeldBackLine { service, reason, detail, remark, .. } = line;
    let word = if *remark { "remark" } else { "held back" };
    log(Some(Line::new(place, word, (&service.to_string(), reason), detail)), &|| {
        info!(cluster, kubernetes_service = %service, cloud_map_service = place,
            reason = &**reason, "{word}: {detail}");
    });
}

/// The imports of a cluster, and its exports among those of other clusters.
fn of_member(cluster: &str, report: &MultiClusterReport, mode: Mode, log: Log<'_>) {
    for Obstacle { reason, detail, failed } in &report.obstacles {
        let reason = &**reason;
        log(None, &|| {
            if *failed {
                error!(cluster, reason, "clusterset: {detail}");
            } else {
                warn!(cluster, reason, "clusterset: {detail}");
            }
        });
    }
    for line in &report.changes {
        let is_planned = line.result == Outcome::Planned;
        let standing = is_planned.then(|| Line::planned("", "", &line.to_string()));
        log(standing, &|| match &line.result {
            Outcome::Failed { .. } => error!(cluster, "import: {line}"),
            Outcome::Undone { .. } => warn!(cluster, "import: {line}"),
            Outcome::Planned | Outcome::Applied => info!(cluster, %mode, "import: {line}"),
        });
    }
    for stale in &report.stale {
        let (member, heartbeat) = (stale.cluster_id.as_str(), stale.heartbeat.as_str());
        log(None, &|| warn!(cluster, member, heartbeat, "stale: {stale}"));
    }
    if let Some(line) = &report.guard {
        log(None, &|| guard(cluster, line, mode));
    }
    let held_back = report.held_back.iter().map(|line| ("held back", line));
    let conflicts = report.conflicts.iter().map(|line| ("conflict", line));
    for (word, line) in held_back.chain(conflicts) {
        let ClustersetLine { service, reason, detail } = line;
        log(Some(Line::new("", word, (&service.to_string(), reason), detail)), &|| {
            info!(cluster, kubernetes_service = %service, reason = &**reason, "{word}: {detail}");
        });
    }
}

/// Logs the counts of a cluster that was read.
pub(super) fn summary(report: &ClusterReport, mode: Mode) {
    if report.error.is_some() {
        return;
    }
    let (cluster, counts) = (report.cluster.as_str(), report.counts);
    let (complete, reasons) = (report.is_complete(), report.reasons());
    let Counts { created, updated, registered, rewritten, adopted, .. } = counts;
    let Counts { deregistered, emptied, unchanged, foreign, held_back, failed, undone, .. } =
        counts;
    info!(cluster, %mode, complete, created, updated, registered, rewritten, adopted,
        deregistered, emptied, unchanged, foreign, held_back, reasons, failed, undone,
        "cluster {counts}");
}

/// Logs the guard's verdict. A loss that an earlier full sync already held needs a decision by the operator.
fn guard(cluster: &str, line: &GuardReport, mode: Mode) {
    let GuardReport { state, loss, instances, later_look, detail, .. } = line;
    let (services, first_seen) = (line.services.len(), line.first_seen.as_deref());
    let first_seen = first_seen.unwrap_or_default();
    warn!(cluster, %mode, guard = %state, loss, instances, services, first_seen, later_look,
        "guard: {detail}");
}

/// Logs the counts of the whole run.
pub(super) fn run(report: &Report) {
    info!(clusters = report.clusters.len(), ok = report.ok, mode = %report.mode, "run {}", report.counts);
}

// The lines of a report by which a run is compared with the ones before. A note with the present time is planned anew in
// each run, so times are left out.

/// A line that stands until something changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    cloud_map_service: String,
    kubernetes_service: String,
    /// The reason's stable code, if it has one.
    reason: String,
    /// `planned`, `held back`, or the kind of the note.
    word: String,
    text: String,
}

/// The lines of a run.
#[derive(Default)]
struct Lines {
    lines: BTreeSet<Line>,
    /// The Cloud Map services in which something was not read or not done: what is held back there is not known.
    unsure: BTreeSet<String>,
}

impl Line {
    /// The subject of the line. The text of a reason may change while the reason stands.
    fn about(&self) -> [&str; 5] {
        let text = if self.reason.is_empty() { self.text.as_str() } else { "" };
        [&self.cloud_map_service, &self.kubernetes_service, &self.reason, &self.word, text]
    }

    fn new(place: &str, word: &str, (service, reason): (&str, &str), text: &str) -> Self {
        Self {
            cloud_map_service: place.to_owned(),
            kubernetes_service: service.to_owned(),
            reason: reason.to_owned(),
            word: word.to_owned(),
            text: without_times(text),
        }
    }

    /// A change that a dry run plans.
    fn planned(place: &str, service: &str, text: &str) -> Self {
        Self::new(place, "planned", (service, ""), text)
    }
}

/// The Cloud Map services in which something was not read or not done.
fn unsure_services(report: &ClusterReport) -> BTreeSet<String> {
    let is_unsure = |service: &&ServiceReport| {
        service.unreadable.is_some()
            || service.changes.iter().any(ChangeLine::is_left_undone)
            || service.held_back.iter().any(|line| line.failed)
    };
    report.services.iter().filter(is_unsure).map(ServiceReport::place).collect()
}

fn without_times(text: &str) -> String {
    let is_time = |word: &str| {
        let word = word.trim_matches(|it: char| !it.is_ascii_alphanumeric());
        word.parse::<Timestamp>().is_ok()
    };
    join(text.split(' ').filter(|word| !is_time(word)), " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A planned change for each letter, and for each digit a line about one subject.
    fn lines(words: &str) -> BTreeSet<Line> {
        let line = |word: &str| match word.parse::<u8>() {
            Ok(_) => Line::new("prod/web", "held back", ("shop/web", "ServiceFull"), word),
            Err(_) => Line::new("prod/web", "planned", ("shop/web", ""), word),
        };
        words.split_whitespace().map(line).collect()
    }

    fn run(words: &str, unsure: &[&str]) -> Lines {
        let unsure = unsure.iter().map(|place| (*place).to_owned()).collect();
        Lines { lines: lines(words), unsure }
    }

    #[test]
    fn only_what_has_changed_is_logged_again() {
        let rows = [
            // Before, now, whether the run is whole, to be logged, ended.
            ("", "a b", true, "a b", ""),
            ("a b", "a b", true, "", ""),
            ("a b", "b c", true, "c", "a"),
            ("a b", "", true, "", "a b"),
            ("a b", "b c", false, "c", ""),
            ("a b", "", false, "", ""),
            // Another text about the same is new, and nothing has ended.
            ("1", "2", true, "2", ""),
            ("1 2", "2", true, "", ""),
            ("1", "", true, "", "1"),
        ];
        for (before, now, is_whole, new, ended) in rows {
            let (standing, part) = (Standing::default(), || ("blue".to_owned(), "services"));
            standing.compare(part(), run(before, &[]), true);
            let difference = standing.compare(part(), run(now, &[]), is_whole);
            let expected = RunDifference { new: lines(new), ended: lines(ended) };
            assert_eq!(difference, expected, "{before} -> {now}");
        }
    }

    #[test]
    fn parts_are_compared_with_themselves_and_what_ended_is_new_again() {
        let (standing, blue) = (Standing::default(), || ("blue".to_owned(), "services"));
        let green = ("green".to_owned(), "services");
        let compare = |words, is_whole| standing.compare(blue(), run(words, &[]), is_whole);
        assert_eq!(compare("a b", true).new, lines("a b"));
        assert_eq!(standing.compare(green, run("a", &[]), true).new, lines("a"));
        assert_eq!(compare("c", false).new, lines("c"));
        assert_eq!(compare("b", true).ended, lines("a c"));
        assert_eq!(compare("a b", true).new, lines("a"));
        assert_eq!(compare("1", true).new, lines("1"));
        assert_eq!(compare("2", true).new, lines("2"));
        assert_eq!(compare("1", true).new, lines("1"));
    }

    #[test]
    fn nothing_ends_in_a_service_with_something_undone() {
        let (standing, part) = (Standing::default(), || ("blue".to_owned(), "services"));
        standing.compare(part(), run("a", &[]), true);
        assert_eq!(
            standing.compare(part(), run("", &["prod/web"]), true),
            RunDifference::default()
        );
        assert_eq!(standing.compare(part(), run("", &["prod/cart"]), true).ended, lines("a"));
    }

    #[test]
    fn times_are_left_out() {
        let rows = [
            ("10.0.1.1 port 8080 (pod web-a)", "10.0.1.1 port 8080 (pod web-a)"),
            ("a 2026-11-21T10:51:00Z -> 2026-11-21T10:52:00Z, b 1 -> 2", "a -> b 1 -> 2"),
            ("guard nothing -> \"2026-11-21T10:51:00Z 3fa9c1\"", "guard nothing -> 3fa9c1\""),
        ];
        for (text, expected) in rows {
            assert_eq!(without_times(text), expected);
        }
    }
}
