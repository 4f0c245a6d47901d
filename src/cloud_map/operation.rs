//! Registrations and deregistrations are accepted first and carried out later: "accepted" is not
//! "done", and an accepted one can still fail. This waits for the outcome.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_servicediscovery::types::{Operation, OperationStatus};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::timing::OperationTiming;
use super::{Call, CloudMap, Error, Permit};
use crate::model::NamespaceKind;

/// How long one operation is waited for.
const PATIENCE: Duration = Duration::from_mins(1);

/// The timing of each kind of operation: the call that began it, and the kind of its namespace, since Route 53's
/// records take longer than a line in Cloud Map.
#[derive(Debug, Default)]
pub(super) struct Timings(Mutex<BTreeMap<(Call, NamespaceKind), Arc<OperationTiming>>>);

impl Timings {
    fn get(&self, call: Call, kind: NamespaceKind) -> Arc<OperationTiming> {
        let mut timings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        timings.entry((call, kind)).or_default().clone()
    }
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
    /// Waits until an operation that `call` began in a namespace of this kind has ended, at most 60 seconds and not
    /// past `until`. `owner` is the account of the namespace: without it Cloud Map knows no operation in a shared one.
    ///
    /// # Errors
    /// Where Cloud Map does not tell how it goes.
    pub async fn wait(
        &self,
        operation: &str,
        (call, kind): (Call, NamespaceKind),
        owner: Option<&str>,
        until: Instant,
    ) -> Result<Ended, Error> {
        let until = until.min(Instant::now() + PATIENCE);
        let timing = self.timings.get(call, kind);
        let ended = timeout_at(until, self.follow(operation, &timing, owner));
        ended.await.unwrap_or(Ok(Ended::Pending))
    }

    async fn follow(
        &self,
        operation: &str,
        timing: &OperationTiming,
        owner: Option<&str>,
    ) -> Result<Ended, Error> {
        let start = Instant::now();
        let _probe = timing.first_poll(start).await;
        loop {
            // Thousands wait for this leave at once.
            let permit = self.permit(Call::GetOperation).await;
            let polled = Box::pin(self.poll(permit, operation, owner)).await?;
            if let Some((ended, duration)) = polled {
                timing.record(duration.unwrap_or(start.elapsed()));
                return Ok(ended);
            }
            sleep_until(start + timing.next_poll(start.elapsed())).await;
        }
    }

    /// How an operation has ended, and after how long.
    async fn poll(
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
        let duration = duration(&operation);
        let ended = match operation.status {
            Some(OperationStatus::Success) => Ended::Success,
            Some(OperationStatus::Fail) => Ended::Fail {
                code: operation.error_code.unwrap_or_else(|| "UNKNOWN".to_owned()),
                message: operation.error_message.unwrap_or_else(|| "no message".to_owned()),
            },
            _ => return Ok(None),
        };
        Ok(Some((ended, duration)))
    }
}

/// From its acceptance to its end, by Cloud Map's clock.
fn duration(operation: &Operation) -> Option<Duration> {
    let (accepted, ended) = (operation.create_date?, operation.update_date?);
    Duration::try_from_secs_f64(ended.as_secs_f64() - accepted.as_secs_f64()).ok()
}
