//! The size limit of a response: Lambda rejects one of more than 6 MB. Longer lists are shortened until the response
//! fits, and the response names the part that is left out.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

use super::{ClusterReport, Report, ServiceReport};

/// Below Lambda's limit of 6 MB for a response.
const LARGEST_ANSWER: usize = 5_000_000;

/// A response with lists that can be shortened.
pub trait Shorten: Serialize {
    /// The length of the longest list.
    fn longest(&self) -> usize;
    /// Keeps the given number of entries of each list, the most important first, and records the cut.
    fn shorten(&mut self, entries: usize);
}

fn is_within_limit(answer: &impl Serialize) -> bool {
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
    let mut entries = answer.longest();
    if is_within_limit(answer) {
        return json!(answer);
    }
    let mut answer = answer.clone();
    while entries > 0 && !is_within_limit(&answer) {
        answer.shorten(entries);
        entries /= 2;
    }
    json!(answer)
}

impl Shorten for Report {
    fn longest(&self) -> usize {
        self.lists().map(ClusterReport::lines).max().unwrap_or_default()
    }

    fn shorten(&mut self, entries: usize) {
        let orphans = self.orphans.iter_mut().map(|orphans| &mut orphans.done);
        for cluster in self.clusters.iter_mut().chain(orphans) {
            cluster.shorten(entries);
        }
        self.cut = Some(format!(
            "the report is too large for a Lambda response: it has the first {entries} lines of each cluster, and the \
             counts of all lines; select a cluster, a namespace or a Service"
        ));
    }
}

impl Report {
    fn lists(&self) -> impl Iterator<Item = &ClusterReport> {
        self.clusters.iter().chain(self.orphans.iter().map(|orphans| &orphans.done))
    }
}

impl ClusterReport {
    fn lines(&self) -> usize {
        let of_service = |it: &ServiceReport| 1 + it.changes.len() + it.held_back.len();
        self.held_back.len() + self.services.iter().map(of_service).sum::<usize>()
    }

    /// Keeps the given number of lines: first the held-back requests of the Services themselves, then the lines of each
    /// name. Drops names without a line.
    fn shorten(&mut self, entries: usize) {
        self.held_back.truncate(entries);
        let mut left = entries - self.held_back.len();
        self.services.retain_mut(|service| {
            service.changes.truncate(left);
            service.held_back.truncate(left - service.changes.len());
            let lines = service.changes.len() + service.held_back.len();
            left -= lines;
            lines > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ServiceRef, Verb};
    use crate::report::{ChangeLine, ChangeResult, Counts, Mode};

    fn report(services: usize) -> Report {
        let change = |number: usize| ChangeLine {
            change: Verb::Register,
            instance: Some(format!("ip-10-0-0-1-{number}")),
            service: ServiceRef::new("shop", format!("web-{number}")),
            detail: "10.0.0.1 port 8080 (pod web-7f9c6d5b8-abcde)".to_owned(),
            result: ChangeResult::Planned,
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
}
