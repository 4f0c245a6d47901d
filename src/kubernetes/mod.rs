//! The Kubernetes API of one cluster. [`connect`] makes a client that puts a fresh bearer token on every request.
//! [`services`] and [`endpoint_slices`] read completely or fail, and convert what they read into the input of the plan;
//! [`annotation`] parses the annotations. `objects` writes the objects of imports, and creates Events.

pub mod access;
pub mod annotation;
pub mod endpoint_slices;
pub mod endpoints;
pub mod object;
mod objects;
mod remembered;
pub mod services;
#[cfg(test)]
mod tests;
pub mod transport;

use std::io;
use std::iter::successors;
use std::sync::Arc;
use std::time::Duration;

use base64::engine::{Engine, general_purpose};
use http::header::{AUTHORIZATION, HeaderValue};
use kube::client::{Body, ClientBuilder, DynBody, retry};
use kube::core::Status;
use kube::{Client, Config};
use tokio::time::{Instant, timeout};
use tower::{BoxError, buffer, filter, util};

use crate::model::{BearerTokens, EksCluster, Family};

pub use endpoints::Endpoints;
pub use object::Service;
pub use services::{AnnotationSettings, is_headless};

/// The concurrency limit of requests to one API server.
const CONCURRENCY: usize = 16;
/// The most Services of a namespace that a selector names, and the most namespaces and Services that are read one by
/// one. If there are more, all slices of the namespace or all Services of the cluster are listed. The limit keeps the
/// request line below the limits of proxies.
const MAX_NAMED: usize = 40;

/// A client of the Kubernetes API of one cluster, with the answers that it keeps from one invocation to the next.
#[derive(Clone)]
pub struct Kubernetes {
    client: Client,
    remembered: Arc<remembered::Remembered>,
    /// The end of the run. `None` if reads have no time limit.
    stop: Option<Instant>,
}

impl Kubernetes {
    pub fn new(client: Client) -> Self {
        Self { client, remembered: Arc::default(), stop: None }
    }

    /// Returns the client for a run that ends at `stop`, which limits the time of each read.
    #[must_use]
    pub fn until(self, stop: Instant) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Waits for a whole read, including all pages of a list, for at most half of the time that the run has left.
    ///
    /// A server that sends a byte now and then never exceeds a timeout of the connection, and would keep one of the
    /// concurrency slots of the run. With this limit, the slot goes to another cluster in the same run, however many
    /// servers are that slow. A constant limit would have to exceed the time for the longest list of the largest
    /// cluster, which is tens of seconds. Half of five minutes is enough for a hundred thousand Services, and a cluster
    /// that needs more has no time left for its changes.
    async fn in_time<T>(
        &self,
        action: impl FnOnce() -> String,
        read: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Error> {
        let Some(stop) = self.stop else {
            return read.await.map_err(|error| Error::new(action(), error));
        };
        let start = Instant::now();
        let time = stop.saturating_duration_since(start) / 2;
        match timeout(time, read).await {
            Ok(read) => read.map_err(|error| Error::new(action(), error)),
            Err(_) => Err(Error {
                action: action(),
                class: ErrorClass::Late,
                is_about_multi_cluster: false,
                source: RequestCause::Late(time),
            }),
        }
    }
}

/// A request to a cluster failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} of the cluster: {}", describe_class(*class, *is_about_multi_cluster))]
pub struct Error {
    /// A verb with its object, such as "list the Services".
    pub action: String,
    pub class: ErrorClass,
    /// Whether only exports or imports need the request. Their rights are in a separate manifest.
    is_about_multi_cluster: bool,
    #[source]
    pub source: RequestCause,
}

/// The cause of a failed request: the API server's answer, the connection, or the time limit.
#[derive(Debug, thiserror::Error)]
pub enum RequestCause {
    /// The server's own answer.
    #[error("{} {}: {}", .0.code, .0.reason, .0.message)]
    Status(Box<Status>),
    /// There was no complete reply.
    #[error(transparent)]
    Client(Box<kube::Error>),
    /// The read was given up after this time.
    #[error("given up after {} s, half of the time that was left", .0.as_secs())]
    Late(Duration),
}

/// The kind of a failure, on which the next step depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// 401: the token was refused, or no access entry of the cluster matches its identity.
    Unauthenticated,
    /// 403: the user lacks a right.
    Forbidden,
    /// A quota or an admission rule refused the object: a limit that the teams of the cluster set.
    Denied,
    /// No connection, no TLS, or an interrupted reply.
    Unreachable,
    /// The server returned an error or an unexpected object.
    Failed,
    /// The server did not answer completely in half of the time that the run had left.
    Late,
}

