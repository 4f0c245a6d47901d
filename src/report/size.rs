//! The size limit of a response: Lambda rejects one of more than 6 MB. Longer lists are shortened until the response
//! fits, and the response names the part that is left out.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

use super::{ClusterReport, MultiClusterReport, Report, ServiceReport};

/// Below Lambda's limit of 6 MB for a response.
const LARGEST_ANSWER: usize = 5_000_000;

/// A response with lists that can be shortened.
pub trait Shorten: Serialize {
    /// The length of the longest list.
    fn longest(&self) -> usize;
    /// Keeps the given number of entries of each list, the most important first, and records the cut.
    fn shorten(&mut self, entries: usize);

    /// Shortens the response until Lambda accepts it.
    fn fit(&mut self) {
        let mut entries = self.longest();
        while entries > 0 && !is_within_limit(self) {
            self.shorten(entries);
            entries /= 2;
        }
    }
}

fn is_within_limit(answer: &(impl Serialize + ?Sized)) -> bool {
    let mut length = Length(0);
    serde_json::to_writer(&mut length, answer).is_ok_and(|()| length.0 <= LARGEST_ANSWER)
}

/// Counts bytes, so that a response that is too large is never held in memory.
struct Length(usize);

impl Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The response as JSON, shortened if it is too large.
pub fn within_limit(answer: &(impl Shorten + Clone)) -> Value {
    if is_within_limit(answer) {
        return json!(answer);
    }
    let mut answer = answer.clone();
    answer.fit();
    json!(answer)
}

impl Shorten for Report {
    fn longest(&self) -> usize {
        let clusters = self.clusters.iter().chain(self.orphans.iter().map(|orphans| &orphans.done));
        let empty = &self.empty_services;
        let lists = [empty.deletions.len(), empty.kept.len(), self.dropped.len()];
        clusters.map(ClusterReport::lines).chain(lists).max().unwrap_or_default()
    }

    fn shorten(&mut self, entries: usize) {
        let orphans = self.orphans.iter_mut().map(|orphans| &mut orphans.done);
        for cluster in self.clusters.iter_mut().chain(orphans) {
            cluster.shorten(entries);
        }
        self.empty_services.deletions.truncate(entries);
        self.empty_services.kept.truncate(entries);
        self.dropped.truncate(entries);
        self.cut = Some(format!(
            "the report is too large for a Lambda response: it has the first {entries} lines of each cluster, and the \
             counts of all lines; select a cluster, a namespace or a Service"
        ));
    }
}

impl ClusterReport {
    fn lines(&self) -> usize {
        let of_services = self.services.iter().map(|service| 1 + service.lines()).sum::<usize>();
        let losing = self.guard.iter().map(|guard| guard.services.len()).sum::<usize>();
        let of_clusterset = self.multi_cluster.as_ref().map_or(0, MultiClusterReport::lines);
        self.held_back.len() + self.warnings.len() + losing + of_services + of_clusterset
    }

    /// Keeps the given number of lines: first the warnings and the names that were not read or lost their last
    /// instance, then the held-back requests of the Services themselves, then the lines of the clusterset and of
    /// each name. Drops names without a line.
    fn shorten(&mut self, entries: usize) {
        let mut left = entries;
        keep(&mut self.warnings, &mut left);
        self.guard.iter_mut().for_each(|guard| guard.services.truncate(entries));
        for service in &mut self.services {
            if service.is_unreadable_or_emptied() && left > 0 {
                left -= 1;
            } else {
                (service.unreadable, service.emptied) = (None, false);
            }
        }
        keep(&mut self.held_back, &mut left);
        self.multi_cluster.iter_mut().for_each(|it| it.shorten(&mut left));
        self.services.retain_mut(|service| {
            keep(&mut service.changes, &mut left);
            keep(&mut service.held_back, &mut left);
            keep(&mut service.notes, &mut left);
            service.lines() > 0
        });
    }
}

impl MultiClusterReport {
    fn lines(&self) -> usize {
        let reasons = self.conflicts.len() + self.held_back.len();
        reasons + self.export_changes.len() + self.changes.len()
    }

    fn shorten(&mut self, left: &mut usize) {
        keep(&mut self.held_back, left);
        keep(&mut self.conflicts, left);
        keep(&mut self.export_changes, left);
        keep(&mut self.changes, left);
    }
}

impl ServiceReport {
    fn is_unreadable_or_emptied(&self) -> bool {
        self.unreadable.is_some() || self.emptied
    }

    fn lines(&self) -> usize {
        let lists = self.changes.len() + self.held_back.len() + self.notes.len();
        usize::from(self.is_unreadable_or_emptied()) + lists
    }
}

