//! The delay of failed messages. By default SQS delivers a failed message again after the visibility timeout. This
//! timeout must cover a run that Lambda kills, so it is too long for a transient failure, and too short for an outage.
//! So each failed message returns to the function's own queue (`QUEUE_URL`) after a backoff that doubles with each
//! delivery.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::ChangeMessageVisibilityBatchRequestEntry as Entry;
use futures_util::{StreamExt, stream};

use crate::error::chain;
use crate::event::{Message, Receipt};
use crate::time::{Deadline, backoff};

/// The delay after the first failure of a message; it doubles with each delivery.
const FIRST_DELAY: Duration = Duration::from_mins(1);
/// The longest delay.
const LONGEST_DELAY: Duration = Duration::from_hours(1);
/// SQS's limit of entries in one request.
const BATCH: usize = 10;
/// The number of concurrent requests.
const CONCURRENCY: usize = 8;

/// The function's own queue.
#[derive(Clone, Debug)]
pub struct Queue {
    client: Client,
    url: String,
}

/// Returns the delay of a failed message by its number of deliveries: 1, 2, 4, 8 … minutes, at most an hour.
pub fn delay(receives: u32) -> Duration {
    backoff(receives, FIRST_DELAY, LONGEST_DELAY)
}

impl Queue {
    pub fn new(config: &aws_config::SdkConfig, url: &str) -> Self {
        Self { client: Client::new(config), url: url.to_owned() }
    }

    /// Postpones failed messages by their [`delay`]. Messages whose delay cannot be set return after the queue's
    /// visibility timeout.
    pub(super) async fn postpone(&self, receipts: &Receipts, failed: &[String], until: Deadline) {
        let failed = failed.iter().filter_map(|id| receipts.get(id)).flatten().cloned();
        let failed: Vec<Receipt> = failed.collect();
        let requests = failed.chunks(BATCH).map(|batch| self.postpone_batch(batch));
        let problems = stream::iter(requests).buffer_unordered(CONCURRENCY).collect();
        let problems: Result<Vec<_>, _> = until.until_end(problems).await;
        let problems =
            problems.unwrap_or_else(|_| vec![vec!["the deadline was reached".to_owned()]]);
        let problems = problems.concat();
        if let Some(problem) = problems.first() {
            let count = problems.len();
            let all = failed.len();
            tracing::warn!(
                "some of {all} failed messages return after the visibility timeout ({count} problems): {problem}"
            );
        }
    }

    async fn postpone_batch(&self, receipts: &[Receipt]) -> Vec<String> {
        let entries = receipts.iter().enumerate().map(|(index, receipt)| {
            let seconds = i32::try_from(delay(receipt.receives).as_secs()).unwrap_or(i32::MAX);
            let entry = Entry::builder().id(index.to_string()).receipt_handle(&receipt.handle);
            entry.visibility_timeout(seconds).build()
        });
        let entries: Result<Vec<Entry>, _> = entries.collect();
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => return vec![error.to_string()],
        };
        let request = self.client.change_message_visibility_batch().queue_url(&self.url);
        match request.set_entries(Some(entries)).send().await {
            Ok(answer) => {
                let text = |code: &str, message: Option<&str>| {
                    format!("{code}: {}", message.unwrap_or_default())
                };
                answer
                    .failed()
                    .iter()
                    .map(|failure| text(failure.code(), failure.message()))
                    .collect()
            }
            Err(error) => vec![chain(&error)],
        }
    }
}

/// The receipts by message id. A batch may contain a message twice.
pub(super) type Receipts = BTreeMap<String, Vec<Receipt>>;

pub(super) fn receipts(messages: &[Message]) -> Receipts {
    let mut receipts = Receipts::new();
    for message in messages {
        if let Some(receipt) = &message.receipt {
            receipts.entry(message.id.clone()).or_default().push(receipt.clone());
        }
    }
    receipts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_with_each_delivery_up_to_an_hour() {
        let minutes = (0..9).map(|receives| delay(receives).as_secs() / 60);
        assert_eq!(minutes.collect::<Vec<_>>(), [1, 1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(delay(u32::MAX), LONGEST_DELAY);
    }
}