fn describe_class(class: ErrorClass, is_about_multi_cluster: bool) -> &'static str {
    match class {
        ErrorClass::Forbidden if is_about_multi_cluster => {
            "it is not allowed (403): kubectl apply -k deploy/multi-cluster"
        }
        ErrorClass::Unauthenticated => {
            "the token was refused (401): is there an access entry for the function's role, or on Outposts a line in aws-auth?"
        }
        ErrorClass::Forbidden => "it is not allowed (403): is deploy/rbac.yaml applied?",
        ErrorClass::Denied => "a quota or an admission rule of the cluster refuses it",
        ErrorClass::Unreachable => "the API server cannot be reached, or its response was cut off",
        ErrorClass::Failed => "the API server answered with an error",
        ErrorClass::Late => "the API server did not answer to the end in time",
    }
}

/// Returns the class of an error that the server answered.
fn class_of(status: &Status) -> ErrorClass {
    // RBAC answers `User "…" cannot create resource "services"`.
    let is_rbac = status.message.contains("\" cannot ");
    let is_webhook = status.message.contains(" denied the request");
    let is_policy = status.message.contains(" denied request: ");
    // Quotas and other admission plugins answer, for instance, `exceeded quota: …`.
    let is_plugin = status.code == 403 && status.message.contains(" is forbidden: ") && !is_rbac;
    match status.code {
        _ if is_of_deleted_namespace(status) => ErrorClass::Failed,
        // A webhook may answer with any code.
        _ if is_webhook || is_policy || is_plugin => ErrorClass::Denied,
        401 => ErrorClass::Unauthenticated,
        403 if is_rbac => ErrorClass::Forbidden,
        _ => ErrorClass::Failed,
    }
}

/// Whether the API server refused to create an object because its namespace is being deleted. The server calls this
/// forbidden too.
fn is_of_deleted_namespace(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "NamespaceTerminating")
}

impl Error {
    fn new(action: impl Into<String>, error: kube::Error) -> Self {
        let class = match &error {
            kube::Error::Api(status) => class_of(status),
            kube::Error::Service(_) | kube::Error::HyperError(_) => ErrorClass::Unreachable,
            _ => ErrorClass::Failed,
        };
        let source = match error {
            kube::Error::Api(status) => RequestCause::Status(status),
            other => RequestCause::Client(Box::new(other)),
        };
        Self { action: action.into(), class, is_about_multi_cluster: false, source }
    }

    /// Marks the error as one of a request that only exports or imports need.
    fn about_multi_cluster(self) -> Self {
        Self { is_about_multi_cluster: true, ..self }
    }

    /// Returns the server's status, if it has this code.
    fn status(&self, code: u16) -> Option<&Status> {
        match &self.source {
            RequestCause::Status(status) if status.code == code => Some(status),
            _ => None,
        }
    }

    /// Returns the IP family that the API server refused for a Service (422), because the cluster does not have it.
    pub fn missing_family(&self) -> Option<Family> {
        let refusal = &self.status(422)?.message;
        let is_missing = |family: &Family| {
            refusal.contains(&format!("\"{}\": not configured on this cluster", family.as_str()))
        };
        Family::ALL.into_iter().find(is_missing)
    }

    /// Returns the paths of the fields for which the API server refused an object (422 `Invalid`), never those of a
    /// policy or a quota. The path is empty if a cause names no field.
    pub fn invalid_fields(&self) -> Vec<String> {
        let details = self.status(422).filter(|status| status.reason == "Invalid");
        let details = details.and_then(|status| status.details.as_ref());
        details
            .iter()
            .flat_map(|details| &details.causes)
            .map(|cause| cause.field.clone())
            .collect()
    }

    /// Whether an admission policy denied a request by a rule that names `word` (422).
    pub fn is_denied(&self, word: &str) -> bool {
        let refusal =
            self.status(422).and_then(|status| status.message.split_once(" denied request: "));
        refusal.is_some_and(|(_, rule)| rule.contains(word))
    }

    /// Whether the object cannot be created because another object has its name (409).
    pub fn is_name_taken(&self) -> bool {
        self.status(409).is_some_and(|status| status.reason == "AlreadyExists")
    }

    /// Whether the object was changed, deleted or created since it was read (409, 404).
    pub fn is_outdated(&self) -> bool {
        self.class == ErrorClass::Failed && (self.is_status(409) || self.is_status(404))
    }

