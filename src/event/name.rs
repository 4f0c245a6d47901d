//! The check of names in an event. Any sender of a message chooses these texts, and they appear in requests, logs and
//! reports, so only valid names are accepted.

use serde_json::{Map, Value};

use super::Unusable;
use crate::model::name::{is_dns_label, is_dns_subdomain};

/// A little more than the longest ARN of an EKS cluster with its name of up to 100 characters.
const LONGEST_CLUSTER: usize = 160;
const LABEL: &str = "at most 63 of a-z, 0-9 and -, a letter or digit at both ends";
const CLUSTER: &str = "an EKS cluster's name or ARN, at most 160 printable ASCII characters";
const KIND: &str = "a Kubernetes kind such as Service";

/// The text of a field, if it is there and not null.
pub(super) fn text<'a>(
    object: &'a Map<String, Value>,
    field: &'static str,
) -> Result<Option<&'a str>, Unusable> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Unusable::InvalidName { field, expected: "a string" }),
    }
}

/// Checks a cluster's name or ARN. Whether it exists is checked against the settings later.
pub(super) fn cluster(text: &str) -> Result<String, Unusable> {
    let printable = text.chars().all(|c| c == ' ' || c.is_ascii_graphic());
    let named = text == text.trim() && !text.is_empty() && text.len() <= LONGEST_CLUSTER;
    check(printable && named, text, "cluster", CLUSTER)
}

/// Checks a Kubernetes namespace.
pub(super) fn namespace(text: &str) -> Result<String, Unusable> {
    check(is_dns_label(text), text, "namespace", LABEL)
}

/// Checks a Kubernetes Service.
pub(super) fn service(text: &str) -> Result<String, Unusable> {
    check(is_dns_label(text), text, "service", LABEL)
}

/// Checks a Kubernetes kind, with its API group after a dot if it has one.
pub(super) fn kind(text: &str) -> Result<String, Unusable> {
    let (kind, group) = text.split_once('.').unwrap_or((text, "v1"));
    let word = kind.starts_with(|c: char| c.is_ascii_alphabetic())
        && kind.bytes().all(|b| b.is_ascii_alphanumeric())
        && kind.len() <= 63;
    check(word && is_dns_subdomain(group), text, "kind", KIND)
}

fn check(
    valid: bool,
    text: &str,
    field: &'static str,
    expected: &'static str,
) -> Result<String, Unusable> {
    if valid { Ok(text.to_owned()) } else { Err(Unusable::InvalidName { field, expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_and_services_are_dns_labels_and_nothing_else() {
        let longest = "a".repeat(63);
        for good in ["web", "0-day", "a", longest.as_str()] {
            assert_eq!(service(good).as_deref(), Ok(good));
            assert_eq!(namespace(good).as_deref(), Ok(good));
        }
        let long = "a".repeat(64);
        let hostile = [
            "",
            "-",
            "web-",
            "-web",
            "Web",
            "web.shop",
            "../web",
            "web/../../nodes",
            "web%2e",
            "web?x=1",
            "web\n",
            "web\0",
            "wéb",
            "\u{202e}bew",
            "web web",
            "{{web}}",
            long.as_str(),
        ];
        for bad in hostile {
            assert!(service(bad).is_err(), "{bad:?}");
            assert!(namespace(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn clusters_are_names_arns_or_other_short_printable_texts() {
        let longest = "c".repeat(160);
        let name = "c".repeat(100);
        let long_arn = format!("arn:aws-us-gov:eks:us-gov-west-1:111122223333:cluster/{name}");
        let good = [
            "blue",
            "Blue_2",
            "production (eu)",
            "arn:aws:eks:eu-central-1:111122223333:cluster/blue",
            longest.as_str(),
            long_arn.as_str(),
        ];
        for good in good {
            assert_eq!(cluster(good).as_deref(), Ok(good));
        }
        let long = "c".repeat(161);
        let bad = ["", " ", " blue", "blue\r\nx", "bl\u{1b}[31mue", "blüe", long.as_str()];
        for bad in bad {
            assert!(cluster(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn kinds_are_words_with_an_api_group_at_most() {
        for good in ["Deployment", "Service.serving.knative.dev", "endpointslices"] {
            assert_eq!(kind(good).as_deref(), Ok(good));
        }
        let long = "K".repeat(64);
        for bad in
            [long.as_str(), "", "two words", "7up", "Kind.", "Kind.-", "Kind\n", ".v1", "Kind/v1"]
        {
            assert!(kind(bad).is_err(), "{bad:?}");
        }
    }
}
