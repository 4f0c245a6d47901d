//! The connections of all clients: the order in which the addresses of a name are tried, and how long a connection is
//! reused. [`aws_client`] makes the HTTP client for calls to AWS. `kubernetes::transport` builds the clients of API
//! servers from the same parts. The SDK and kube implement TLS, HTTP and proxies.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::{Builder, Connector};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::connector_metadata::ConnectorMetadata;
use aws_smithy_runtime_api::client::dns::{
    DnsFuture, ResolveDns, ResolveDnsError, SharedDnsResolver,
};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::{
    RuntimeComponents, RuntimeComponentsBuilder,
};
use aws_smithy_types::config_bag::ConfigBag;

/// The longest pause between two requests after which a connection is reused.
///
/// Lambda freezes the process between invocations. If a peer goes away meanwhile, the process does not see that the
/// connection is closed, and the next request on it waits for its whole timeout. A new connection takes only a few
/// milliseconds, so five seconds of reuse are enough for an invocation and for a burst of messages.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A client that is replaced after a pause, together with its pool of connections.
///
/// The pause is measured by the wall clock. A pool measures the age of its connections by the monotonic clock, which
/// does not advance while a snapshot (SnapStart) is stored (<https://github.com/aws/aws-lambda-web-adapter/pull/569>).
/// During other freezes of Lambda it does advance (<https://github.com/aws/aws-lambda-web-adapter/issues/830>).
pub struct ExpiringClient<T> {
    build: Box<dyn Fn() -> T + Send + Sync>,
    longest_pause: Duration,
    /// The client with the time of its last request. `None` before the first request.
    current: Mutex<Option<(SystemTime, T)>>,
}

impl<T: Clone> ExpiringClient<T> {
    pub fn new(longest_pause: Duration, build: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self { build: Box::new(build), longest_pause, current: Mutex::default() }
    }

    /// Returns the client for a request at `now`. Requests that are in flight on a replaced client continue.
    pub fn at(&self, now: SystemTime) -> T {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let reused = current.take().filter(|(last, _)| {
            // If the clock was set back there is no age, and the client is replaced.
            now.duration_since(*last).is_ok_and(|pause| pause <= self.longest_pause)
        });
        let client = reused.map_or_else(|| (self.build)(), |(_, client)| client);
        *current = Some((now, client.clone()));
        client
    }
}

/// Resolves names by the operating system, with DNS and the hosts file.
#[derive(Debug)]
struct SystemResolver;

