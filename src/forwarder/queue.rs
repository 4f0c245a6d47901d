//! The function's queue: up to ten messages in one request, and what became of each.

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

/// Messages in one request. Ours are far from the megabyte that a request may have.
pub const BATCH: usize = 10;
/// Tries of one request by the SDK; what is refused then waits in `pending`.
const ATTEMPTS: u32 = 3;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
/// All tries together. Kubernetes gives a pod 30 s to end.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The queue, and what the messages in it call the cluster.
pub struct Queue {
    client: Client,
    url: String,
    cluster: String,
}

/// What became of the messages of one request.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Those that are in the queue.
    pub accepted: Vec<Due>,
    /// Those that are not, each with the queue's word for it.
    pub refused: Vec<(Due, String)>,
}

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A message that the SDK does not take.
    #[error("cannot make a message for the queue")]
    Build(#[from] aws_sdk_sqs::error::BuildError),
    /// No answer, or a refusal of the whole.
    #[error("cannot send messages to {url}")]
    Send {
        /// The queue.
        url: String,
        /// What SQS or the connection said.
        #[source]
        source: Box<SdkError<SendMessageBatchError>>,
    },
}

/// The SDK's configuration for a queue, to be completed from the environment: the credentials are
/// those of EKS Pod Identity, of the pod's ServiceAccount, or any other that the SDK finds.
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

    /// Sends a message for each place, at most ten, as one call takes.
    ///
    /// # Errors
    /// Where none of them is known to be in the queue.
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

/// A message of which the answer says nothing counts as refused: twice is better than never.
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
            || "the answer does not mention it".to_owned(),
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
    use crate::forwarder::Place;
    use crate::model::ServiceRef;

    fn due(name: &str) -> Due {
        Due { place: Place::Service(ServiceRef::new("shop", name)), since: Instant::now() }
    }

    #[test]
    fn only_a_message_that_the_queue_says_it_has_counts_as_sent() {
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
        assert_eq!(why, ["InternalError: later", "the answer does not mention it"]);
        assert!(refused.iter().map(|(due, _)| due).eq(&places[1..]));
    }
}
