//! What the server answers, in JSON or in plain text, whole or cut.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::stream;
use serde_json::Value;

use super::status::Failure;

/// What goes out, before a fault may cut it.
pub struct Answer {
    /// HTTP status.
    pub status: StatusCode,
    /// The `Content-Type`.
    pub content_type: &'static str,
    /// More headers.
    pub headers: Vec<(&'static str, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Answer {
    /// A JSON document.
    pub fn json(status: StatusCode, body: &Value) -> Self {
        let body = serde_json::to_vec(body).expect("JSON of a JSON value");
        Self { status, content_type: "application/json", headers: Vec::new(), body }
    }

    /// Plain text.
    pub fn text(status: StatusCode, body: &str) -> Self {
        let body = body.as_bytes().to_vec();
        Self { status, content_type: "text/plain; charset=utf-8", headers: Vec::new(), body }
    }

    /// The response, cut in the middle where a fault says so.
    pub fn into_response(self, truncated: bool) -> Response {
        let mut builder = Response::builder()
            .status(self.status)
            .header("content-type", self.content_type)
            .header("content-length", self.body.len());
        for (name, value) in self.headers {
            builder = builder.header(name, value);
        }
        let body = if truncated { half(self.body) } else { self.body.into() };
        builder.body(body).expect("valid headers")
    }
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        let mut answer = Self::json(failure.code, &failure.status());
        if let Some(seconds) = failure.retry_after {
            answer.headers.push(("retry-after", seconds.to_string()));
        }
        answer
    }
}

/// The first half of a body, then a closed connection. The pause between lets the half reach the
/// wire.
fn half(mut body: Vec<u8>) -> Body {
    body.truncate(body.len() / 2);
    Body::from_stream(stream::unfold(Some(body), |rest| async move {
        match rest {
            Some(body) if !body.is_empty() => Some((Ok(body), Some(Vec::new()))),
            Some(_) => {
                tokio::task::yield_now().await;
                Some((Err(std::io::Error::other("cut by the sandbox")), None))
            }
            None => None,
        }
    }))
}
