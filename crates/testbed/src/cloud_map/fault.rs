//! Faults that a test injects: the calls, their number and the fault. Some faults reply instead of the service, some
//! after it has executed the call, and one makes the operation fail later.

use std::time::Duration;

use super::wire::ApiError;

/// One order of trouble, for the calls that match it.
#[derive(Clone, Debug)]
pub struct Fault {
    operation: String,
    service: Option<String>,
    instance: Option<String>,
    after: usize,
    times: usize,
    kind: FaultKind,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// 400 ThrottlingException, as the control plane throttles.
    Throttling,
    /// RequestLimitExceeded, as the discovery plane throttles.
    RequestLimitExceeded,
    /// 500 InternalFailure.
    ServerError,
    /// 503 ServiceUnavailable.
    Unavailable,
    /// 400 AccessDeniedException.
    AccessDenied,
    /// 400 ExpiredTokenException.
    ExpiredToken,
    /// Any error answer: HTTP status, name, message.
    Error(u16, &'static str, &'static str),
    /// The connection ends before a byte of the body; nothing was done.
    Reset,
    /// The connection ends so much later without a byte of the body; nothing was done.
    Silence(Duration),
    /// It is done, and the answer is cut off in the middle of its JSON by the end of the connection.
    Cut,
    /// It is done, and the answer is half of its JSON in a message that claims to be whole.
    TruncatedJson,
    /// It is done, and the answer is a 500.
    FailAfterEffect,
    /// It is done, and the connection ends without an answer.
    DropAfterEffect,
    /// It is done, and the answer comes so much later.
    Late(Duration),
    /// It is done, and the answer has no member at all.
    Empty,
    /// It is done, and each entry of the answer's list lacks this member.
    Without(&'static str),
    /// It is done, and the answer's members have other types.
    WrongType,
    /// The operation is accepted and ends as FAIL with this ErrorCode.
    OperationFails(&'static str),
    /// The operation is accepted and ends as FAIL with ACCESS_DENIED, since the caller lacks this right in Route 53.
    /// Assumed (no case): the text has IAM's own sentence. To see it, a role without rights in Route 53 is needed.
    OperationDenied(&'static str),
    /// The operation is accepted and never ends.
    OperationHangs,
}

impl Fault {
    /// The next call of one operation goes wrong; `"*"` is any operation.
    pub fn on(operation: &str, kind: FaultKind) -> Self {
        Self {
            operation: operation.to_owned(),
            service: None,
            instance: None,
            after: 0,
            times: 1,
            kind,
        }
    }

    /// Only calls for this service (its id; for CreateService and DiscoverInstances its name).
    #[must_use]
    pub fn service(mut self, service: &str) -> Self {
        self.service = Some(service.to_owned());
        self
    }

    /// Only calls for this instance id.
    #[must_use]
    pub fn instance(mut self, instance: &str) -> Self {
        self.instance = Some(instance.to_owned());
        self
    }

    /// Lets so many matching calls pass first.
    #[must_use]
    pub fn after(mut self, calls: usize) -> Self {
        self.after = calls;
        self
    }

    /// So many calls go wrong.
    #[must_use]
    pub fn times(mut self, calls: usize) -> Self {
        self.times = calls;
        self
    }

    /// Every call goes wrong from now on.
    #[must_use]
    pub fn always(self) -> Self {
        self.times(usize::MAX)
    }

    fn matches(&self, operation: &str, service: Option<&str>, instance: Option<&str>) -> bool {
        let fits = |wanted: &Option<String>, found: Option<&str>| {
            wanted.is_none() || wanted.as_deref() == found
        };
        (self.operation == "*" || self.operation == operation)
            && fits(&self.service, service)
            && fits(&self.instance, instance)
    }
}

impl FaultKind {
    /// The error that answers in place of the service, or after it, for the kinds that answer with one.
    pub(super) fn error(&self, operation: &str) -> Option<ApiError> {
        let denied = format!("User is not authorized to perform: servicediscovery:{operation}");
        let (status, name, message) = match self {
            Self::Throttling => return Some(rate_exceeded()),
            Self::RequestLimitExceeded => return Some(request_limit_exceeded()),
            Self::ServerError | Self::FailAfterEffect => {
                (500, "InternalFailure", "The request failed because of an internal error")
            }
            Self::Unavailable => {
                (503, "ServiceUnavailable", "The service is temporarily unavailable")
            }
            Self::AccessDenied => (400, "AccessDeniedException", &*denied),
            Self::ExpiredToken => {
                let message = "The security token included in the request is expired";
                (400, "ExpiredTokenException", message)
            }
            Self::Error(status, name, message) => (*status, *name, *message),
            _ => return None,
        };
        Some(ApiError::new(status, name, message))
    }

    /// Whether what was asked is done nevertheless.
    pub(super) fn takes_effect(&self) -> bool {
        let is_lost = matches!(self, Self::Reset | Self::Silence(_));
        !is_lost && (*self == Self::FailAfterEffect || self.error("").is_none())
    }
}

/// The control plane's throttle; it is not in the service model.
pub(super) fn rate_exceeded() -> ApiError {
    ApiError::new(400, "ThrottlingException", "Rate exceeded")
}

/// The discovery plane's throttle.
pub(super) fn request_limit_exceeded() -> ApiError {
    ApiError::new(
        400,
        "RequestLimitExceeded",
        "The operation can't be completed because you've reached the quota for the number of requests",
    )
}

/// Takes the fault for this call, if one is due; the one asked for first wins.
pub(super) fn due(
    faults: &mut Vec<Fault>,
    operation: &str,
    service: Option<&str>,
    instance: Option<&str>,
) -> Option<FaultKind> {
    let mut due = None;
    for fault in faults.iter_mut().filter(|fault| fault.matches(operation, service, instance)) {
        if fault.after > 0 {
            fault.after -= 1;
        } else if due.is_none() {
            fault.times = fault.times.saturating_sub(1);
            due = Some(fault.kind.clone());
        }
    }
    faults.retain(|fault| fault.times > 0);
    due
}
