//! The ids of clusters and clustersets. Both are part of names and labels, so they are short.

use std::fmt;

use crate::model::name::is_dns_label;

/// The id of a cluster in its clusterset: the value of the `ClusterProperty` `cluster.clusterset.k8s.io`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(String);

/// The id of a clusterset: the value of the `ClusterProperty` `clusterset.k8s.io`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClustersetId(String);

impl ClusterId {
    /// One DNS label, or two with a dot, and at most 63 characters, since it is also a label's value in Kubernetes.
    pub fn parse(text: &str) -> Option<Self> {
        let labels = text.split('.');
        let is_valid =
            text.len() <= 63 && labels.clone().count() <= 2 && labels.clone().all(is_dns_label);
        is_valid.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ClustersetId {
    /// 1 to 128 letters, digits, `.`, `_` or `-`.
    pub fn parse(text: &str) -> Option<Self> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_valid = (1..=128).contains(&text.len()) && text.bytes().all(is_allowed);
        is_valid.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ClustersetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A cluster in a clusterset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    pub cluster: ClusterId,
    pub clusterset: ClustersetId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_id_is_one_label_or_two() {
        let valid = ["blue", "1", "eu-1.blue", &"a".repeat(63)];
        let invalid = ["", "Blue", "a.b.c", "a..b", ".a", "a.", "-a", "a_b", &"a".repeat(64)];
        assert!(valid.iter().all(|text| ClusterId::parse(text).is_some()));
        for text in invalid {
            assert_eq!(ClusterId::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_clusterset_id_has_1_to_128_letters_digits_and_signs() {
        assert!(ClustersetId::parse("Shop._-1").is_some());
        assert!(ClustersetId::parse(&"a".repeat(128)).is_some());
        for text in ["", "a b", "a/b", "ä", &"a".repeat(129)] {
            assert_eq!(ClustersetId::parse(text), None, "{text:?}");
        }
    }
}
