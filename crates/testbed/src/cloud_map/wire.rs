//! The JSON 1.1 protocol: checks the headers of a request, and formats replies and damaged replies. Every operation is
//! a POST to `/` whose `x-amz-target` names it.

use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, StatusCode, header};
use axum::response::Response;
use serde_json::{Map, Value};

use super::error::ApiError;

const TARGET_PREFIX: &str = "Route53AutoNaming_v20170314.";
const CONTENT_TYPE: &str = "application/x-amz-json-1.1";
const DISCOVERY_PREFIX: &str = "data-";

/// A request that the protocol accepts.
pub(super) struct Accepted {
    pub(super) operation: String,
    pub(super) on_data_host: bool,
    pub(super) members: Map<String, Value>,
}

/// Reads a request, or says why the front end refuses it.
pub(super) fn accept(request: &Request<Bytes>, region: &str) -> Result<Accepted, ApiError> {
    let operation = operation(request)?;
    check_authorization(request.headers(), region)?;
    let Ok(Value::Object(members)) = serde_json::from_slice(request.body()) else {
        return Err(ApiError::new(400, "SerializationException", "The body is not a JSON object"));
    };
    let host = text(request.headers(), "host").or(request.uri().host()).unwrap_or_default();
    Ok(Accepted { operation, on_data_host: host.starts_with(DISCOVERY_PREFIX), members })
}

fn operation(request: &Request<Bytes>) -> Result<String, ApiError> {
    let content_type = text(request.headers(), "content-type").unwrap_or_default();
    let posted = request.method() == "POST" && request.uri().path() == "/";
    if !posted || content_type.split(';').next() != Some(CONTENT_TYPE) {
        return Err(unknown_operation());
    }
    let target = text(request.headers(), "x-amz-target").unwrap_or_default();
    target.strip_prefix(TARGET_PREFIX).map(str::to_owned).ok_or_else(unknown_operation)
}

/// The scheme and the credential scope must fit; the signature's own bytes are not checked, since the stand-in
/// knows no secret.
fn check_authorization(headers: &HeaderMap, region: &str) -> Result<(), ApiError> {
    let Some(parameters) =
        text(headers, "authorization").and_then(|value| value.strip_prefix("AWS4-HMAC-SHA256 "))
    else {
        let message = "Request is missing Authentication Token";
        return Err(ApiError::new(400, "MissingAuthenticationTokenException", message));
    };
    let parameter = |name: &str| {
        parameters
            .split(',')
            .find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='))
            .filter(|value| !value.is_empty())
    };
    let (Some(credential), Some(_), Some(_)) =
        (parameter("Credential"), parameter("SignedHeaders"), parameter("Signature"))
    else {
        return Err(ApiError::new(
            400,
            "IncompleteSignatureException",
            "Authorization header lacks a parameter",
        ));
    };
    let scope: Vec<&str> = credential.rsplit('/').take(3).collect();
    if scope != ["aws4_request", "servicediscovery", region] {
        let message = format!(
            "Credential should be scoped to servicediscovery in {region}, not {credential}"
        );
        return Err(ApiError::new(400, "InvalidSignatureException", message));
    }
    Ok(())
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The error for an operation that this host does not know.
/// Assumed (no case): the names of this error and of the refused signatures, which other services of AWS have. The
/// client of the suite sends no such request.
pub(super) fn unknown_operation() -> ApiError {
    ApiError::new(
        400,
        "UnknownOperationException",
        "The requested operation is not known to this host",
    )
}

/// An answer before it is put on the wire.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
    pub(super) damage: Damage,
    pub(super) wait: Duration,
    pub(super) request_id: String,
}

/// What happens to an answer on its way.
#[derive(PartialEq)]
pub(super) enum Damage {
    None,
    /// Only half of the body, in a message that is whole.
    Half,
    /// Half of the body, then the connection ends.
    Cut,
    /// The connection ends before the body.
    Reset,
}

impl Answer {
    /// The HTTP response; an operation without output has an empty body.
    pub(super) fn into_response(self) -> Response {
        let whole = if self.body.is_null() { String::new() } else { self.body.to_string() };
        let half = Bytes::copy_from_slice(&whole.as_bytes()[..whole.len() / 2]);
        let body = match self.damage {
            Damage::None => Body::from(whole),
            Damage::Half => Body::from(half),
            Damage::Cut => broken(vec![Ok(half), Err(reset())]),
            Damage::Reset => broken(vec![Err(reset())]),
        };
        Response::builder()
            .status(StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
            .header(header::CONTENT_TYPE, CONTENT_TYPE)
            .header("x-amzn-requestid", self.request_id)
            .body(body)
            .expect("the status and the two headers are well formed")
    }
}

fn broken(parts: Vec<Result<Bytes, io::Error>>) -> Body {
    Body::from_stream(futures_util::stream::iter(parts))
}

fn reset() -> io::Error {
    io::Error::from(io::ErrorKind::ConnectionReset)
}