impl ResolveDns for SystemResolver {
    fn resolve_dns<'a>(&'a self, name: &'a str) -> DnsFuture<'a> {
        DnsFuture::new(async move {
            let found = tokio::net::lookup_host((name, 0)).await;
            let found = found.map_err(ResolveDnsError::new)?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Returns a resolver that resolves names as the operating system does.
pub fn system_resolver() -> SharedDnsResolver {
    SharedDnsResolver::new(SystemResolver)
}

/// The addresses of a name in the order in which they are tried.
#[derive(Debug, Default)]
struct AddressOrder {
    addresses: Vec<IpAddr>,
    /// How often the first address was moved to the end.
    rotations: usize,
}

/// A resolver that remembers for each name which address to try first.
///
/// The SDK has one connect timeout for all addresses of a name, and tries them in the order of the resolver. If the
/// first address drops packets, each attempt of a call would wait for it until the timeout, and no other address would
/// ever be tried. So after a timeout the next attempt and all later connections begin with the next address.
#[derive(Debug)]
struct OrderedResolver {
    inner: SharedDnsResolver,
    orders: Mutex<BTreeMap<String, AddressOrder>>,
}

impl OrderedResolver {
    fn rotations(&self, name: &str) -> usize {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.get(name).map_or(0, |order| order.rotations)
    }

    /// Moves the first address to the end, unless another attempt has done so since `rotations` was read. Concurrent
    /// attempts fail on the same address, so only the first failure may move it.
    fn move_first_to_end(&self, name: &str, rotations: usize) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(order) = orders.get_mut(name) else { return };
        if order.rotations == rotations && !order.addresses.is_empty() {
            order.addresses.rotate_left(1);
            order.rotations += 1;
        }
    }

    /// Returns the found addresses in the remembered order, since DNS returns them in random order. New addresses come
    /// last.
    fn sort(&self, name: &str, found: &[IpAddr]) -> Vec<IpAddr> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let order = orders.entry(name.to_owned()).or_default();
        order.addresses.retain(|address| found.contains(address));
        for address in found {
            if !order.addresses.contains(address) {
                order.addresses.push(*address);
            }
        }
        order.addresses.clone()
    }
}

impl ResolveDns for OrderedResolver {
    fn resolve_dns<'a>(&'a self, name: &'a str) -> DnsFuture<'a> {
        DnsFuture::new(async move {
            let found = self.inner.resolve_dns(name).await?;
            Ok(self.sort(name, &found))
        })
    }
}

/// The SDK's own HTTP client with two additions: the order of addresses, and the replacement after a pause.
struct AwsClient {
    client: ExpiringClient<SharedHttpClient>,
    resolver: Arc<OrderedResolver>,
}

/// Returns the HTTP client for AWS calls, which resolves names with `inner`.
pub fn aws_client(inner: SharedDnsResolver) -> SharedHttpClient {
    let resolver = Arc::new(OrderedResolver { inner, orders: Mutex::default() });
    let shared = SharedDnsResolver::new(SharedOrderedResolver(resolver.clone()));
    let client = ExpiringClient::new(LONGEST_PAUSE, move || sdk_client(shared.clone()));
    SharedHttpClient::new(AwsClient { client, resolver })
}

/// Returns the SDK's default client with another resolver. It uses the proxy of `HTTPS_PROXY` and `NO_PROXY`.
fn sdk_client(resolver: SharedDnsResolver) -> SharedHttpClient {
    Builder::new().build_with_connector_fn(move |settings, components| {
        let mut builder = Connector::builder()
            .proxy_config(ProxyConfig::from_env())
            .tls_provider(Provider::Rustls(CryptoMode::AwsLc));
        builder.set_connector_settings(settings.cloned());
        if let Some(components) = components {
            builder.set_sleep_impl(components.sleep_impl());
        }
        builder.build_with_resolver(resolver.clone())
    })
}

/// The resolver as the SDK takes it, while the HTTP client keeps a reference to it.
#[derive(Debug)]
struct SharedOrderedResolver(Arc<OrderedResolver>);

impl ResolveDns for SharedOrderedResolver {
    fn resolve_dns<'a>(&'a self, name: &'a str) -> DnsFuture<'a> {
        self.0.resolve_dns(name)
    }
}

impl fmt::Debug for AwsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsClient").field("resolver", &self.resolver).finish_non_exhaustive()
    }
}

impl HttpClient for AwsClient {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let now = components.time_source().unwrap_or_default().now();
        let connector = self.client.at(now).http_connector(settings, components);
        SharedHttpConnector::new(AwsConnector { connector, resolver: self.resolver.clone() })
    }

    fn validate_base_client_config(
        &self,
        components: &RuntimeComponentsBuilder,
        config: &ConfigBag,
    ) -> Result<(), BoxError> {
        let now = components.time_source().unwrap_or_default().now();
        self.client.at(now).validate_base_client_config(components, config)
    }

    fn connector_metadata(&self) -> Option<ConnectorMetadata> {
        Some(ConnectorMetadata::new("hyper", Some("1.x".into())))
    }
}

/// The connector of one attempt of a call.
#[derive(Debug)]
struct AwsConnector {
    connector: SharedHttpConnector,
    resolver: Arc<OrderedResolver>,
}

impl HttpConnector for AwsConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let uri = request.uri().parse::<http::Uri>().unwrap_or_default();
        let name = uri.host().unwrap_or_default().to_owned();
        let resolver = self.resolver.clone();
        let rotations = resolver.rotations(&name);
        let answer = self.connector.call(request);
        HttpConnectorFuture::new(async move {
            let answer = answer.await;
            if answer.as_ref().is_err_and(ConnectorError::is_timeout) {
                resolver.move_first_to_end(&name, rotations);
            }
            answer
        })
    }
}
