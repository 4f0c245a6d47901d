//! The planned changes of dry runs that this process has logged. A dry run finds the same changes every minute until a
//! person ends it, so each is logged once, and later runs log what has changed. The memory may be lost: a new process logs
//! all of them.

pub(super) mod lines;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::{Function, log};
use crate::report::{ClusterReport, EmptyServices, Mode, MultiClusterReport, OrphanReport};

/// A cluster or a Cloud Map, and the kind of its changes. Each kind is planned as a whole.
type Part = (String, &'static str);

/// The lines of planned changes that were logged, by part.
#[derive(Default)]
pub(super) struct Planned(Mutex<BTreeMap<Part, BTreeSet<String>>>);

/// The difference between a plan and the plans before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// The lines to log.
    pub(super) new: BTreeSet<String>,
    /// The lines that are no longer planned.
    pub(super) ended: BTreeSet<String>,
}

impl Difference {
    /// `is_whole`: the plan is about all of its part. Another one does not show what has ended.
    fn of(logged: &BTreeSet<String>, planned: &BTreeSet<String>, is_whole: bool) -> Self {
        let ended = logged.difference(planned).filter(|_| is_whole);
        let new = planned.difference(logged);
        Self { new: new.cloned().collect(), ended: ended.cloned().collect() }
    }
}

impl Planned {
    fn compare(&self, part: Part, planned: &BTreeSet<String>, is_whole: bool) -> Difference {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let logged = logged.entry(part).or_default();
        let difference = Difference::of(logged, planned, is_whole);
        logged.retain(|line| !difference.ended.contains(line));
        logged.extend(difference.new.iter().cloned());
        difference
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
        // Of a cluster that was not read nothing is planned, and nothing has ended.
        let planned = || report.error.is_none().then(|| lines::of_cluster(report));
        let news = self.news((&report.cluster, kind), planned, (mode, is_whole));
        log::lines(report, mode, news.as_ref());
    }

    /// Logs the part of a cluster in its clusterset.
    pub(super) fn log_multi_cluster(
        &self,
        cluster: &str,
        report: &MultiClusterReport,
        (mode, is_whole): (Mode, bool),
    ) {
        let is_read = report.obstacles.iter().all(|obstacle| !obstacle.failed);
        let planned = || is_read.then(|| lines::of_imports(report));
        let news = self.news((cluster, "imports"), planned, (mode, is_whole));
        log::multi_cluster(cluster, report, mode, news.as_ref());
    }

    /// Logs the orphans of a cluster in one Cloud Map.
    pub(super) fn log_orphans(&self, registry: &str, report: &OrphanReport, mode: Mode) {
        let part = format!("{} in {registry}", report.done.cluster);
        let planned = || Some(lines::of_cluster(&report.done));
        let news = self.news((&part, "orphans"), planned, (mode, true));
        log::orphans(report, mode, news.as_ref());
    }

    /// Logs the deletion of empty services in one Cloud Map.
    pub(super) fn log_empty_services(&self, registry: &str, empty: &EmptyServices, mode: Mode) {
        let planned = || Some(lines::of_deletions(empty));
        let news = self.news((registry, "deletions"), planned, (mode, true));
        log::empty_services(empty, mode, news.as_ref());
    }

    /// The difference to the dry runs before; `None` if all is to be logged.
    fn news(
        &self,
        (of, kind): (&str, &'static str),
        planned: impl FnOnce() -> Option<BTreeSet<String>>,
        (mode, is_whole): (Mode, bool),
    ) -> Option<Difference> {
        let planned = (mode == Mode::DryRun).then(planned)??;
        Some(self.planned.compare((of.to_owned(), kind), &planned, is_whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> BTreeSet<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn only_what_has_changed_is_logged_again() {
        let rows = [
            // Logged, planned, whether the plan is whole, to be logged, ended.
            ("", "a b", true, "a b", ""),
            ("a b", "a b", true, "", ""),
            ("a b", "b c", true, "c", "a"),
            ("a b", "", true, "", "a b"),
            ("a b", "b c", false, "c", ""),
            ("a b", "", false, "", ""),
        ];
        for (logged, planned, is_whole, new, ended) in rows {
            let difference = Difference::of(&words(logged), &words(planned), is_whole);
            let expected = Difference { new: words(new), ended: words(ended) };
            assert_eq!(difference, expected, "{logged} -> {planned}");
        }
    }

    #[test]
    fn parts_are_compared_with_themselves_and_what_ended_is_new_again() {
        let (memory, blue) = (Planned::default(), || ("blue".to_owned(), "services"));
        let green = ("green".to_owned(), "services");
        assert_eq!(memory.compare(blue(), &words("a b"), true).new, words("a b"));
        assert_eq!(memory.compare(green, &words("a"), true).new, words("a"));
        assert_eq!(memory.compare(blue(), &words("c"), false).new, words("c"));
        assert_eq!(memory.compare(blue(), &words("b"), true).ended, words("a c"));
        assert_eq!(memory.compare(blue(), &words("a b"), true).new, words("a"));
    }
}
