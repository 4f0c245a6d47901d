//! The lines of the log that say the same in each run until something changes: what is held back, what is left as it is,
//! and the planned changes of dry runs. A full sync finds them every minute, so each is logged once when it begins and
//! once when it ends; the counts of each run, and the report, have all of them. The memory may be lost: a new process
//! logs all lines as new.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::{Function, log};
use crate::model::{Outcome, Timestamp, join};
use crate::report::{
    ChangeLine, ClusterReport, ClustersetLine, EmptyServices, HeldBackLine, ImportLine, Mode,
    MultiClusterReport, NoteLine, OrphanReport, ServiceReport,
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
    pub(super) new: BTreeSet<Line>,
    /// The lines that stand no more, and none about the same in their place.
    pub(super) ended: BTreeSet<Line>,
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

impl Function {
    /// Logs the lines of a cluster in the report of a run. `is_whole`: the run was about all of the cluster.
    pub(super) fn log_lines(
        &self,
        kind: &'static str,
        report: &ClusterReport,
        (mode, is_whole): (Mode, bool),
    ) {
        // A cluster that was not read has no lines, and none has ended.
        let lines = || report.error.is_none().then(|| Lines::of_cluster(report));
        let news = self.news((&report.cluster, kind), lines, (mode, is_whole));
        log::lines(report, mode, news.as_ref());
    }

    /// Logs the part of a cluster in its clusterset.
    pub(super) fn log_multi_cluster(
        &self,
        cluster: &str,
        report: &MultiClusterReport,
        (mode, is_whole): (Mode, bool),
    ) {
        let lines = || (!report.has_failed()).then(|| Lines::of_imports(report));
        let is_complete = is_whole && report.unfinished.is_empty();
        let news = self.news((cluster, "imports"), lines, (mode, is_complete));
        log::multi_cluster(cluster, report, mode, news.as_ref());
    }

    /// Logs the orphans of a cluster in one Cloud Map.
    pub(super) fn log_orphans(&self, registry: &str, report: &OrphanReport, mode: Mode) {
        let part = format!("{} in {registry}", report.done.cluster);
        let lines = || Some(Lines::of_cluster(&report.done));
        let news = self.news((&part, "orphans"), lines, (mode, true));
        log::orphans(report, mode, news.as_ref());
    }

    /// Logs the deletion of empty services in one Cloud Map.
    pub(super) fn log_empty_services(&self, registry: &str, empty: &EmptyServices, mode: Mode) {
        let lines = || Some(Lines::of_deletions(empty));
        let news = self.news((registry, "deletions"), lines, (mode, true));
        log::empty_services(empty, mode, news.as_ref());
    }

    /// The difference to the runs before; `None` if all is to be logged, such as the plan of a person.
    fn news(
        &self,
        (of, kind): (&str, &'static str),
        lines: impl FnOnce() -> Option<Lines>,
        (mode, is_whole): (Mode, bool),
    ) -> Option<RunDifference> {
        let lines = (mode != Mode::Plan).then(lines)??;
        Some(self.standing.compare((of.to_owned(), kind), lines, is_whole))
    }
}

// The lines of a report by which a run is compared with the ones before. A note with the present time is planned anew in
// each run, so times are left out.

/// A line that stands until something changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    pub cloud_map_service: String,
    pub kubernetes_service: String,
    /// The reason's stable code, if it has one.
    pub reason: String,
    /// `planned`, `held back`, or the kind of the note.
    pub word: String,
    pub text: String,
}

/// The lines of a run.
#[derive(Default)]
pub struct Lines {
    pub lines: BTreeSet<Line>,
    /// The Cloud Map services in which something was not read or not done: what is held back there is not known.
    pub unsure: BTreeSet<String>,
}

impl Line {
    /// The subject of the line. The text of a reason may change while the reason stands.
    pub fn about(&self) -> [&str; 5] {
        let text = if self.reason.is_empty() { self.text.as_str() } else { "" };
        [&self.cloud_map_service, &self.kubernetes_service, &self.reason, &self.word, text]
    }

    pub fn new(place: &str, word: &str, (service, reason): (&str, &str), text: &str) -> Self {
        Self {
            cloud_map_service: place.to_owned(),
            kubernetes_service: service.to_owned(),
            reason: reason.to_owned(),
            word: word.to_owned(),
            text: without_times(text),
        }
    }

    /// A planned change of an instance or of a Cloud Map service.
    pub fn of_change(place: &str, line: &ChangeLine) -> Self {
        let instance = line.instance.as_deref().unwrap_or("service");
        let text = format!("{} {instance} in {place}: {}", line.change, line.detail);
        Self::new(place, "planned", (&line.service.to_string(), ""), &text)
    }

    /// A name that the planned changes empty.
    pub fn of_emptying(place: &str) -> Self {
        Self::new(place, "planned", ("", ""), &format!("no instance is left under {place}"))
    }

    /// Something held back; `place` is empty if it belongs to no Cloud Map service.
    pub fn of_held_back(place: &str, line: &HeldBackLine) -> Self {
        Self::new(place, "held back", (&line.service.to_string(), &line.reason), &line.detail)
    }

    /// A remark on a Cloud Map service.
    pub fn of_note(place: &str, line: &NoteLine) -> Self {
        Self::new(place, &line.note.to_string(), ("", ""), &line.detail)
    }

    /// A planned change of an import.
    pub fn of_import(line: &ImportLine) -> Self {
        Self::new("", "planned", ("", ""), &line.to_string())
    }

    /// An export or import that is held back or in conflict.
    pub fn of_clusterset(word: &str, line: &ClustersetLine) -> Self {
        Self::new("", word, (&line.service.to_string(), &line.reason), &line.detail)
    }

    /// A planned deletion of a Cloud Map service.
    pub fn of_deletion(place: &str) -> Self {
        Self::new(place, "planned", ("", ""), &format!("delete {place}"))
    }

    /// A reason to keep empty services.
    pub fn of_kept(why: &str) -> Self {
        Self::new("", "empty services kept", ("", ""), why)
    }
}

impl Lines {
    /// The lines of a cluster.
    pub fn of_cluster(report: &ClusterReport) -> Self {
        let mut all = Self::default();
        all.lines.extend(report.held_back.iter().map(|line| Line::of_held_back("", line)));
        for service in &report.services {
            let place = service.place();
            let planned = service.changes.iter().filter(|line| line.result == Outcome::Planned);
            let emptying = service.emptied && planned.clone().next().is_some();
            let lines = planned
                .map(|line| Line::of_change(&place, line))
                .chain(emptying.then(|| Line::of_emptying(&place)))
                .chain(service.held_back.iter().map(|line| Line::of_held_back(&place, line)))
                .chain(service.notes.iter().map(|line| Line::of_note(&place, line)));
            all.lines.extend(lines);
            if is_unsure(service) {
                all.unsure.insert(place);
            }
        }
        all
    }

    /// The lines of the imports of a cluster, and of its exports among those of other clusters.
    pub fn of_imports(report: &MultiClusterReport) -> Self {
        let planned = report.changes.iter().filter(|line| line.result == Outcome::Planned);
        let held_back = report.held_back.iter().map(|it| Line::of_clusterset("held back", it));
        let conflicts = report.conflicts.iter().map(|it| Line::of_clusterset("conflict", it));
        let lines = planned.map(Line::of_import).chain(held_back).chain(conflicts).collect();
        Self { lines, ..Self::default() }
    }

    /// The lines of the deletion of empty services.
    pub fn of_deletions(empty: &EmptyServices) -> Self {
        let planned = empty.deletions.iter().filter(|it| it.result == Outcome::Planned);
        let planned = planned.map(|it| Line::of_deletion(&it.place()));
        let kept = empty.kept.iter().map(|why| Line::of_kept(why));
        Self { lines: planned.chain(kept).collect(), ..Self::default() }
    }
}

/// Whether something in a Cloud Map service was not read or not done.
fn is_unsure(service: &ServiceReport) -> bool {
    service.unreadable.is_some()
        || service.changes.iter().any(ChangeLine::is_left_undone)
        || service.held_back.iter().any(|line| line.failed)
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
            ("orphaned-since nothing -> 2026-11-21T10:51:00Z", "orphaned-since nothing ->"),
            ("a 2026-11-21T10:51:00Z -> 2026-11-21T10:52:00Z, b 1 -> 2", "a -> b 1 -> 2"),
            ("guard nothing -> \"2026-11-21T10:51:00Z 3fa9c1\"", "guard nothing -> 3fa9c1\""),
        ];
        for (text, expected) in rows {
            assert_eq!(without_times(text), expected);
        }
    }
}
