//! One cluster's Kubernetes API: [`mod@connect`] makes a client that signs its own tokens,
//! [`read`] lists Services and their endpoints whole or not at all, from the API that `serves` finds,
//! [`annotation`] and [`desired`] turn them into what the plan compares, and `tell` creates Events about
//! what is held back.

pub mod access;
pub mod annotation;
pub mod connect;
pub mod desired;
mod endpoints;
mod events;
mod list;
pub mod object;
pub mod read;
mod serves;
#[cfg(test)]
mod tests;

pub use connect::connect;
pub use read::{Endpoints, Kubernetes};

/// Why a cluster could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} of the cluster: {}", explain(*class))]
pub struct Error {
    /// What was being done to what.
    pub action: String,
    /// What to do next.
    pub class: Class,
    /// What the API server or the connection said.
    #[source]
    pub source: Cause,
}

/// What the API server or the connection said.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The server's own word.
    #[error("{code} {reason}: {message}")]
    Status {
        /// The HTTP status.
        code: u16,
        /// The machine-readable reason.
        reason: String,
        /// The message.
        message: String,
    },
    /// No whole answer came.
    #[error(transparent)]
    Client(Box<kube::Error>),
}

/// What a failed read means for the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// 401: the token was not accepted, or nobody in the cluster is mapped to its identity.
    Unauthenticated,
    /// 403: authenticated, and not allowed.
    Forbidden,
    /// No connection, no TLS, or an answer that broke off.
    Unreachable,
    /// The server answered with an error, or with something else than asked for.
    Failed,
}

fn explain(class: Class) -> &'static str {
    match class {
        Class::Unauthenticated => {
            "the token was refused (401): is there an access entry for the function's role?"
        }
        Class::Forbidden => "it is not allowed (403): is deploy/rbac.yaml applied?",
        Class::Unreachable => "the API server cannot be reached or the answer broke off",
        Class::Failed => "the API server answered with an error",
    }
}

impl Error {
    fn new(action: impl Into<String>, error: kube::Error) -> Self {
        let class = match &error {
            kube::Error::Api(status) if status.code == 401 => Class::Unauthenticated,
            kube::Error::Api(status) if status.code == 403 => Class::Forbidden,
            kube::Error::Service(_) | kube::Error::HyperError(_) => Class::Unreachable,
            _ => Class::Failed,
        };
        let source = match error {
            kube::Error::Api(status) => {
                Cause::Status { code: status.code, reason: status.reason, message: status.message }
            }
            other => Cause::Client(Box::new(other)),
        };
        Self { action: action.into(), class, source }
    }

    /// Whether the server answered with this HTTP status.
    fn is_status(&self, expected: u16) -> bool {
        matches!(self.source, Cause::Status { code, .. } if code == expected)
    }

    /// Whether a new connection, made from a new description of the cluster, may do better: the
    /// cluster may have been made again under its name.
    pub fn may_be_stale(&self) -> bool {
        matches!(self.class, Class::Unauthenticated | Class::Unreachable)
    }
}
