//! The log of a run: a line for each change, each cluster and each dropped message, with fields named as in the report.
//! All errors of the report are logged here. No line contains a payload, a token or a secret.
//!
//! Some lines recur in every run until something changes: held-back requests, failed reads of Services, remarks about
//! Services, and planned changes of dry runs. Such a line is logged when it first appears and when it ends
//! ([`LoggedLines`]), not in every run. The report and the counts always include it. The set of logged lines lives in
//! the process. A new process logs every line again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use tracing::{error, info, warn};

use super::Function;
use crate::model::{EMPTIED, EXPORTED, Line, Outcome, Timestamp, join};
use crate::report::{
    ClusterReport, Counts, Dropped, GuardReport, Mode, MultiClusterReport, OrphanReport, Report,
    ServiceReport,
};

/// The ARN of a cluster and the source of the lines: `services`, `exports`, `imports` or `adoption`. Lines are compared
/// only with earlier lines of the same source.
type LineSource = (String, &'static str);

/// The Cloud Map service of a line, if it belongs to one, and the line. Timestamps are removed from the text, because a
/// planned note has the current time and would look new in every run.
type RecurringLine = (String, Line);

/// The lines that were logged and have not ended, by source.
#[derive(Default)]
pub(super) struct LoggedLines(Mutex<BTreeMap<LineSource, BTreeSet<RecurringLine>>>);

/// The lines of a run that recur in later runs until something changes.
#[derive(Default)]
struct RunLines {
    lines: BTreeSet<RecurringLine>,
    /// Cloud Map services in which a read or change failed. A line about them that is missing may not have ended.
    incomplete_services: BTreeSet<String>,
}

/// The difference between the lines of a run and those of the runs before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RunDifference {
    /// The lines to log.
    new: BTreeSet<RecurringLine>,
    /// Lines that ended: this run has neither the line nor another line about the same subject.
    ended: BTreeSet<RecurringLine>,
}

impl LoggedLines {
    /// Compares the lines of a run with the logged lines of the same source. `is_full_run` says whether the run covered
    /// the whole source. A line counts as ended only after such a run, and only if everything in its Cloud Map service
    /// was read and done.
    fn compare(&self, source: LineSource, run: RunLines, is_full_run: bool) -> RunDifference {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let logged = logged.entry(source).or_default();
        let identity_keys: BTreeSet<_> = run.lines.iter().map(identity_key).collect();
        let gone: BTreeSet<RecurringLine> = logged
            .difference(&run.lines)
            .filter(|(place, _)| is_full_run && !run.incomplete_services.contains(place))
            .cloned()
            .collect();
        let ended = gone
            .iter()
            .filter(|line| !identity_keys.contains(&identity_key(line)))
            .cloned()
            .collect();
        let new = run.lines.difference(logged).cloned().collect();
        logged.retain(|line| !gone.contains(line));
        logged.extend(run.lines);
        RunDifference { new, ended }
    }
}

/// Returns what identifies a line. For a line with a reason the text is erased, because it may change while the reason
/// stays the same.
fn identity_key((place, line): &RecurringLine) -> RecurringLine {
    let mut line = line.clone();
    if line.has_reason() {
        line.text.clear();
    }
    (place.clone(), line)
}

/// Returns the line in the form in which runs are compared. `None` if the line does not recur: it is then logged in
/// every run that has it.
fn recurring_line(place: &str, line: &Line, mode: Mode) -> Option<RecurringLine> {
    let recurs = match &line.outcome {
        Outcome::Planned | Outcome::KeptOut | Outcome::HeldBack => true,
        Outcome::Unread => line.has_reason() || line.sign == '~',
        Outcome::Remark => line.has_reason() || line.code == EMPTIED && mode != Mode::Sync,
        Outcome::Applied | Outcome::Failed { .. } | Outcome::NotAttempted { .. } => false,
    };
    recurs.then(|| (place.to_owned(), Line { text: without_times(&line.text), ..line.clone() }))
}