/// Shortens a list to the lines that are left, and counts the lines that it keeps.
fn keep<T>(list: &mut Vec<T>, left: &mut usize) {
    list.truncate(*left);
    *left -= list.len();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Outcome;
    use crate::model::{ServiceRef, Verb};
    use crate::report::{ChangeLine, Counts, Deletion, Dropped, ImportLine, Mode};

    fn report(services: usize) -> Report {
        let change = |number: usize| ChangeLine {
            change: Verb::Register,
            instance: Some(format!("ip-10-0-0-1-{number}")),
            service: ServiceRef::new("shop", format!("web-{number}")),
            detail: "10.0.0.1 port 8080 (pod web-7f9c6d5b8-abcde)".to_owned(),
            result: Outcome::Planned,
        };
        let service = |number: usize| ServiceReport {
            namespace: "shop.local".to_owned(),
            name: format!("web-{number:06}"),
            changes: (0..number % 3).map(change).collect(),
            ..ServiceReport::default()
        };
        let services = (0..services).map(service).collect();
        let counts = Counts { registered: 100_000, ..Counts::default() };
        let cluster = ClusterReport { counts, services, ..ClusterReport::default() };
        Report::new(Mode::Plan, vec![cluster])
    }

    #[test]
    fn a_report_that_fits_is_not_cut() {
        let value = within_limit(&report(100));
        assert_eq!(value.get("cut"), None);
        assert_eq!(value["clusters"][0]["services"].as_array().map(Vec::len), Some(100));
    }

    #[test]
    fn a_report_that_is_too_large_has_its_first_changes_and_all_counts() {
        let value = within_limit(&report(100_000));
        let size = value.to_string().len();
        assert!((LARGEST_ANSWER / 5..=LARGEST_ANSWER).contains(&size), "{size}");
        let report: Report = serde_json::from_value(value).expect("a report");
        assert_eq!(report.counts.registered, 100_000);
        assert_eq!(report.clusters[0].services[0].name, "web-000001");
        assert!(report.clusters[0].services.iter().all(|service| !service.changes.is_empty()));
        assert!(report.to_string().contains("\n! the report is too large"));
    }

    #[test]
    fn names_that_were_not_read_or_went_empty_are_kept_first() {
        let mut whole = report(100_000);
        let services = &mut whole.clusters[0].services;
        services[99_998].unreadable = Some("ListInstances was throttled".to_owned());
        services[99_999].emptied = true;
        let report: Report = serde_json::from_value(within_limit(&whole)).expect("a report");
        let last: Vec<_> = report.clusters[0].services.iter().rev().take(2).collect();
        assert!(last[0].emptied, "{}", last[0].name);
        assert!(last[1].unreadable.is_some(), "{}", last[1].name);
    }

    /// Makes one list of a report long.
    type Grow<'a> = &'a dyn Fn(&mut Report);

    #[test]
    fn every_long_list_is_cut() {
        let words = || "a sentence of one hundred characters or more ".repeat(3);
        let result = Outcome::Failed { error: words() };
        let deletion = |number: usize| Deletion {
            namespace: "shop.local".to_owned(),
            name: format!("web-{number}"),
            result: result.clone(),
        };
        let dropped = |number: usize| Dropped {
            message: number.to_string(),
            reason: "InvalidEvent".into(),
            detail: words(),
        };
        let sentences = || (0..50_000).map(|_| words()).collect::<Vec<_>>();
        let unread = |mut service: ServiceReport| {
            service.unreadable = Some(words());
            service
        };
        let cases: [(&str, Grow<'_>); 5] = [
            ("deletions", &|it| it.empty_services.deletions = (0..50_000).map(deletion).collect()),
            ("kept", &|it| it.empty_services.kept = sentences()),
            ("dropped", &|it| it.dropped = (0..50_000).map(dropped).collect()),
            ("warnings", &|it| it.clusters[0].warnings = sentences()),
            ("unread", &|it| {
                it.clusters[0].services = report(50_000).clusters.remove(0).services;
                let services = std::mem::take(&mut it.clusters[0].services);
                it.clusters[0].services = services.into_iter().map(unread).collect();
            }),
        ];
        for (list, grow) in cases {
            let mut report = report(1);
            grow(&mut report);
            let value = within_limit(&report);
            let size = value.to_string().len();
            assert!((LARGEST_ANSWER / 5..=LARGEST_ANSWER).contains(&size), "{list}: {size}");
            assert!(value["cut"].is_string(), "{list}");
        }
    }

    #[test]
    fn changes_of_imports_are_cut_like_those_of_names() {
        let line = |number: usize| ImportLine {
            change: format!(
                "+ slice      shop/imported-isrlchlhrq-ac321fb1-{number}  IPv4 of blue"
            ),
            result: Outcome::Planned,
        };
        let multi_cluster = MultiClusterReport {
            changes: (0..100_000).map(line).collect(),
            ..MultiClusterReport::default()
        };
        let cluster =
            ClusterReport { multi_cluster: Some(multi_cluster), ..ClusterReport::default() };
        let answer = within_limit(&Report::new(Mode::Plan, vec![cluster]));
        assert!(answer.to_string().len() <= LARGEST_ANSWER && answer["cut"].is_string());
        let kept = answer["clusters"][0]["multiCluster"]["changes"].as_array().map(Vec::len);
        assert!(kept.is_some_and(|kept| kept > 10_000), "{kept:?}");
    }
}
