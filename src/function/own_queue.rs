//! The queues of the function's own: that of the full syncs (`FAN_OUT`), into which the schedule puts one message for
//! each cluster, and that of the messages about single Services. Lambda invokes the function concurrently for their
//! messages. What the run for a cluster does not finish is left to the next one, which plans from the current state.
//!
//! A failed message returns after a backoff that doubles with each delivery. By default SQS delivers it again after the
//! visibility timeout, which must cover a run that Lambda kills: too long for a transient failure, and too short for an
//! outage. So each gets a delay by its number of deliveries, in the queue that delivered it.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_sqs::operation::send_message::SendMessageError;
use aws_sdk_sqs::types::ChangeMessageVisibilityBatchRequestEntry as Entry;
use aws_sdk_sqs::{Client, error};
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::{Function, Reply};
use crate::clients;
use crate::error::chain;
use crate::event::{Message, Receipt, Subject};
use crate::model::SignedDuration;
use crate::settings::Cluster;
use crate::time::{Deadline, backoff};

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
    pub source: Box<error::SdkError<SendMessageError>>,
}

#[derive(Clone, Debug)]
pub struct OwnQueue {
    client: Client,
    url: String,
}

/// The delay of a failed message: 1, 2, 4, 8 … minutes by its number of deliveries.
pub fn delay(receives: u32) -> Duration {
    backoff(receives, FIRST_DELAY, LONGEST_DELAY)
}

impl OwnQueue {
    pub fn new(config: &aws_config::SdkConfig, url: &str) -> Self {
        Self { client: Client::new(config), url: url.to_owned() }
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

    /// Sets the delay of failed messages. If this fails they return after the queue's visibility timeout, as without this
    /// request.
    async fn postpone(&self, failed: Vec<Receipt>, until: Deadline) {
        let requests = failed.chunks(BATCH).map(|batch| self.postpone_batch(batch));
        let problems = stream::iter(requests).buffer_unordered(CONCURRENCY).collect();
        let problems: Result<Vec<_>, _> = until.until_end(problems).await;
        let problems =
            problems.unwrap_or_else(|_| vec![vec!["the deadline was reached".to_owned()]]);
        let problems = problems.concat();
        if let Some(problem) = problems.first() {
            let (count, of) = (problems.len(), failed.len());
            tracing::warn!(
                "some of {of} failed messages return after the visibility timeout ({count} problems): {problem}"
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
                let text = |it: &str, message: Option<&str>| {
                    format!("{it}: {}", message.unwrap_or_default())
                };
                answer.failed().iter().map(|it| text(it.code(), it.message())).collect()
            }
            Err(error) => vec![chain(&error)],
        }
    }
}

impl Function {
    /// Queues one message for each cluster, if there are several. `None` if the schedule has to sync them itself.
    pub(super) async fn fan_out(&self) -> Option<Reply> {
        let configured = self.configured();
        let queue = self.full_sync_queue.as_ref().filter(|_| configured.clusters().count() > 1)?;
        let clusters = self.settings.clusters.iter();
        let sent = join_all(clusters.map(|cluster| self.queue_full_sync(queue, cluster))).await;
        // The others failed for the same cause: they went to one queue at one time.
        if let Some(error) = sent.iter().find_map(|sent| sent.as_ref().err()) {
            tracing::error!(
                "cannot queue the clusters, so this run syncs all of them: {}",
                chain(error)
            );
        }
        let sent: Vec<bool> = sent.into_iter().collect::<Result<_, _>>().ok()?;
        let queued = sent.iter().filter(|sent| **sent).count();
        tracing::info!(clusters = queued, "every cluster is queued as a message");
        let response = Ok(json!({ "ok": true, "handedOn": queued }));
        Some(Reply::queued(self.awaited().await, response))
    }

