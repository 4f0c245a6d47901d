//! Registrations and deregistrations are accepted first and carried out later: "accepted" is not
//! "done", and an accepted one can still fail. This waits for the outcome.

use std::time::Duration;

use aws_sdk_servicediscovery::types::OperationStatus;
use tokio::time::{Instant, sleep};

use super::{CloudMap, Error};

/// The first look at an operation; each later one waits half as long again.
const FIRST_POLL: Duration = Duration::from_millis(100);
/// The longest pause between two looks.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long one operation is waited for.
const PATIENCE: Duration = Duration::from_mins(1);

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was carried out.
    Success,
    /// It failed, with Cloud Map's code and message.
    Fail {
        /// For instance `INVALID_CHANGE_BATCH`.
        code: String,
        /// What Cloud Map says of it.
        message: String,
    },
    /// It is still under way, and there is no more time to wait for it.
    Pending,
}

impl CloudMap {
    /// Waits until an operation has ended, at most 60 seconds and not past `until`. `owner` is the account
    /// of the namespace that it works in: without it Cloud Map knows no operation in a shared one.
    ///
    /// # Errors
    /// Where Cloud Map does not tell how it goes.
    pub async fn wait(
        &self,
        operation: &str,
        owner: Option<&str>,
        until: Instant,
    ) -> Result<Ended, Error> {
        let until = until.min(Instant::now() + PATIENCE);
        let mut pause = FIRST_POLL;
        loop {
            if Instant::now() + pause > until {
                return Ok(Ended::Pending);
            }
            sleep(pause).await;
            pause = (pause * 3 / 2).min(LONGEST_PAUSE);
            if let Some(ended) = self.look(operation, owner).await? {
                return Ok(ended);
            }
        }
    }

    async fn look(&self, operation: &str, owner: Option<&str>) -> Result<Option<Ended>, Error> {
        let _permit = self.permit().await;
        let request = self.client.get_operation().operation_id(operation);
        let answer = request.set_owner_account(owner.map(str::to_owned)).send().await;
        let answer =
            answer.map_err(|error| Error::new(format!("get the operation {operation}"), &error))?;
        let Some(operation) = answer.operation else { return Ok(None) };
        Ok(match operation.status {
            Some(OperationStatus::Success) => Some(Ended::Success),
            Some(OperationStatus::Fail) => Some(Ended::Fail {
                code: operation.error_code.unwrap_or_else(|| "UNKNOWN".to_owned()),
                message: operation.error_message.unwrap_or_else(|| "no message".to_owned()),
            }),
            _ => None,
        })
    }
}
