//! The Kubernetes client of an EKS cluster. It verifies TLS against the cluster's own certificate authority, and puts a fresh bearer token on every request, so a client outlives
//! its tokens. The requests travel over the network, unless the program that makes the function gives another
//! `Transport`: no setting and no event does.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use http::header::{AUTHORIZATION, HeaderValue};
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder, DynBody};
use kube::{Client, Config};
use tower::BoxError;
use tower::buffer::BufferLayer;
use tower::filter::{AsyncFilterLayer, AsyncPredicate};
use tower::retry::RetryLayer;
use tower::util::BoxService;

use crate::model::{BearerTokens, EksCluster};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest pause within a reply.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// The backoff before the first retry of a reply 429, 503 or 504; it doubles with each retry.
const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
/// The longest backoff, unless the server requests more (`Retry-After`).
const MAX_BACKOFF: Duration = Duration::from_secs(2);
const MAX_RETRIES: u32 = 5;
/// How many requests may wait for the connection.
const MAX_BUFFERED: usize = 256;

/// Carries requests to one API server.
pub type ApiServer = BoxService<http::Request<Body>, http::Response<Box<DynBody>>, BoxError>;

/// Makes the service that carries the requests of a client with this configuration.
pub type Transport =
    Arc<dyn Fn(Config) -> Result<ClientBuilder<ApiServer>, kube::Error> + Send + Sync>;

/// Over TLS, as the configuration says.
pub fn over_tls() -> Transport {
    Arc::new(ClientBuilder::try_from)
}

/// A client could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The certificate authority contains no certificate in PEM.
    #[error("the certificate authority of the cluster {0:?} contains no certificate in PEM format")]
    CertificateAuthority(String),
    /// The backoff limits contradict each other.
    #[error("cannot retry requests to a cluster with these pauses")]
    Retries(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("cannot make a client for the cluster {cluster:?}")]
    Client {
        cluster: String,
        #[source]
        source: Box<kube::Error>,
    },
}

/// # Errors
/// Returns an error if the certificate authority is invalid.
pub fn connect(
    cluster: &EksCluster,
    tokens: BearerTokens,
    transport: &Transport,
) -> Result<Client, Error> {
    let roots = parse_certificates(&cluster.certificate_authority);
    if roots.is_empty() {
        return Err(Error::CertificateAuthority(cluster.name.clone()));
    }
    let mut config = Config::new(cluster.endpoint.clone());
    config.root_cert = Some(roots);
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    // The client's own retries continue for minutes, longer than an invocation may take.
    config.default_retry = false;
    let retries = RetryPolicy::new(INITIAL_BACKOFF, MAX_BACKOFF, MAX_RETRIES, true)
        .map_err(|source| Error::Retries(Box::new(source)))?;
    let builder = transport(config).map_err(|source| Error::Client {
        cluster: cluster.name.clone(),
        source: Box::new(source),
    })?;
    // Retry and filter require a service that can be cloned, such as a buffer.
    let buffered = builder.with_layer(&BufferLayer::new(MAX_BUFFERED));
    let retrying = buffered.with_layer(&RetryLayer::new(retries));
    Ok(retrying.with_layer(&AsyncFilterLayer::new(BearerToken(tokens))).build())
}

fn parse_certificates(pem: &[u8]) -> Vec<Vec<u8>> {
    let text = String::from_utf8_lossy(pem);
    let blocks = text.split("-----BEGIN CERTIFICATE-----").skip(1);
    let bodies = blocks.filter_map(|block| block.split("-----END").next());
    bodies
        .filter_map(|body| {
            let base64: String = body.split_whitespace().collect();
            STANDARD.decode(base64).ok().filter(|der| !der.is_empty())
        })
        .collect()
}

/// Puts a fresh token on every request.
#[derive(Clone)]
struct BearerToken(BearerTokens);

impl AsyncPredicate<http::Request<Body>> for BearerToken {
    type Future = BoxFuture<'static, Result<Self::Request, BoxError>>;
    type Request = http::Request<Body>;

    fn check(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let tokens = self.0.clone();
        Box::pin(async move {
            let token = tokens.token().await?;
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))?;
            // Keeps the token out of debug output of the request.
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
            Ok(request)
        })
    }
}