    /// Queues the full sync of a cluster, unless it turns out that another entry of the settings serves it.
    async fn queue_full_sync(&self, queue: &OwnQueue, cluster: &Cluster) -> Result<bool, Error> {
        if !cluster.namesakes.is_empty()
            && let Err(error @ clients::Error::NamedTwice { .. }) =
                self.clients.connect(cluster).await
        {
            tracing::warn!(cluster = cluster.label(), "{error}");
            return Ok(false);
        }
        let name = self.name_in_messages(cluster);
        queue.send(&json!({ "action": "sync", "cluster": name })).await.map(|()| true)
    }

    /// The ARNs of the clusters that page, under which their own runs write metrics. A cluster that EKS does not describe
    /// now is left out.
    async fn awaited(&self) -> Vec<String> {
        let configured = self.configured();
        let paging = configured.clusters().filter(|cluster| self.settings.pages(cluster));
        let arns = join_all(paging.map(|cluster| self.arn_of(cluster))).await;
        arns.into_iter().flatten().map(|arn| arn.to_string()).collect()
    }

    /// The failed messages that are delivered again: all but the full syncs of clusters that the schedule queues before
    /// that. Each full sync takes a run, so those of a cluster that cannot be read would add up and delay the others.
    pub(super) fn returning(&self, receipts: &Receipts, failed: Vec<String>) -> Vec<String> {
        let is_queued_again =
            |receipts: &Vec<Receipt>| receipts.iter().all(|receipt| self.is_queued_again(receipt));
        let (superseded, returning): (Vec<_>, Vec<_>) =
            failed.into_iter().partition(|id| receipts.get(id).is_some_and(is_queued_again));
        if !superseded.is_empty() {
            let count = superseded.len();
            tracing::info!(count, "the schedule queues these failed full syncs again");
        }
        returning
    }

    /// Whether the queue of the full syncs delivered a message.
    fn is_of_full_syncs(&self, receipt: &Receipt) -> bool {
        self.full_sync_queue.as_ref().is_some_and(|queue| queue.has_delivered(receipt))
    }

    /// Whether the schedule queues the cluster of a failed full sync again before its message would return. In a queue
    /// that also has other messages, each of them returns.
    fn is_queued_again(&self, receipt: &Receipt) -> bool {
        let queues = self.full_sync_queue.as_ref().zip(self.queue.as_ref());
        let are_separate = queues.is_some_and(|(full_syncs, queue)| queue.url != full_syncs.url);
        let period = self.settings.rules.guard.period;
        are_separate
            && self.is_of_full_syncs(receipt)
            && SignedDuration::try_from(delay(receipt.receives)).is_ok_and(|it| it >= period)
    }

    /// Postpones failed messages by 1, 2, 4, 8 … minutes. The payload is not trusted: it decides only between the two
    /// queues of the settings.
    pub(super) async fn postpone(&self, receipts: &Receipts, failed: &[String], until: Deadline) {
        let failed = failed.iter().filter_map(|id| receipts.get(id)).flatten().cloned();
        let (full_syncs, others): (Vec<_>, Vec<_>) =
            failed.partition(|receipt| self.is_of_full_syncs(receipt));
        let queues = [(&self.full_sync_queue, full_syncs), (&self.queue, others)].into_iter();
        let queues = queues.filter_map(|(queue, failed)| Some((queue.as_ref()?, failed)));
        join_all(queues.map(|(queue, failed)| queue.postpone(failed, until))).await;
    }
}

/// The receipts by message id. A batch may contain a message twice. An event about drift has a queue of its own, from which
/// it returns after the visibility timeout.
pub(super) type Receipts = BTreeMap<String, Vec<Receipt>>;

pub(super) fn receipts(messages: &[Message]) -> Receipts {
    let mut receipts = Receipts::new();
    for message in messages {
        let is_drift = matches!(message.reading, Ok(Subject::Drift(_)));
        if let Some(receipt) = message.receipt.as_ref().filter(|_| !is_drift) {
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
