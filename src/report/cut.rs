//! Answers that Lambda's limit does not let out whole: their lists are shortened until they fit, and a line
//! says what is left out.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

use super::checkup::Checkup;
use super::explanation::Explanation;
use super::status::Status;

/// Lambda answers at most 6 MB; what comes near is cut.
const LARGEST_ANSWER: usize = 5_000_000;

/// An answer whose lists can be shortened.
pub trait Shorten: Serialize {
    /// The length of the longest list.
    fn longest(&self) -> usize;
    /// Leaves so many entries of each list, first those that matter most, and says so.
    fn shorten(&mut self, entries: usize);
}

/// Whether Lambda lets the answer out whole.
pub fn is_within_limit(answer: &impl Serialize) -> bool {
    let mut length = Length(0);
    serde_json::to_writer(&mut length, answer).is_ok_and(|()| length.0 <= LARGEST_ANSWER)
}

/// Counts bytes: an answer that is too large is never held in memory.
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

/// The answer as JSON, shortened where it is too large.
pub fn within_limit(mut answer: impl Shorten) -> Value {
    let mut entries = answer.longest();
    loop {
        if entries == 0 || is_within_limit(&answer) {
            return json!(answer);
        }
        answer.shorten(entries);
        entries /= 2;
    }
}

impl Shorten for Status {
    fn longest(&self) -> usize {
        self.registries.iter().map(|registry| registry.services.len()).max().unwrap_or_default()
    }

    fn shorten(&mut self, entries: usize) {
        for registry in &mut self.registries {
            registry.services.truncate(entries);
        }
        self.cut = Some(format!(
            "the whole status is too large for Lambda's answer: these are the first {entries} services of each \
             Cloud Map, and the sums are theirs"
        ));
    }
}

impl Shorten for Explanation {
    fn longest(&self) -> usize {
        self.names.iter().map(|name| name.endpoints.len()).max().unwrap_or_default()
    }

    fn shorten(&mut self, entries: usize) {
        for name in &mut self.names {
            name.endpoints.sort_by_key(|line| line.fate == "registered");
            name.endpoints.truncate(entries);
            name.held_back.truncate(entries);
        }
        self.cut = Some(format!(
            "the whole explanation is too large for Lambda's answer: these are {entries} endpoints of each name, \
             first those that are not registered"
        ));
    }
}

impl Shorten for Checkup {
    fn longest(&self) -> usize {
        self.clusters.len()
    }

    fn shorten(&mut self, entries: usize) {
        for cluster in &mut self.clusters {
            cluster.checks.retain(|check| check.outcome != "ok");
        }
        self.clusters.retain(|cluster| !cluster.checks.is_empty());
        self.clusters.truncate(entries);
        self.cut = Some(format!(
            "all checks are too many for Lambda's answer: these are those that are not ok, of up to {entries} \
             clusters; name a cluster"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ServiceRef;
    use crate::report::checkup::{Check, ClusterCheckup};
    use crate::report::explanation::{EndpointLine, Name};
    use crate::report::status::{RegistryStatus, ServiceStatus};
    use serde::de::DeserializeOwned;

    fn cut<T: Shorten + DeserializeOwned>(answer: T) -> T {
        let value = within_limit(answer);
        let size = value.to_string().len();
        assert!((LARGEST_ANSWER / 5..=LARGEST_ANSWER).contains(&size), "{size}");
        assert!(value["cut"].is_string(), "it says so");
        serde_json::from_value(value).expect("of this release")
    }

    fn status(services: usize) -> Status {
        let service = |number| ServiceStatus {
            namespace: "shop.local".to_owned(),
            name: format!("service-{number:06}"),
            ..ServiceStatus::default()
        };
        let services = (0..services).map(service).collect();
        let registry = RegistryStatus { services, ..RegistryStatus::default() };
        Status::new("cloud-map-sync", vec!["blue".to_owned()], vec![registry])
    }

    #[test]
    fn what_fits_is_told_whole() {
        let value = within_limit(status(100));
        assert_eq!(value.get("cut"), None);
        assert_eq!(value["registries"][0]["services"].as_array().map(Vec::len), Some(100));
    }

    #[test]
    fn a_status_that_is_too_large_tells_of_the_first_services() {
        let status = cut(status(100_000));
        assert_eq!(status.registries[0].services[0].name, "service-000000");
        assert!(status.to_string().contains("\n! the whole status is too large"));
    }

    #[test]
    fn an_explanation_that_is_too_large_tells_first_what_is_not_registered() {
        let endpoint = |number: usize| EndpointLine {
            pod: Some(format!("web-{number}")),
            addresses: vec!["10.0.0.1".to_owned()],
            condition: "ready".into(),
            fate: if number == 59_999 { "not_registered" } else { "registered" }.into(),
            detail: "a sentence about what becomes of it".to_owned(),
        };
        let name = Name {
            namespace: "shop.local".to_owned(),
            name: "web".to_owned(),
            facts: Vec::new(),
            endpoints: (0..60_000).map(endpoint).collect(),
            held_back: Vec::new(),
            discovery: None,
        };
        let mut explanation = Explanation::new("blue", &ServiceRef::new("shop", "web"));
        explanation.names.push(name);

        let explanation = cut(explanation);

        assert_eq!(explanation.names[0].endpoints[0].fate, "not_registered");
        assert!(explanation.to_string().contains("\n! the whole explanation is too large"));
    }

    #[test]
    fn a_checkup_that_is_too_large_tells_of_what_is_not_ok() {
        let cluster = |number: usize| {
            let fine = |_| Check::ok("identity", "a sentence about what was found there");
            let mut checks: Vec<Check> = (0..20).map(fine).collect();
            checks.push(Check::failed("route", "no answer".repeat(40), "allow 443".repeat(40)));
            ClusterCheckup { cluster: format!("cluster-{number:04}"), checks }
        };
        let checkup = Checkup::new((0..4_000).map(cluster).collect());

        let checkup = cut(checkup);

        assert!(!checkup.ok);
        assert_eq!(checkup.clusters.len(), 4_000, "what failed is told of all");
        assert!(checkup.to_string().contains("\n! all checks are too many"));
    }
}
