//! Certificates of the Kubernetes stand-ins: one certificate authority per cluster, as in EKS, and server certificates
//! for the loopback names. `TlsListener` passes TLS connections to `axum::serve` after their handshake.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::server::TlsStream;

/// The certificate authority of one cluster.
pub struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl CertificateAuthority {
    /// Makes an authority with a key of its own.
    pub fn new(name: &str) -> Self {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, format!("kubernetes {name}"));
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key for the authority");
        let certificate = parameters.self_signed(&key).expect("the authority's certificate");
        Self { pem: certificate.pem(), issuer: Issuer::new(parameters, key) }
    }

    /// The authority's certificate, as DescribeCluster hands it out (there in base64 once more).
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A TLS server configuration with a fresh certificate for 127.0.0.1 and localhost.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let mut parameters = CertificateParams::new(names).expect("valid names");
        parameters.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        parameters.use_authority_key_identifier_extension = true;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().expect("a key for the server");
        let certificate =
            parameters.signed_by(&key, &self.issuer).expect("the server's certificate");
        let private_key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .expect("protocol versions")
                .with_no_client_auth()
                .with_single_cert(vec![certificate.der().clone()], private_key.into())
                .expect("the certificate fits its key");
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

/// The configuration that new connections get; replacing it does not touch open ones.
pub type CurrentConfig = Arc<Mutex<Arc<ServerConfig>>>;

/// Accepts TCP, shakes hands in a task per connection and queues what succeeded.
pub struct TlsListener {
    connections: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    pub address: SocketAddr,
    /// Ends accepting: later connections are refused.
    pub acceptor: AbortHandle,
}

impl TlsListener {
    /// Listens on a free loopback port.
    pub async fn bind(config: CurrentConfig) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let address = tcp.local_addr().expect("the bound address");
        let (sender, connections) = mpsc::channel(64);
        let acceptor = tokio::spawn(accept(tcp, config, sender)).abort_handle();
        Self { connections, address, acceptor }
    }
}

async fn accept(
    tcp: TcpListener,
    config: CurrentConfig,
    connections: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    while let Ok((stream, peer)) = tcp.accept().await {
        let current = config.lock().expect("no poisoned lock").clone();
        let connections = connections.clone();
        tokio::spawn(async move {
            // A client that does not trust the certificate ends the handshake here: nothing to
            // serve.
            if let Ok(tls) = TlsAcceptor::from(current).accept(stream).await {
                let _ = connections.send((tls, peer)).await;
            }
        });
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.connections.recv().await {
            Some(connection) => connection,
            // The acceptor was ended: there will be no further connection.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        Ok(self.address)
    }
}
