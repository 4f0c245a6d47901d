//! One account's AWS Cloud Map in one Region. `read` and `instances` read; each function of `write` makes one change;
//! `operation` waits for the operation that a change starts. No code here decides what to change. Every call waits for
//! the rate limit of its kind (`quota`).
//!
//! Requests identify services and namespaces by ARN. Cloud Map accepts an ARN wherever it takes an id, and requires the
//! ARN for a namespace that another account shares.

mod bucket;
mod instances;
mod operation;
mod quota;
mod read;
mod shared_results;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_sdk_servicediscovery::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_servicediscovery::{Client, config};
use futures_util::{StreamExt, stream};

use crate::error::chain;
use crate::model::{CloudMapService, Registry, ServiceKey};

use bucket::Priority;
pub use instances::{CustomTags, InstancesRead, OWNER_TAG, ServiceToRead};
pub use operation::WaitResult;
pub use quota::{AdmissionSlots, Call, CallSlot, QuotaShare, Quotas, Rate};
pub use read::{ListedNamespace, ListedService, StripDataPrefix};
use shared_results::EnsuredNamespaces;
pub use shared_results::{Created, SharedResults};
pub use write::{Accepted, NewServiceId};

/// The number of services that are read concurrently; `Quotas` limit the calls.
pub const SIDE_BY_SIDE: usize = 128;

/// Calls `read` for each service of `registry` that `keys` names, at most [`SIDE_BY_SIDE`] at a time.
async fn read_each<T>(
    registry: &Registry,
    keys: &BTreeSet<ServiceKey>,
    read: impl AsyncFn(&CloudMapService) -> T,
) -> Vec<(ServiceKey, T)> {
    let services = keys.iter().filter_map(|key| Some((key, registry.services.get(key)?)));
    let read = &read;
    let reads = stream::iter(services)
        .map(|(key, service)| async move { (key.clone(), read(service).await) });
    reads.buffer_unordered(SIDE_BY_SIDE).collect().await
}

/// A Cloud Map client. Clones share the account's quotas and its operation timings.
#[derive(Clone, Debug)]
pub struct CloudMap {
    client: Client,
    quotas: Arc<Quotas>,
    priority: Priority,
    timings: Arc<operation::Timings>,
    custom_tags: Arc<CustomTags>,
    recorder: Option<Arc<OutcomeRecorder>>,
}

impl CloudMap {
    pub fn new(config: config::Builder, quotas: Arc<Quotas>, custom_tags: Arc<CustomTags>) -> Self {
        let config = config.interceptor(quota::AttemptObserver(quotas.clone())).build();
        Self {
            client: Client::from_conf(config),
            quotas,
            priority: Priority::Sync,
            timings: Arc::default(),
            custom_tags,
            recorder: None,
        }
    }

    /// Returns a clone that records the outcomes of its reads.
    #[must_use]
    pub fn recording(&self) -> Self {
        Self { recorder: Some(Arc::default()), ..self.clone() }
    }

    /// Returns a clone for reads that only refresh the mirror. The calls of a sync take precedence.
    #[must_use]
    pub fn refreshing(&self) -> Self {
        Self { priority: Priority::Refresh, ..self.clone() }
    }

    /// Waits until `calls` calls of this kind are admitted to wait for their tokens, or as many as the limit allows at
    /// once.
    pub async fn admit(&self, call: Call, calls: usize) -> AdmissionSlots {
        self.quotas.admit(call, calls).await
    }

    /// Waits until one call of this kind may be made.
    pub async fn acquire(&self, call: Call) -> CallSlot<'_> {
        self.quotas.acquire(call, self.priority).await
    }
}

/// The last outcome of each kind of read: `Ok` if it was allowed, otherwise the error with its causes.
pub type ReadOutcomes = BTreeMap<Call, Result<(), String>>;

/// Keeps the last outcome of each kind of read that a client makes.
///
/// An error never replaces an allowed read. For example, a role may list the instances of every service except one that
/// another account shares. `doctor` then reports the right as granted; the plan reports the one service.
#[derive(Debug, Default)]
struct OutcomeRecorder(Mutex<ReadOutcomes>);

impl OutcomeRecorder {
    fn outcomes(&self) -> MutexGuard<'_, ReadOutcomes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the outcome of a call. A `NotFound` error counts as allowed.
    fn record(&self, call: Call, error: Option<&Error>) {
        let mut outcomes = self.outcomes();
        match error.filter(|error| error.class != Class::NotFound) {
            None => _ = outcomes.insert(call, Ok(())),
            Some(_) if outcomes.get(&call).is_some_and(Result::is_ok) => {}
            Some(error) => _ = outcomes.insert(call, Err(chain(error))),
        }
    }
}

impl CloudMap {
    /// Returns the outcomes that a client with a recorder has kept; empty for other clients.
    pub fn outcomes(&self) -> ReadOutcomes {
        self.recorder.as_ref().map(|recorder| recorder.outcomes().clone()).unwrap_or_default()
    }

    /// Returns `outcome`. If the client has a recorder, records it first.
    fn recorded<T>(&self, call: Call, outcome: Result<T, Error>) -> Result<T, Error> {
        if let Some(recorder) = &self.recorder {
            recorder.record(call, outcome.as_ref().err());
        }
        outcome
    }
}

/// A call to Cloud Map that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action}")]
pub struct Error {
    /// A verb with its object, such as "register web-1 in prod/web".
    pub action: String,
    pub class: Class,
    #[source]
    pub source: Cause,
}