impl Function {
    /// Logs the lines of a cluster in the report of a run. `is_full_run` says whether the run was about the whole
    /// cluster.
    pub(super) fn log_new_lines(
        &self,
        kind: &'static str,
        report: &ClusterReport,
        (mode, is_full_run): (Mode, bool),
    ) {
        // If the cluster was not read, the run has no lines, and no earlier line counts as ended.
        let incomplete_services = report.error.is_none().then(|| incomplete_services(report));
        let lines = placed_lines(report);
        let difference = self.compare(
            (report.cluster.as_str(), kind),
            (mode, is_full_run),
            incomplete_services,
            &lines,
        );
        log_new_and_ended(&report.cluster, mode, difference.as_ref(), &lines);
        log_state(report, mode);
    }

    /// Logs the exports and imports of a cluster.
    pub(super) fn log_multi_cluster(
        &self,
        cluster: &str,
        report: &MultiClusterReport,
        (mode, is_full_run): (Mode, bool),
    ) {
        let incomplete_services = (!report.has_failed()).then(BTreeSet::new);
        let is_complete = is_full_run && report.unfinished.is_empty();
        let lines = report.lines_in_order().into_iter().filter(|line| line.code != EXPORTED);
        let lines: Vec<(String, &Line)> = lines.map(|line| (String::new(), line)).collect();
        let difference =
            self.compare((cluster, "imports"), (mode, is_complete), incomplete_services, &lines);
        log_new_and_ended(cluster, mode, difference.as_ref(), &lines);
        if let Some(verdict) = &report.guard {
            log_guard(cluster, verdict, mode);
        }
        let exports = report.exports;
        let imports = report.imports;
        let held_back = report.held_back().count();
        let conflicts = report.conflicts().count();
        let clusterset = report.clusterset.as_deref();
        let member = report.cluster_id.as_deref();
        info!(cluster, %mode, clusterset, member, exports, imports, held_back, conflicts, "clusterset");
    }

