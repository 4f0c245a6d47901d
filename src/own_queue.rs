//! The function's own queue, from which Lambda starts it again, side by side as often as there are messages: what
//! one invocation has no time for, others do.

use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::SdkError;
use aws_sdk_sqs::operation::send_message::SendMessageError;
use serde_json::Value;

/// Why a message is not in the queue.
#[derive(Debug, thiserror::Error)]
#[error("cannot send a message to the function's own queue {url}")]
pub struct Error {
    /// The queue.
    pub url: String,
    /// What SQS or the connection said.
    #[source]
    pub source: Box<SdkError<SendMessageError>>,
}

/// The queue.
#[derive(Clone, Debug)]
pub struct OwnQueue {
    client: Client,
    url: String,
}

impl OwnQueue {
    /// The queue at `url`.
    pub fn new(config: &SdkConfig, url: &str) -> Self {
        Self { client: Client::new(config), url: url.to_owned() }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Where it is not known to be in the queue.
    pub async fn send(&self, message: &Value) -> Result<(), Error> {
        let request = self.client.send_message().queue_url(&self.url);
        let sent = request.message_body(message.to_string()).send().await;
        let failed = |source| Error { url: self.url.clone(), source: Box::new(source) };
        sent.map(|_| ()).map_err(failed)
    }
}