/// The kind of a failure. It decides whether a change is held back, counts as made, or is tried again in the next run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Not allowed by IAM. The next run tries again.
    Denied,
    /// The namespace, service, instance or operation does not exist. A deregistration counts as made.
    NotFound,
    /// A quota is exhausted, so a retry in this run cannot help. A creation or registration is held back.
    LimitExceeded,
    /// Invalid input. A creation, registration or rewrite is held back.
    Invalid,
    /// Any other failure, such as a lost connection, or a call that is still throttled after the client's retries. The
    /// next run tries again.
    Other,
}

/// The cause of a failed call: an error of Cloud Map or of the connection.
#[derive(Debug, thiserror::Error)]
#[error("{}{message}", code.as_ref().map(|code| format!("{code}: ")).unwrap_or_default())]
pub struct Cause {
    /// Cloud Map's error code; `None` if there was no reply.
    pub code: Option<String>,
    pub message: String,
}

impl Error {
    /// Classifies an error of the SDK by the text of its code: the SDK does not model throttling of the control plane.
    pub fn new<E, R>(action: impl Into<String>, error: &SdkError<E, R>) -> Self
    where
        E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
        R: fmt::Debug + Send + Sync + 'static,
    {
        let service = error.as_service_error().filter(|service| service.code().is_some());
        let source = match service {
            Some(service) => Cause {
                code: service.code().map(str::to_owned),
                message: service.message().unwrap_or("no message").to_owned(),
            },
            None => Cause { code: None, message: chain(error) },
        };
        let class = source.code.as_deref().map_or(Class::Other, class);
        Self { action: action.into(), class, source }
    }

    /// The error of an input that could not be built, or of an incomplete reply.
    pub fn input(action: impl Into<String>, problem: &dyn fmt::Display) -> Self {
        let source = Cause { code: None, message: problem.to_string() };
        Self { action: action.into(), class: Class::Other, source }
    }

    /// The error of a reply without a required member, which must not count as an empty list and deregister instances.
    pub fn missing_member(action: impl Into<String>, field: &str) -> Self {
        Self::input(action, &format!("Cloud Map's response has no field {field}"))
    }

    /// Returns the error with its cause in one line, for a report.
    pub fn in_full(&self) -> String {
        format!("{self}: {}", self.source)
    }
}

fn class(code: &str) -> Class {
    match code {
        "AccessDeniedException" | "AccessDenied" | "UnrecognizedClientException" => Class::Denied,
        "NamespaceNotFound"
        | "ServiceNotFound"
        | "InstanceNotFound"
        | "OperationNotFound"
        | "ResourceNotFoundException" => Class::NotFound,
        "ResourceLimitExceeded" => Class::LimitExceeded,
        "InvalidInput" | "ValidationException" => Class::Invalid,
        _ => Class::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The codes come from Cloud Map's API and from AWS's common errors.
    #[test]
    fn code_decides_the_next_step() {
        let cases = [
            ("ThrottlingException", Class::Other),
            ("AccessDeniedException", Class::Denied),
            ("AccessDenied", Class::Denied),
            ("UnrecognizedClientException", Class::Denied),
            ("NamespaceNotFound", Class::NotFound),
            ("ServiceNotFound", Class::NotFound),
            ("InstanceNotFound", Class::NotFound),
            ("OperationNotFound", Class::NotFound),
            ("ResourceNotFoundException", Class::NotFound),
            ("DuplicateRequest", Class::Other),
            ("ResourceInUse", Class::Other),
            ("ResourceLimitExceeded", Class::LimitExceeded),
            ("InvalidInput", Class::Invalid),
            ("ValidationException", Class::Invalid),
            ("InternalFailure", Class::Other),
            ("SomethingNew", Class::Other),
        ];
        for (code, expected) in cases {
            assert_eq!(class(code), expected, "{code}");
        }
    }

    #[test]
    fn recorder_keeps_the_last_answer_and_no_error_after_an_allowed_one() {
        let error = |class, message: &str| {
            let source = Cause { code: None, message: message.to_owned() };
            Error { action: "read".to_owned(), class, source }
        };
        let recorder = OutcomeRecorder::default();
        recorder.record(Call::GetInstance, Some(&error(Class::Denied, "first")));
        recorder.record(Call::GetInstance, Some(&error(Class::Denied, "second")));
        let failed = Err("cannot read: second".to_owned());
        assert_eq!(*recorder.outcomes(), [(Call::GetInstance, failed)].into());

        recorder.record(Call::GetInstance, Some(&error(Class::NotFound, "no such instance")));
        recorder.record(Call::GetInstance, Some(&error(Class::Denied, "third")));
        recorder.record(Call::GetService, None);
        let allowed = [(Call::GetInstance, Ok(())), (Call::GetService, Ok(()))];
        assert_eq!(*recorder.outcomes(), allowed.into());
    }

    #[test]
    fn report_has_the_action_the_code_and_the_message() {
        let cause = |code: Option<&str>| Cause {
            code: code.map(str::to_owned),
            message: "too much".into(),
        };
        let error = |code| Error {
            action: "register web-1 in prod/web".into(),
            class: Class::Other,
            source: cause(code),
        };
        assert_eq!(
            error(Some("ThrottlingException")).in_full(),
            "cannot register web-1 in prod/web: ThrottlingException: too much"
        );
        assert_eq!(error(None).in_full(), "cannot register web-1 in prod/web: too much");
    }

    #[test]
    fn reply_without_a_member_is_an_error_that_names_it() {
        let error = Error::missing_member("list instances", "Instances");
        assert_eq!(error.class, Class::Other);
        let expected = "cannot list instances: Cloud Map's response has no field Instances";
        assert_eq!(error.in_full(), expected);
    }
}
