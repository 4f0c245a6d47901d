//! The function's queue: sends up to ten messages in one request, and returns the messages that SQS accepted and
//! rejected.

use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, ConfigLoader, Region};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::SdkError;
use aws_sdk_sqs::operation::send_message_batch::{SendMessageBatchError, SendMessageBatchOutput};
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;

use super::pending::Due;
use super::settings::QueueUrl;

/// SQS's limit of messages in one request. Ours are far below its size limit of 1 MB.
pub const BATCH: usize = 10;
/// The SDK's attempts of one request. After that the messages return to `pending`.
const ATTEMPTS: u32 = 3;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
/// All attempts together. Kubernetes allows a pod 30 s to end.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The queue, with the cluster's name for the messages.
pub struct Queue {
    client: Client,
    url: String,
    cluster: String,
}

#[derive(Debug, Default)]
pub struct Outcome {
    pub accepted: Vec<Due>,
    /// The rejected messages, each with the reason.
    pub refused: Vec<(Due, String)>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot build a message for the queue")]
    Build(#[from] aws_sdk_sqs::error::BuildError),
    #[error("cannot send messages to {url}")]
    Send {
        url: String,
        #[source]
        source: Box<SdkError<SendMessageBatchError>>,
    },
}

/// The SDK's configuration for a queue. The credentials come from the environment: EKS Pod Identity, the pod's
/// ServiceAccount, or any other source of the SDK.
pub fn sdk_config(queue: &QueueUrl) -> ConfigLoader {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .operation_timeout(REQUEST_TIMEOUT)
        .build();
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .region(Region::new(queue.region.clone()))
        .endpoint_url(&queue.endpoint)
        .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
        .timeout_config(timeouts)
}

impl Queue {
    /// The queue behind `client` at `url`.
    pub fn new(client: Client, url: &str, cluster: &str) -> Self {
        Self { client, url: url.to_owned(), cluster: cluster.to_owned() }
    }

    /// Sends a message for each place, at most ten.
    ///
    /// # Errors
    /// Returns an error if SQS confirmed none of the messages.
    pub async fn send(&self, places: &[Due]) -> Result<Outcome, Error> {
        let entries = places.iter().enumerate().map(|(index, due)| {
            SendMessageBatchRequestEntry::builder()
                .id(index.to_string())
                .message_body(due.place.message(&self.cluster).to_string())
                .build()
        });
        let entries: Vec<_> = entries.collect::<Result<_, _>>()?;
        let request = self.client.send_message_batch().queue_url(&self.url);
        let answer = request.set_entries(Some(entries)).send().await;
        let answer = answer
            .map_err(|source| Error::Send { url: self.url.clone(), source: Box::new(source) })?;
        Ok(outcome(places, &answer))
    }
}

/// Splits the messages by SQS's response. A message that is missing there counts as rejected: a duplicate is better
/// than a loss.
fn outcome(places: &[Due], answer: &SendMessageBatchOutput) -> Outcome {
    let mut outcome = Outcome::default();
    for (index, due) in places.iter().enumerate() {
        let id = index.to_string();
        if answer.successful.iter().any(|entry| entry.id == id) {
            outcome.accepted.push(due.clone());
            continue;
        }
        let failed = answer.failed.iter().find(|entry| entry.id == id);
        let why = failed.map_or_else(
            || "it is missing in the response".to_owned(),
            |entry| format!("{}: {}", entry.code, entry.message.as_deref().unwrap_or_default()),
        );
        outcome.refused.push((due.clone(), why));
    }
    outcome
}

#[cfg(test)]
mod tests {
    use aws_sdk_sqs::types::{BatchResultErrorEntry, SendMessageBatchResultEntry};
    use tokio::time::Instant;

    use super::*;
    use crate::Place;
    use cloud_map_sync::model::ServiceRef;

    fn due(name: &str) -> Due {
        Due { place: Place::Service(ServiceRef::new("shop", name)), since: Instant::now() }
    }

    #[test]
    fn only_a_message_that_the_queue_confirms_counts_as_sent() {
        let places = ["web", "cart", "api"].map(due);
        let has = SendMessageBatchResultEntry::builder();
        let has = has.id("0").message_id("m").md5_of_message_body("d").build();
        let has_not = BatchResultErrorEntry::builder();
        let has_not = has_not.id("1").code("InternalError").sender_fault(false).message("later");
        let answer = SendMessageBatchOutput::builder()
            .successful(has.expect("complete"))
            .failed(has_not.build().expect("complete"))
            .build()
            .expect("complete");
        let Outcome { accepted, refused } = outcome(&places, &answer);
        assert_eq!(accepted, places[..1]);
        let why: Vec<&str> = refused.iter().map(|(_, why)| why.as_str()).collect();
        assert_eq!(why, ["InternalError: later", "it is missing in the response"]);
        assert!(refused.iter().map(|(due, _)| due).eq(&places[1..]));
    }
}