    /// Returns the lines that are new or ended since earlier runs. Returns `None`, which logs every line, for a plan
    /// that a person requested and if `incomplete_services` is not known, because the cluster or its clusterset was not
    /// read.
    fn compare(
        &self,
        (of, kind): (&str, &'static str),
        (mode, is_full_run): (Mode, bool),
        incomplete_services: Option<BTreeSet<String>>,
        lines: &[(String, &Line)],
    ) -> Option<RunDifference> {
        let incomplete_services = incomplete_services.filter(|_| mode != Mode::Plan)?;
        let lines = lines.iter().filter_map(|(place, line)| recurring_line(place, line, mode));
        let run = RunLines { lines: lines.collect(), incomplete_services };
        Some(self.logged_lines.compare((of.to_owned(), kind), run, is_full_run))
    }
}

/// The lines of a report, each with its Cloud Map service if it belongs to one.
fn placed_lines(report: &ClusterReport) -> Vec<(String, &Line)> {
    let mut lines = Vec::new();
    for service in &report.services {
        lines.extend(service.lines.iter().map(|line| (service.place(), line)));
    }
    lines.extend(report.lines.iter().map(|line| (String::new(), line)));
    lines
}

/// Logs the lines of a run, without recurring lines that were logged before, and then the lines that ended. Without
/// `difference`, logs every line.
fn log_new_and_ended(
    cluster: &str,
    mode: Mode,
    difference: Option<&RunDifference>,
    lines: &[(String, &Line)],
) {
    for (place, line) in lines {
        let is_new = difference.is_none_or(|difference| {
            recurring_line(place, line, mode).is_none_or(|line| difference.new.contains(&line))
        });
        if is_new {
            log_line(cluster, mode, place, line);
        }
    }
    for (place, line) in difference.iter().flat_map(|difference| &difference.ended) {
        log_end(cluster, place, line);
    }
}

/// Logs the end of a line, with the fields that identify the line, so that one query finds both.
fn log_end(cluster: &str, place: &str, line: &Line) {
    let service = line.service.as_ref().map(ToString::to_string);
    let Line { code, text, .. } = line;
    let ended = match &line.outcome {
        Outcome::Planned => {
            let object = line.object.as_deref().unwrap_or_default();
            format!("planned: {code} {object}{}: {text}", in_place_phrase(place))
        }
        _ => format!("{}: {text}", line.label()),
    };
    info!(
        cluster,
        kubernetes_service = service,
        cloud_map_service = non_empty(place),
        reason = &**code,
        "ended: {ended}"
    );
}

/// Returns `None` for an empty place, so that the log field is omitted.
fn non_empty(place: &str) -> Option<&str> {
    (!place.is_empty()).then_some(place)
}

/// Logs one line.
fn log_line(cluster: &str, mode: Mode, place: &str, line: &Line) {
    let service = line.service.as_ref().map(ToString::to_string);
    let cloud_map_service = non_empty(place);
    let code: &str = &line.code;
    let text = &line.text;
    let label = line.label();
    let is_change = line.is_change();
    let change = is_change.then_some(code);
    let instance = line.object.as_deref().filter(|_| is_change);
    let reason = (!is_change).then_some(code);
    let mode = (line.outcome.is_made() || code == EMPTIED).then(|| mode.as_str());
    macro_rules! log {
        ($level:ident, $($message:tt)+) => {
            $level!(cluster, mode, kubernetes_service = service, cloud_map_service, change, instance, reason,
                $($message)+)
        };
    }
    match &line.outcome {
        Outcome::Failed { error } => log!(error, "change failed: {error}"),
        Outcome::NotAttempted { why } => log!(warn, "change not made: {why}"),
        Outcome::Planned | Outcome::Applied => {
            log!(info, "{code}{}: {text}", in_place_phrase(place));
        }
        Outcome::Unread if line.is_unfinished() && !line.has_reason() => {
            log!(error, "{label}: {text}");
        }
        Outcome::Remark if line.sign == '!' => log!(warn, "{label}: {text}"),
        Outcome::KeptOut | Outcome::HeldBack if line.is_obstacle() => log!(warn, "{label}: {text}"),
        Outcome::KeptOut | Outcome::HeldBack | Outcome::Unread | Outcome::Remark => {
            log!(info, "{label}: {text}");
        }
    }
}

/// Returns " in PLACE", or an empty string for a change in a cluster.
fn in_place_phrase(place: &str) -> String {
    non_empty(place).map(|place| format!(" in {place}")).unwrap_or_default()
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

/// Logs each line of the report of one cluster, with those of its exports and imports.
pub(super) fn all_lines(report: &ClusterReport, mode: Mode) {
    let mut lines = placed_lines(report);
    let multi_cluster = report.multi_cluster.iter().flat_map(MultiClusterReport::lines_in_order);
    lines.extend(multi_cluster.map(|line| (String::new(), line)));
    log_new_and_ended(&report.cluster, mode, None, &lines);
    log_state(report, mode);
}

/// Logs the error that kept a cluster from being read, or the guard's verdict.
fn log_state(report: &ClusterReport, mode: Mode) {
    let cluster = report.cluster.as_str();
    if let Some(problem) = report.described_error() {
        error!(cluster, "cluster {problem}");
    } else if let Some(verdict) = &report.guard {
        log_guard(cluster, verdict, mode);
    }
}

/// The Cloud Map services in which something was not read or not done.
fn incomplete_services(report: &ClusterReport) -> BTreeSet<String> {
    let is_incomplete = |service: &&ServiceReport| service.lines.iter().any(Line::is_unfinished);
    report.services.iter().filter(is_incomplete).map(ServiceReport::place).collect()
}

/// Logs the counts of a cluster that was read.
pub(super) fn summary(report: &ClusterReport, mode: Mode) {
    if report.error.is_some() {
        return;
    }
    let cluster = report.cluster.as_str();
    let counts = report.counts;
    let complete = report.is_complete();
    let reasons = report.reasons();
    let Counts { created, updated, registered, rewritten, adopted, .. } = counts;
    let Counts { deregistered, emptied, unchanged, foreign, held_back, failed, undone, .. } =
        counts;
    info!(cluster, %mode, complete, created, updated, registered, rewritten, adopted,
        deregistered, emptied, unchanged, foreign, held_back, reasons, failed, undone,
        "cluster {counts}");
}

/// Logs the guard's verdict. The field `needs_operator` is true if an operator must decide: an earlier run already saw
/// the loss, or no later run can know of it.
fn log_guard(cluster: &str, line: &GuardReport, mode: Mode) {
    let GuardReport { state, loss, instances, needs_operator, detail, .. } = line;
    let services = line.services.len();
    let first_seen = line.first_seen.as_deref();
    let first_seen = first_seen.unwrap_or_default();
    warn!(cluster, %mode, guard = %state, loss, instances, services, first_seen, needs_operator,
        "guard: {detail}");
}

/// Logs the counts of the whole run.
pub(super) fn run(report: &Report) {
    info!(clusters = report.clusters.len(), ok = report.ok, mode = %report.mode, "run {}", report.counts);
}

fn without_times(text: &str) -> String {
    let is_time = |word: &str| {
        let word = word.trim_matches(|character: char| !character.is_ascii_alphanumeric());
        word.parse::<Timestamp>().is_ok()
    };
    join(text.split(' ').filter(|word| !is_time(word)), " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ServiceRef;

    /// A planned change for each letter, and for each digit a line about one subject.
    fn lines(words: &str) -> BTreeSet<RecurringLine> {
        let line = |word: &str| {
            let line = match word.parse::<u8>() {
                Ok(_) => Line::new('!', "ServiceFull", word, Outcome::KeptOut),
                Err(_) => Line::new('+', "register", word, Outcome::Planned),
            };
            let line = line.about(ServiceRef::new("shop", "web"));
            recurring_line("prod/web", &line, Mode::DryRun).expect("it recurs")
        };
        words.split_whitespace().map(line).collect()
    }

    fn run(words: &str, incomplete_services: &[&str]) -> RunLines {
        let incomplete_services =
            incomplete_services.iter().map(|place| (*place).to_owned()).collect();
        RunLines { lines: lines(words), incomplete_services }
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
            // Another text about the same subject is new, and nothing has ended.
            ("1", "2", true, "2", ""),
            ("1 2", "2", true, "", ""),
            ("1", "", true, "", "1"),
        ];
        for (before, now, is_full_run, new, ended) in rows {
            let logged = LoggedLines::default();
            let source = || ("blue".to_owned(), "services");
            logged.compare(source(), run(before, &[]), true);
            let difference = logged.compare(source(), run(now, &[]), is_full_run);
            let expected = RunDifference { new: lines(new), ended: lines(ended) };
            assert_eq!(difference, expected, "{before} -> {now}");
        }
    }

    #[test]
    fn parts_are_compared_with_themselves_and_what_ended_is_new_again() {
        let logged = LoggedLines::default();
        let blue = || ("blue".to_owned(), "services");
        let green = ("green".to_owned(), "services");
        let compare = |words, is_full_run| logged.compare(blue(), run(words, &[]), is_full_run);
        assert_eq!(compare("a b", true).new, lines("a b"));
        assert_eq!(logged.compare(green, run("a", &[]), true).new, lines("a"));
        assert_eq!(compare("c", false).new, lines("c"));
        assert_eq!(compare("b", true).ended, lines("a c"));
        assert_eq!(compare("a b", true).new, lines("a"));
        assert_eq!(compare("1", true).new, lines("1"));
        assert_eq!(compare("2", true).new, lines("2"));
        assert_eq!(compare("1", true).new, lines("1"));
    }

    #[test]
    fn nothing_ends_in_a_service_with_something_undone() {
        let logged = LoggedLines::default();
        let source = || ("blue".to_owned(), "services");
        logged.compare(source(), run("a", &[]), true);
        assert_eq!(
            logged.compare(source(), run("", &["prod/web"]), true),
            RunDifference::default()
        );
        assert_eq!(logged.compare(source(), run("", &["prod/cart"]), true).ended, lines("a"));
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
