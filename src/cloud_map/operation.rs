//! Registrations and deregistrations are accepted first and carried out later: "accepted" is not
//! "done", and an accepted one can still fail. This waits for the outcome.

use std::time::Duration;

use aws_sdk_servicediscovery::types::{Operation, OperationStatus};
use tokio::time::{Instant, sleep, timeout_at};

use super::usual::Usual;
use super::{Call, CloudMap, Error, Permit};
use crate::model::NamespaceKind;

/// How long one operation is waited for.
const PATIENCE: Duration = Duration::from_mins(1);

/// How long operations usually take: records of Route 53 take longer than a line in Cloud Map.
#[derive(Debug, Default)]
pub(super) struct UsualTimes {
    http: Usual,
    dns: Usual,
}

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
    /// Waits until an operation in a namespace of this kind has ended, at most 60 seconds and not past
    /// `until`. `owner` is the account of the namespace: without it Cloud Map knows no operation in a shared one.
    ///
    /// # Errors
    /// Where Cloud Map does not tell how it goes.
    pub async fn wait(
        &self,
        operation: &str,
        kind: NamespaceKind,
        owner: Option<&str>,
        until: Instant,
    ) -> Result<Ended, Error> {
        let until = until.min(Instant::now() + PATIENCE);
        let ended = timeout_at(until, self.follow(operation, kind, owner));
        ended.await.unwrap_or(Ok(Ended::Pending))
    }

    async fn follow(
        &self,
        operation: &str,
        kind: NamespaceKind,
        owner: Option<&str>,
    ) -> Result<Ended, Error> {
        let start = Instant::now();
        let usual = match kind {
            NamespaceKind::Http => &self.usual.http,
            NamespaceKind::Dns => &self.usual.dns,
        };
        for looks in 1.. {
            let scout = usual.first_look(start).await;
            // Thousands wait for this leave at once.
            let permit = self.permit(Call::GetOperation).await;
            let looked = Box::pin(self.look(permit, operation, owner)).await?;
            if let Some((ended, took)) = looked {
                usual.ended(took.unwrap_or(start.elapsed()));
                return Ok(ended);
            }
            usual.pending(start.elapsed());
            if scout.is_none() {
                sleep(usual.pause(looks)).await;
            }
        }
        Ok(Ended::Pending)
    }

    /// How an operation has ended, and after how long.
    async fn look(
        &self,
        _permit: Permit<'_>,
        operation: &str,
        owner: Option<&str>,
    ) -> Result<Option<(Ended, Option<Duration>)>, Error> {
        let request = self.client.get_operation().operation_id(operation);
        let answer = request.set_owner_account(owner.map(str::to_owned)).send().await;
        let answer =
            answer.map_err(|error| Error::new(format!("get the operation {operation}"), &error))?;
        let Some(operation) = answer.operation else { return Ok(None) };
        let took = took(&operation);
        let ended = match operation.status {
            Some(OperationStatus::Success) => Ended::Success,
            Some(OperationStatus::Fail) => Ended::Fail {
                code: operation.error_code.unwrap_or_else(|| "UNKNOWN".to_owned()),
                message: operation.error_message.unwrap_or_else(|| "no message".to_owned()),
            },
            _ => return Ok(None),
        };
        Ok(Some((ended, took)))
    }
}

/// From its acceptance to its end, by Cloud Map's clock.
fn took(operation: &Operation) -> Option<Duration> {
    let (accepted, ended) = (operation.create_date?, operation.update_date?);
    Duration::try_from_secs_f64(ended.as_secs_f64() - accepted.as_secs_f64()).ok()
}
