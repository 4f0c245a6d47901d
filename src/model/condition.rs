//! A condition of an object's status, as `metav1.Condition` has it.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Timestamp;
use super::words::words;

/// A condition, of any controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The API's field `type`.
    #[serde(rename = "type")]
    pub kind: String,
    pub status: ConditionStatus,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub message: String,
    /// The `metadata.generation` that the condition is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The last change of the status.
    #[serde(serialize_with = "write_seconds", deserialize_with = "read_time")]
    pub last_transition_time: Timestamp,
}

words! {
    /// The status of a condition.
    pub enum ConditionStatus {
        True = "True",
        False = "False",
        Unknown = "Unknown",
    }
}

/// The API has no fractions of a second.
fn write_seconds<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&time.strftime("%Y-%m-%dT%H:%M:%SZ"))
}

fn read_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}
