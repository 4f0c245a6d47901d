//! The way from a function to the stand-ins without a socket: `aws_client` under the SDK's clients, `api_servers`
//! under those of Kubernetes. A request goes to the same handlers as over a socket, with its signature, its token and
//! its JSON; only TCP, TLS and the framing of HTTP are left out. A scenario about one of these calls
//! `Sandbox::use_sockets`.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpClient, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use axum::body::{Body, to_bytes};
use axum::http::header::{HOST, HeaderValue};
use axum::http::{Request, Response, Uri};
use cloud_map_sync::kubernetes::Transport;
use http_body_util::BodyExt;
use kube::client::{ClientBuilder, DynBody};
use tower::util::BoxService;
use tower::{BoxError, service_fn};

use super::aws::Front;
use super::kubernetes::KubernetesServer;

/// Reaches the AWS endpoint under its address, and nothing else.
#[derive(Clone)]
struct AwsConnector {
    front: Front,
    address: String,
}

/// The client of the SDK that reaches nothing but the AWS endpoint.
pub(super) fn aws_client(front: Front, address: String) -> SharedHttpClient {
    let connector = SharedHttpConnector::new(AwsConnector { front, address });
    http_client_fn(move |_, _| connector.clone())
}

impl AwsConnector {
    async fn carry(self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let (parts, body) = other(request.try_into_http1x())?.into_parts();
        // The clients of a function send no body that is made on the way.
        let body = Body::from(body.bytes().unwrap_or_default().to_vec());
        let mut request = Request::from_parts(parts, body);
        let authority = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        if authority != self.address {
            let error = format!("nothing listens at {authority} in the sandbox");
            return Err(ConnectorError::io(refused(error).into()));
        }
        let host = other(HeaderValue::try_from(authority))?;
        request.headers_mut().insert(HOST, host);
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = other(path.parse::<Uri>())?;
        let (parts, body) = self.front.serve(request).await.into_parts();
        // A connection that ends within the body: the SDK retries it as one that ends before.
        let body =
            to_bytes(body, usize::MAX).await.map_err(|error| ConnectorError::io(error.into()))?;
        other(HttpResponse::try_from(Response::from_parts(parts, body.into())))
    }
}

/// An error of the connector itself.
fn other<T, E: Into<BoxError>>(result: Result<T, E>) -> Result<T, ConnectorError> {
    result.map_err(|error| ConnectorError::other(error.into(), None))
}

impl std::fmt::Debug for AwsConnector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AwsConnector({})", self.address)
    }
}

impl HttpConnector for AwsConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::new(self.clone().carry(request))
    }
}

/// The API servers of a sandbox.
pub(super) type ApiServers = Arc<Mutex<Vec<KubernetesServer>>>;

/// Reaches these API servers, each under its endpoint.
pub(super) fn api_servers(servers: ApiServers) -> Transport {
    Arc::new(move |config| {
        let servers = servers.clone();
        let endpoint = config.cluster_url.to_string();
        let read_timeout = config.read_timeout.unwrap_or(Duration::MAX);
        let carry = service_fn(move |request: Request<kube::client::Body>| {
            let found = {
                let servers = servers.lock().expect("no poisoned lock");
                let is_here =
                    |server: &&KubernetesServer| server.endpoint() == endpoint.trim_matches('/');
                servers.iter().find(is_here).filter(|server| server.is_listening()).cloned()
            };
            let error = format!("nothing listens at {endpoint} in the sandbox");
            async move {
                let server = found.ok_or_else(|| refused(error))?;
                let answer =
                    tokio::time::timeout(read_timeout, server.serve(request.map(Body::new)));
                let (parts, body) = answer.await?.into_parts();
                let body = Box::new(body.map_err(BoxError::from)) as Box<DynBody>;
                Ok::<_, BoxError>(Response::from_parts(parts, body))
            }
        });
        Ok(ClientBuilder::new(BoxService::new(carry), config.default_namespace))
    })
}

fn refused(error: String) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, error)
}
