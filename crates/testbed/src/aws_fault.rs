//! Faults of EKS and STS at the AWS endpoint; Cloud Map, SQS and Lambda have their own. A fault hits the calls of one
//! operation: an error of the service takes the place of the answer, everything else damages the answer on its way.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::stream;

use super::operation::Operation;
use super::sigv4::Refusal;

/// What goes wrong.
#[derive(Clone, Debug)]
pub enum AwsFaultKind {
    /// An error of the service, by its status and code.
    Refused(u16, &'static str),
    /// The connection ends before the body.
    Reset,
    /// Half of the body, then the connection ends.
    Cut,
    /// Half of the body, in a message that is whole.
    Half,
    /// Success with this body.
    Body(&'static str),
    /// The answer comes after this time.
    Late(Duration),
}

/// A fault of the calls of one operation.
#[derive(Clone, Debug)]
pub struct AwsFault {
    pub operation: String,
    pub kind: AwsFaultKind,
    /// The calls before it that succeed.
    pub after: usize,
    /// The calls that it hits.
    pub times: usize,
}

/// All faults that are still to come; clones share them.
#[derive(Clone, Default)]
pub struct AwsFaults(Arc<Mutex<Vec<AwsFault>>>);

impl AwsFaults {
    pub fn inject(&self, fault: AwsFault) {
        self.all().push(fault);
    }

    pub fn clear(&self) {
        self.all().clear();
    }

    /// The fault that hits this call.
    pub(super) fn strike(&self, operation: &str) -> Option<AwsFaultKind> {
        let mut all = self.all();
        let fault = all.iter_mut().find(|fault| fault.operation == operation && fault.times > 0)?;
        if fault.after > 0 {
            fault.after -= 1;
            return None;
        }
        fault.times -= 1;
        Some(fault.kind.clone())
    }

    fn all(&self) -> std::sync::MutexGuard<'_, Vec<AwsFault>> {
        self.0.lock().expect("no poisoned lock")
    }
}

impl AwsFaultKind {
    /// The answer in place of that of the service.
    pub(super) fn refusal(&self, operation: &Operation) -> Option<Response> {
        let Self::Refused(status, code) = self else { return None };
        let message = "said by a test".to_owned();
        let mut response = operation.refuse(&Refusal { code, message });
        *response.status_mut() = StatusCode::from_u16(*status).expect("a status");
        Some(response)
    }

    /// The answer as it arrives.
    pub(super) async fn damage(self, response: Response) -> Response {
        let (parts, body) = response.into_parts();
        let whole = to_bytes(body, usize::MAX).await.unwrap_or_default();
        let half = whole.slice(..whole.len() / 2);
        let body = match self {
            Self::Refused(..) => Body::from(whole),
            Self::Reset => broken(vec![Err(reset())]),
            Self::Cut => broken(vec![Ok(half), Err(reset())]),
            Self::Half => Body::from(half),
            Self::Body(text) => Body::from(text),
            Self::Late(time) => {
                tokio::time::sleep(time).await;
                Body::from(whole)
            }
        };
        Response::from_parts(parts, body)
    }
}

pub(super) fn broken(parts: Vec<Result<Bytes, io::Error>>) -> Body {
    Body::from_stream(stream::iter(parts))
}

pub(super) fn reset() -> io::Error {
    io::Error::from(io::ErrorKind::ConnectionReset)
}
