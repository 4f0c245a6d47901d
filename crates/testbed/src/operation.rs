//! Finds the operation of an AWS request: in a target header for Cloud Map, Parameter Store and SQS, in the path for
//! EKS and Lambda, in a form member for STS. Errors are returned in the protocol of the service.

use axum::body::{Body, Bytes};
use axum::extract::Query;
use axum::http::{Request, StatusCode, Uri};
use axum::response::Response;
use serde_json::Value;

use super::lambda::Call;
use super::sigv4::Refusal;
use super::{eks, lambda, parameter_store, sqs, sts};

/// An operation of one of the services that the sandbox plays.
pub enum Operation {
    /// Any of Cloud Map's, by name.
    CloudMap(String),
    /// EKS's one, of that cluster.
    DescribeCluster(String),
    /// One of Lambda's two.
    Lambda(Call),
    /// One of Parameter Store's, by name.
    ParameterStore(String),
    /// Any of SQS's, by name.
    Sqs(String),
    /// One of STS, as the form that was sent.
    Sts(Vec<(String, String)>),
    /// Something else: method and path.
    Unknown(String),
}

impl Operation {
    /// Reads a request.
    pub fn of(request: &Request<Bytes>) -> Self {
        let path = request.uri().path();
        let target = request.headers().get("x-amz-target").and_then(|value| value.to_str().ok());
        match target.and_then(|target| target.split_once('.')) {
            Some(("Route53AutoNaming_v20170314", name)) => return Self::CloudMap(name.to_owned()),
            Some(("AmazonSSM", name)) => return Self::ParameterStore(name.to_owned()),
            Some(("AmazonSQS", name)) => return Self::Sqs(name.to_owned()),
            _ => {}
        }
        if let Some(name) = path.strip_prefix("/clusters/").filter(|name| !name.contains('/')) {
            return Self::DescribeCluster(name.to_owned());
        }
        if let Some(call) = Call::of(path) {
            return Self::Lambda(call);
        }
        let form = std::str::from_utf8(request.body()).map(pairs).unwrap_or_default();
        if form.iter().any(|(key, _)| key == "Action") {
            return Self::Sts(form);
        }
        Self::Unknown(format!("{} {path}", request.method()))
    }

    /// The operation's name in the request log.
    pub fn name(&self) -> String {
        match self {
            Self::CloudMap(name)
            | Self::ParameterStore(name)
            | Self::Sqs(name)
            | Self::Unknown(name) => name.clone(),
            Self::DescribeCluster(_) => "DescribeCluster".to_owned(),
            Self::Lambda(call) => call.operation.to_owned(),
            Self::Sts(form) => {
                let action = form.iter().find(|(key, _)| key == "Action");
                action.map(|(_, value)| value.clone()).unwrap_or_default()
            }
        }
    }

    /// The answer to a request that may not be made.
    pub fn refuse(&self, refusal: &Refusal) -> Response {
        match self {
            Self::CloudMap(_) | Self::ParameterStore(_) => parameter_store::refuse(refusal),
            Self::Sqs(_) => sqs::refuse_signature(refusal),
            Self::Sts(_) => sts::refuse(refusal),
            Self::Lambda(_) => lambda::refuse(refusal),
            Self::DescribeCluster(_) | Self::Unknown(_) => eks::refuse(refusal),
        }
    }
}

/// A response in the protocol of a service.
pub fn respond(status: StatusCode, content_type: &str, body: String) -> Response {
    let builder = Response::builder().status(status).header("content-type", content_type);
    builder.body(Body::from(body)).expect("valid headers")
}

/// A refusal of a service with a REST protocol.
pub fn respond_error(status: StatusCode, code: &str, body: &Value) -> Response {
    let mut response = respond(status, "application/json", body.to_string());
    response.headers_mut().insert("x-amzn-errortype", code.parse().expect("a header's value"));
    response
}

/// Decodes a query or a form.
pub fn pairs(text: &str) -> Vec<(String, String)> {
    let uri: Result<Uri, _> = format!("/?{text}").parse();
    let query = uri.ok().and_then(|uri| Query::try_from_uri(&uri).ok());
    query.map(|Query(pairs)| pairs).unwrap_or_default()
}
