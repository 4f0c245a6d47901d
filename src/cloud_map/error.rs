//! What a failed call to Cloud Map means for the next step.

use std::fmt;

use aws_sdk_servicediscovery::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};

/// A call to Cloud Map that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action}")]
pub struct Error {
    /// What was being done to what.
    pub action: String,
    /// What to do next.
    pub class: Class,
    /// What Cloud Map or the connection said.
    #[source]
    pub source: Cause,
}

/// What a failure means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Too many calls; the client has retried and backed off already.
    Throttled,
    /// Not allowed by IAM.
    Denied,
    /// The namespace, service, instance or operation does not exist.
    NotFound,
    /// A service of that name exists already.
    Exists,
    /// An operation on the same instance is under way.
    Duplicate,
    /// A service that still holds instances, or an instance that is being changed.
    InUse,
    /// A quota is used up; a retry in this run cannot help.
    LimitExceeded,
    /// Cloud Map refuses the input.
    Invalid,
    /// No connection, a time-out, an error of the service.
    Unavailable,
}

/// What Cloud Map or the connection said.
#[derive(Debug)]
pub struct Cause {
    /// Cloud Map's error code, where it answered at all.
    pub code: Option<String>,
    /// The message.
    pub message: String,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            Some(code) => write!(f, "{code}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Cause {}

impl Error {
    /// Classes what the SDK reports. Control-plane throttling is no modelled error, so codes are
    /// compared as text.
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
            None => Cause { code: None, message: DisplayErrorContext(error).to_string() },
        };
        let class = source.code.as_deref().map_or(Class::Unavailable, class);
        Self { action: action.into(), class, source }
    }

    /// An input that could not be built, or an answer that lacks what it must have.
    pub fn input(action: impl Into<String>, problem: &dyn fmt::Display) -> Self {
        let source = Cause { code: None, message: problem.to_string() };
        Self { action: action.into(), class: Class::Unavailable, source }
    }

    /// An answer that lacks a member which it must have: it says nothing, and so not that there is nothing.
    pub fn lacking(action: impl Into<String>, member: &str) -> Self {
        Self::input(action, &format!("Cloud Map's answer has no member {member}"))
    }

    /// The error and its cause in one line, for a report.
    pub fn in_full(&self) -> String {
        format!("{self}: {}", self.source)
    }
}

fn class(code: &str) -> Class {
    match code {
        "ThrottlingException" | "RequestLimitExceeded" | "TooManyRequestsException" => {
            Class::Throttled
        }
        "AccessDeniedException" | "AccessDenied" | "UnrecognizedClientException" => Class::Denied,
        "NamespaceNotFound"
        | "ServiceNotFound"
        | "InstanceNotFound"
        | "OperationNotFound"
        | "ResourceNotFoundException" => Class::NotFound,
        "ServiceAlreadyExists" | "NamespaceAlreadyExists" => Class::Exists,
        "DuplicateRequest" => Class::Duplicate,
        "ResourceInUse" => Class::InUse,
        "ResourceLimitExceeded" => Class::LimitExceeded,
        "InvalidInput" | "ValidationException" => Class::Invalid,
        _ => Class::Unavailable,
    }
}
