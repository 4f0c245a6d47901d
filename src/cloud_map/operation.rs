//! Waits for operations. Cloud Map accepts a registration or deregistration first and carries it out later, and an
//! accepted one can still fail.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_servicediscovery::types::{Operation, OperationStatus, OperationTargetType};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::timing::OperationTiming;
use super::{Call, CloudMap, Error, Permit};
use crate::model::NamespaceKind;

/// The longest time to wait for one operation.
const MAX_WAIT: Duration = Duration::from_mins(1);

/// The timing of operations by call and kind of namespace: records in Route 53 take longer than an instance of an HTTP
/// namespace.
#[derive(Debug, Default)]
pub(super) struct Timings(Mutex<BTreeMap<(Call, NamespaceKind), Arc<OperationTiming>>>);

impl Timings {
    fn get(&self, call: Call, kind: NamespaceKind) -> Arc<OperationTiming> {
        let mut timings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        timings.entry((call, kind)).or_default().clone()
    }
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Success {
        /// The id of the namespace that it was about, if Cloud Map returned it.
        namespace: Option<String>,
    },
    Fail {
        /// For instance `INVALID_CHANGE_BATCH`.
        code: String,
        message: String,
    },
    /// Still under way at the end of the waiting time.
    Pending,
}

impl CloudMap {
    /// Waits for the end of an operation that `call` started in a namespace of this kind, for at most 60 seconds and
    /// not past `until`. `owner` is the account of the namespace: without it Cloud Map does not find an operation in a
    /// shared namespace.
    ///
    /// # Errors
    /// Returns an error if `GetOperation` fails.
    pub async fn wait(
        &self,
        operation: &str,
        (call, kind): (Call, NamespaceKind),
        owner: Option<&str>,
        until: Instant,
    ) -> Result<Ended, Error> {
        let until = until.min(Instant::now() + MAX_WAIT);
        let timing = self.timings.get(call, kind);
        let ended = timeout_at(until, self.poll_until_ended(operation, &timing, owner));
        ended.await.unwrap_or(Ok(Ended::Pending))
    }

    async fn poll_until_ended(
        &self,
        operation: &str,
        timing: &OperationTiming,
        owner: Option<&str>,
    ) -> Result<Ended, Error> {
        let start = Instant::now();
        let _probe = timing.first_poll(start).await;
        loop {
            // Boxed to keep the future small: thousands of them wait for this permit at once.
            let permit = self.permit(Call::GetOperation).await;
            let polled = Box::pin(self.poll(permit, operation, owner)).await?;
            if let Some((ended, duration)) = polled {
                timing.record(duration.unwrap_or(start.elapsed()));
                return Ok(ended);
            }
            sleep_until(start + timing.next_poll(start.elapsed())).await;
        }
    }

    /// The result and the duration of an operation; `None` while it is under way.
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
            Some(OperationStatus::Success) => {
                let mut targets = operation.targets.unwrap_or_default();
                Ended::Success { namespace: targets.remove(&OperationTargetType::Namespace) }
            }
            Some(OperationStatus::Fail) => Ended::Fail {
                code: operation.error_code.unwrap_or_else(|| "UNKNOWN".to_owned()),
                message: operation.error_message.unwrap_or_else(|| "no message".to_owned()),
            },
            _ => return Ok(None),
        };
        Ok(Some((ended, duration)))
    }
}

/// From acceptance to end by Cloud Map's clock, which leaves out the time between two polls.
fn duration(operation: &Operation) -> Option<Duration> {
    let (accepted, ended) = (operation.create_date?, operation.update_date?);
    Duration::try_from_secs_f64(ended.as_secs_f64() - accepted.as_secs_f64()).ok()
}