    /// Whether the server would refuse the same request again: a rule denied it, or it is invalid or forbidden (4xx)
    /// and the cause is neither the state of an object nor the token, a timeout or a rate limit.
    pub fn is_permanent(&self) -> bool {
        let RequestCause::Status(status) = &self.source else { return false };
        self.class == ErrorClass::Denied
            || (400..500).contains(&status.code)
                && ![401, 404, 408, 409, 425, 429].contains(&status.code)
    }

    /// Whether there is no such object (404).
    pub fn is_not_found(&self) -> bool {
        self.is_status(404)
    }

    fn is_status(&self, expected: u16) -> bool {
        self.status(expected).is_some()
    }

    /// Whether a new connection may help: the cluster may have been recreated under its name, with another address and
    /// certificate authority.
    pub fn may_be_stale(&self) -> bool {
        matches!(self.class, ErrorClass::Unauthenticated | ErrorClass::Unreachable)
    }

    /// Whether the TLS handshake failed: EKS may have rotated the cluster's certificate authority since the cluster was
    /// described.
    pub fn is_failed_handshake(&self) -> bool {
        let causes =
            successors(Some(&self.source as &dyn std::error::Error), |error| error.source());
        causes.filter_map(<dyn std::error::Error>::downcast_ref).any(is_failed_handshake)
    }
}

/// Whether the error is a failed handshake, which the TLS connector reports as invalid data. Other connectors wrap that
/// error in one whose `source` does not return it.
fn is_failed_handshake(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<io::Error>());
    error.kind() == io::ErrorKind::InvalidData || inner.is_some_and(is_failed_handshake)
}

// The Kubernetes client of an EKS cluster. It verifies TLS against the cluster's own certificate authority, and puts a
// fresh bearer token on every request, so a client outlives its tokens. Requests go over the network unless the program
// that builds the function passes another `Transport`; no setting and no event can do that.

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest pause while a reply is read.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// The backoff before the first retry after a reply 429, 503 or 504; it doubles with each retry.
const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
/// The longest backoff, unless the server requests more (`Retry-After`).
const MAX_BACKOFF: Duration = Duration::from_secs(2);
const MAX_RETRIES: u32 = 5;
/// The most requests that wait for the connection.
const MAX_BUFFERED: usize = 256;

/// Carries requests to one API server.
pub type ApiServer = util::BoxService<http::Request<Body>, http::Response<Box<DynBody>>, BoxError>;

/// Makes the service that carries the requests of a client with this configuration.
pub type Transport =
    Arc<dyn Fn(Config) -> Result<ClientBuilder<ApiServer>, kube::Error> + Send + Sync>;

/// The error if a client could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
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

/// Makes a client for a cluster.
///
/// # Errors
/// Returns an error if the certificate authority contains no certificate, or if the client cannot be made.
pub fn connect(
    cluster: &EksCluster,
    tokens: BearerTokens,
    transport: &Transport,
) -> Result<Client, ConnectError> {
    let roots = parse_certificates(&cluster.certificate_authority);
    if roots.is_empty() {
        return Err(ConnectError::CertificateAuthority(cluster.name.clone()));
    }
    let mut config = Config::new(cluster.endpoint.clone());
    config.root_cert = Some(roots);
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    // The client's own retries continue for minutes, longer than an invocation may take.
    config.default_retry = false;
    let retries = retry::RetryPolicy::new(INITIAL_BACKOFF, MAX_BACKOFF, MAX_RETRIES, true)
        .map_err(|source| ConnectError::Retries(Box::new(source)))?;
    let builder = transport(config).map_err(|source| ConnectError::Client {
        cluster: cluster.name.clone(),
        source: Box::new(source),
    })?;
    // Retry and filter require a service that can be cloned, such as a buffer.
    let buffered = builder.with_layer(&buffer::BufferLayer::new(MAX_BUFFERED));
    let retrying = buffered.with_layer(&tower::retry::RetryLayer::new(retries));
    let with_token = move |mut request: http::Request<Body>| {
        let token = tokens();
        async move {
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.await?))?;
            // Keeps the token out of debug output of the request.
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
            Ok::<_, BoxError>(request)
        }
    };
    Ok(retrying.with_layer(&filter::AsyncFilterLayer::new(with_token)).build())
}

fn parse_certificates(pem: &[u8]) -> Vec<Vec<u8>> {
    let text = String::from_utf8_lossy(pem);
    let blocks = text.split("-----BEGIN CERTIFICATE-----").skip(1);
    let bodies = blocks.filter_map(|block| block.split("-----END").next());
    bodies
        .filter_map(|body| {
            let base64: String = body.split_whitespace().collect();
            general_purpose::STANDARD.decode(base64).ok().filter(|der| !der.is_empty())
        })
        .collect()
}
