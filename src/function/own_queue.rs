//! A queue of the function's own: that of the full syncs, or that of the messages about single Services. Lambda invokes
//! the function concurrently for its messages. A failed message returns after a backoff that doubles with each delivery.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::SdkError;
use aws_sdk_sqs::operation::send_message::SendMessageError;
use aws_sdk_sqs::types::ChangeMessageVisibilityBatchRequestEntry as Entry;
use futures_util::{StreamExt, stream};
use serde_json::Value;

use crate::error::chain;
use crate::event::Receipt;

/// The delay after the first failure of a message; it doubles with each delivery.
const FIRST_DELAY: Duration = Duration::from_mins(1);
/// The longest delay.
const LONGEST_DELAY: Duration = Duration::from_hours(1);
/// SQS's limit of entries in one request.
const BATCH: usize = 10;
/// The number of concurrent requests.
const CONCURRENCY: usize = 8;

#[derive(Debug, thiserror::Error)]
#[error("cannot send a message to the function's own queue {url}")]
pub struct Error {
    pub url: String,
    #[source]
    pub source: Box<SdkError<SendMessageError>>,
}

#[derive(Clone, Debug)]
pub struct OwnQueue {
    client: Client,
    url: String,
}

/// The delay of a failed message: 1, 2, 4, 8 … minutes by its number of deliveries.
#[must_use]
pub fn delay(receives: u32) -> Duration {
    let doublings = receives.saturating_sub(1).min(16);
    LONGEST_DELAY.min(FIRST_DELAY * (1 << doublings))
}

impl OwnQueue {
    pub fn new(config: &SdkConfig, url: &str) -> Self {
        Self { client: Client::new(config), url: url.to_owned() }
    }

    /// Whether both are the same queue.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.url == other.url
    }

    /// Whether the event names this queue as the one that delivered the message: the last parts of its ARN are those of
    /// the URL. A URL need not have a Region.
    pub fn has_delivered(&self, receipt: &Receipt) -> bool {
        let parts = |text: &str, separator| {
            let mut parts = text.trim_end_matches('/').rsplitn(3, separator).map(str::to_owned);
            Some((parts.next()?, parts.next()?))
        };
        let named = receipt.queue.as_deref().and_then(|arn| parts(arn, ':'));
        named.is_some() && named == parts(&self.url, '/')
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Returns an error if SQS did not confirm the message.
    pub async fn send(&self, message: &Value) -> Result<(), Error> {
        let request = self.client.send_message().queue_url(&self.url);
        let sent = request.message_body(message.to_string()).send().await;
        let failed = |source| Error { url: self.url.clone(), source: Box::new(source) };
        sent.map(|_| ()).map_err(failed)
    }

    /// Sets the delay of failed messages. Returns the problems: such a message returns after the queue's visibility
    /// timeout, as without this request.
    pub async fn postpone(&self, receipts: &[Receipt]) -> Vec<String> {
        let requests = receipts.chunks(BATCH).map(|batch| self.postpone_batch(batch));
        let problems: Vec<Vec<String>> =
            stream::iter(requests).buffer_unordered(CONCURRENCY).collect().await;
        problems.into_iter().flatten().collect()
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
                let text = |it: &str, message: Option<&str>| {
                    format!("{it}: {}", message.unwrap_or_default())
                };
                answer.failed().iter().map(|it| text(it.code(), it.message())).collect()
            }
            Err(error) => vec![chain(&error)],
        }
    }
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
