//! Sends requests to an API server over the network, as kube itself does except for the connections. kube gives its
//! connector one timeout for all addresses of a name, so an address that drops packets would make every run fail. kube
//! also reuses connections that died while the process was frozen.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aws_smithy_async::time::SharedTimeSource;
use aws_smithy_runtime_api::client::dns::{ResolveDns, ResolveDnsError, SharedDnsResolver};
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use hyper_rustls::HttpsConnector;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioExecutor;
use kube::Config;
use kube::client::{Body, ClientBuilder, ConfigExt, DynBody};
use tower::util::BoxService;
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
use tower_http::decompression::DecompressionLayer;

use super::{ApiServer, Transport};
use crate::connections::{ExpiringClient, LONGEST_PAUSE, system_resolver};

/// Returns the transport over the network, as the configuration says. `clock` is the wall clock, which shows whether
/// the process was frozen.
pub fn over_network(clock: SharedTimeSource) -> Transport {
    Arc::new(move |config| builder(config, system_resolver(), LONGEST_PAUSE, clock.clone()))
}

/// Returns the builder of a client for a process that is never frozen: it reuses connections after any pause.
///
/// # Errors
/// Returns an error if the configuration is invalid.
pub fn of_long_running_process(config: Config) -> Result<ClientBuilder<ApiServer>, kube::Error> {
    builder(config, system_resolver(), Duration::MAX, SharedTimeSource::default())
}

/// Returns the builder of a client that finds addresses with `names`, and that does not reuse connections after a pause
/// of more than `longest_pause`.
///
/// # Errors
/// Returns an error if the configuration is invalid.
pub fn builder(
    config: Config,
    names: SharedDnsResolver,
    longest_pause: Duration,
    clock: SharedTimeSource,
) -> Result<ClientBuilder<ApiServer>, kube::Error> {
    let connector = connector(&config, names)?;
    let client = Arc::new(ExpiringClient::new(longest_pause, move || {
        legacy::Builder::new(TokioExecutor::new()).build::<_, Body>(connector.clone())
    }));
    let send =
        service_fn(move |request: http::Request<Body>| client.at(clock.now()).request(request));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(DecompressionLayer::new().gzip(!config.disable_compression))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(send);
    let service = service.map_response(|response: http::Response<_>| {
        response.map(|body| Box::new(BodyExt::map_err(body, BoxError::from)) as Box<DynBody>)
    });
    Ok(ClientBuilder::new(BoxService::new(service), config.default_namespace))
}

type Connector = TimeoutConnector<HttpsConnector<HttpConnector<Names>>>;

/// Returns the connector. The HTTP connector divides its timeout among the addresses of a name. A second timeout of the
/// same length around it, the only one that kube has, ends a TLS handshake that stalls.
fn connector(config: &Config, names: SharedDnsResolver) -> Result<Connector, kube::Error> {
    let mut tcp = HttpConnector::new_with_resolver(Names(names));
    tcp.enforce_http(false);
    tcp.set_connect_timeout(config.connect_timeout);
    let tls = config.rustls_https_connector_with_connector(tcp)?;
    let mut connector = TimeoutConnector::new(tls);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    Ok(connector)
}

/// The resolver, in the form that the HTTP connector uses.
#[derive(Clone)]
struct Names(SharedDnsResolver);

impl tower::Service<Name> for Names {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = ResolveDnsError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(
        &mut self,
        _context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let names = self.0.clone();
        Box::pin(async move {
            let found = names.resolve_dns(name.as_str()).await?;
            // The connector sets the port of the request.
            let addresses = found.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(addresses.collect::<Vec<_>>().into_iter())
        })
    }
}
