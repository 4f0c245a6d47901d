//! The lines of a report by which a run is compared with the ones before. A note with the present time is planned anew in
//! each run, so times are left out.

use std::collections::BTreeSet;

use crate::model::{Outcome, Timestamp, join};
use crate::report::{
    ChangeLine, ClusterReport, ClustersetLine, EmptyServices, HeldBackLine, ImportLine,
    MultiClusterReport, NoteLine, ServiceReport,
};

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
