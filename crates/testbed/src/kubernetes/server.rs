//! The server itself: a TLS listener, the lock around its state, and its address, certificates and request log for
//! tests.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Request};
use axum::response::Response;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::super::identity::Identities;
use super::super::sigv4::digest;
use super::super::tls::{CertificateAuthority, CurrentConfig, TlsListener};
use super::access::Access;
use super::world::World;
use super::{ClusterIdentity, RequestLine, answer};

/// A running server; clones share it.
#[derive(Clone)]
pub struct KubernetesServer {
    world: Arc<Mutex<World>>,
    address: SocketAddr,
    /// The authorities that clients are to trust: two while the cluster rotates its own.
    authorities: Arc<Mutex<Vec<CertificateAuthority>>>,
    current: CurrentConfig,
    /// Whether each response ends its connection.
    closes_connections: Arc<AtomicBool>,
    stop: Arc<Notify>,
    is_stopped: Arc<AtomicBool>,
    acceptor: AbortHandle,
}

impl KubernetesServer {
    /// Starts a server on a free loopback port; it ends with the tokio runtime.
    pub async fn start(identity: ClusterIdentity, identities: Identities) -> Self {
        let authority = CertificateAuthority::new(&identity.name);
        let current = CurrentConfig::new(Mutex::new(authority.server_config()));
        let listener = TlsListener::bind(current.clone()).await;
        let admin_token = format!("sandbox-admin-{}", &digest(identity.arn().as_bytes())[..16]);
        let access = Access { admin_token, identities, ..Access::default() };
        let server = Self {
            world: Arc::new(Mutex::new(World::new(identity, access))),
            address: listener.address,
            acceptor: listener.acceptor.clone(),
            authorities: Arc::new(Mutex::new(vec![authority])),
            current,
            closes_connections: Arc::default(),
            stop: Arc::new(Notify::new()),
            is_stopped: Arc::default(),
        };
        server.clone().spawn(listener);
        server
    }

    fn spawn(self, listener: TlsListener) {
        let stop = self.stop.clone();
        let router = Router::new().fallback(move |request: Request<Body>| {
            let server = self.clone();
            async move { server.serve(request).await }
        });
        tokio::spawn(async move {
            let serve = axum::serve(listener, router);
            serve.with_graceful_shutdown(async move { stop.notified().await }).await
        });
    }

    /// Answers one request, however it came.
    pub(in super::super) async fn serve(&self, request: Request<Body>) -> Response {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_else(|_| Bytes::new());
        let mut response =
            answer::serve(self.world.clone(), Request::from_parts(parts, body)).await;
        if self.closes_connections.load(Ordering::Relaxed) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Whether the port is open.
    pub(in super::super) fn is_listening(&self) -> bool {
        !self.is_stopped.load(Ordering::Relaxed)
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("no poisoned lock")
    }

    /// `https://127.0.0.1:<port>`
    pub fn endpoint(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The authorities that clients are to trust, one PEM block after the other.
    pub fn certificate_authority_pem(&self) -> String {
        self.authorities().iter().map(CertificateAuthority::pem).collect()
    }

    fn authorities(&self) -> MutexGuard<'_, Vec<CertificateAuthority>> {
        self.authorities.lock().expect("no poisoned lock")
    }

    /// Which cluster this is.
    pub fn identity(&self) -> ClusterIdentity {
        self.world().identity.clone()
    }

    /// `1.<minor>`, as DescribeCluster and `/version` report it.
    pub fn version(&self) -> String {
        format!("1.{}", self.world().minor)
    }

    /// The administrator's bearer token.
    pub fn admin_token(&self) -> String {
        self.world().access.admin_token.clone()
    }

    /// The revision of its objects, which grows with each change.
    pub fn revision(&self) -> u64 {
        self.world().store.now().0
    }

    /// Every request since the start or the last `forget_requests`.
    pub fn requests(&self) -> Vec<RequestLine> {
        self.world().requests.clone()
    }

    /// Empties the request log.
    pub fn forget_requests(&self) {
        self.world().requests.clear();
    }

    /// From now on new connections see a certificate of an authority that no client knows.
    pub fn serve_other_certificate(&self) {
        let other = CertificateAuthority::new("another cluster").server_config();
        *self.current.lock().expect("no poisoned lock") = other;
    }

    /// Serves a certificate of the cluster's own authority again, in a rotation of the older one.
    pub fn serve_own_certificate(&self) {
        let own = self.authorities().first().expect("an authority").server_config();
        *self.current.lock().expect("no poisoned lock") = own;
    }

    /// From now on each response ends its connection, so that the next request meets the present certificate.
    pub fn close_connections(&self) {
        self.closes_connections.store(true, Ordering::Relaxed);
    }

    /// Begins the rotation of the authority: clients are to trust a new one, too, which signs nothing yet.
    pub fn begin_rotation(&self) {
        let next = CertificateAuthority::new(&self.identity().name);
        self.authorities().push(next);
    }

    /// From now on new connections see a certificate of the newest authority.
    pub fn serve_newest_certificate(&self) {
        let newest = self.authorities().last().expect("an authority").server_config();
        *self.current.lock().expect("no poisoned lock") = newest;
    }

    /// Ends the rotation: clients are to trust the newest authority alone.
    pub fn end_rotation(&self) {
        let mut authorities = self.authorities();
        let older = authorities.len() - 1;
        authorities.drain(..older);
    }

    /// Closes the port: connections are refused from now on.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.acceptor.abort();
        self.stop.notify_one();
    }
}
