//! The watches of the cluster, made with kube's watcher. It resumes a broken watch at its last version, or lists again
//! if the server no longer has that version. Only metadata is requested, since the function reads the objects itself.

#[cfg(test)]
mod tests;

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{BoxStream, select_all};
use http::Request;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ApiResource, ObjectMeta, PartialObjectMeta};
use kube::client::Body;
use kube::core::GroupVersionKind;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Client, ResourceExt};
use tokio::time::Instant;
use tower::service_fn;
use tracing::{info, warn};

use super::changes::{Changes, Watch, WatchedObject};
use super::{ForwarderSettings, PodHealth, SyncScope};
use cloud_map_sync::error::chain;
use cloud_map_sync::kubernetes::endpoint_slices::SERVICE_NAME;
use cloud_map_sync::kubernetes::transport;
use cloud_map_sync::model::ServiceRef;
use cloud_map_sync::time::backoff;

/// The server's timeout of one watch, in seconds. A connection that died without a reset is detected soon after it, by
/// the read timeout.
const WATCH_SECONDS: u32 = 60;
/// The read timeout. It is longer than a watch without events.
const READ_TIMEOUT: Duration = Duration::from_secs(90);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Selects the slices that Kubernetes creates for headless Services.
const OF_HEADLESS: &str = "service.kubernetes.io/headless";
/// Selects the slices that Kubernetes creates for Services that are not headless.
const OF_CLUSTER_IP: &str = "endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io,\
                             !service.kubernetes.io/headless";
/// Selects all other slices except those of imports. Slices that were created by hand or mirrored from Endpoints lack
/// the labels above.
const OF_OTHERS: &str = "endpointslice.kubernetes.io/managed-by!=endpointslice-controller.k8s.io,\
                         endpointslice.kubernetes.io/managed-by!=cloud-map-sync";

type Watched = (Watch, Result<Event<WatchedObject>, watcher::Error>);

/// Returns a client for the cluster of the kubeconfig, or without one for the cluster that the process runs in.
///
/// # Errors
/// Returns an error if there is neither configuration, or if it is invalid.
pub async fn connect() -> Result<Client, Box<dyn std::error::Error + Send + Sync>> {
    let mut config = kube::Config::infer().await?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    // This module retries and logs failed watches, so the client must not retry them silently.
    config.default_retry = false;
    // The transport ignores the proxy of the environment: the API server is not behind a proxy for the internet.
    Ok(transport::of_long_running_process(config)?.build())
}

/// Watches the cluster as long as it is polled, and calls `add` with the scope that each change affects. Reports each
/// failed and each accepted watch to `health`.
pub async fn follow(
    client: Client,
    settings: &ForwarderSettings,
    health: &PodHealth,
    mut add: impl FnMut(SyncScope),
) {
    let hostname_annotation = format!("{}hostname", settings.annotation_prefix);
    let mut changes = Changes::new(settings.multi_cluster.exports());
    let mut watches = select_all(
        changes.watches().map(|watch| watch_all(&client, health, watch, &hostname_annotation)),
    );
    let mut lacks_exports = false;
    while let Some((watch, event)) = watches.next().await {
        let name = watch_name(watch);
        match event {
            Ok(event) => {
                if matches!(event, Event::InitDone) {
                    info!("{name} are listed");
                    lacks_exports &= watch != Watch::Exports;
                }
                changes.record(watch, event).into_iter().for_each(&mut add);
            }
            // The cluster does not have the CRD. If the CRD was deleted, all ServiceExports were deleted with it. So
            // the error counts as an empty list, and each Service that was exported is synced again.
            Err(error) if watch == Watch::Exports && code(&error) == 404 => {
                health.watch_accepted(name);
                if !lacks_exports {
                    info!("the cluster has no {name}: they are followed as soon as it has");
                    lacks_exports = true;
                }
                let scopes =
                    [Event::Init, Event::InitDone].map(|event| changes.record(watch, event));
                scopes.into_iter().flatten().for_each(&mut add);
            }
            Err(error) => {
                let why = format!("{}{}", chain(&error), hint(&error));
                warn!("watch of {name} failed, retrying: {why}");
                health.watch_failed(name, why);
            }
        }
    }
}

/// Returns the kind of the objects of a watch, and the label selector. `None` selects all objects of the kind.
fn watched(watch: Watch) -> (ApiResource, Option<&'static str>) {
    let slices = ApiResource::erase::<EndpointSlice>(&());
    match watch {
        Watch::Services => (ApiResource::erase::<Service>(&()), None),
        Watch::HeadlessSlices => (slices, Some(OF_HEADLESS)),
        Watch::OtherSlices => (slices, Some(OF_OTHERS)),
        Watch::ClusterIpSlices => (slices, Some(OF_CLUSTER_IP)),
        Watch::Exports => {
            let kind = GroupVersionKind::gvk("multicluster.x-k8s.io", "v1beta1", "ServiceExport");
            (ApiResource::from_gvk(&kind), None)
        }
    }
}

fn watch_all<'a>(
    client: &Client,
    health: &PodHealth,
    watch: Watch,
    hostname_annotation: &'a str,
) -> BoxStream<'a, Watched> {
    let (kind, labels) = watched(watch);
    let api: Api<PartialObjectMeta> = Api::all_with(reporting(client, health, watch), &kind);
    let config = Config::default().timeout(WATCH_SECONDS);
    let config = Config { label_selector: labels.map(str::to_owned), ..config };
    let events = watcher(api, config).backoff(WatchBackoff::default());
    events
        .map(move |event| {
            (watch, event.map(|event| watched_event(watch, event, hostname_annotation)))
        })
        .boxed()
}

/// Returns a client that reports to `health` when the API server accepts a watch. kube's watcher emits no event when it
/// resumes a broken watch.
fn reporting(client: &Client, health: &PodHealth, watch: Watch) -> Client {
    let inner = client.clone();
    let health = health.clone();
    let service = service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        let health = health.clone();
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        async move {
            let response = inner.send(request).await?;
            if is_watch && response.status().is_success() {
                health.watch_accepted(watch_name(watch));
            }
            Ok::<_, kube::Error>(response)
        }
    });
    Client::new(service, client.default_namespace())
}

/// Reduces the objects of an event to the parts that [`Changes`] needs.
fn watched_event(
    watch: Watch,
    event: Event<PartialObjectMeta>,
    hostname_annotation: &str,
) -> Event<WatchedObject> {
    let object = |meta: PartialObjectMeta| WatchedObject {
        key: key(&meta),
        version: match watch {
            Watch::Exports => version_of_export(&meta.metadata),
            _ => meta.resource_version().unwrap_or_default(),
        },
        service: match watch {
            Watch::Services => {
                meta.annotations().contains_key(hostname_annotation).then(|| key(&meta))
            }
            // An export has the name of its Service.
            Watch::Exports => Some(key(&meta)),
            _ => service_of_slice(&meta),
        },
    };
    match event {
        Event::Init => Event::Init,
        Event::InitApply(meta) => Event::InitApply(object(meta)),
        Event::InitDone => Event::InitDone,
        Event::Apply(meta) => Event::Apply(object(meta)),
        Event::Delete(meta) => Event::Delete(object(meta)),
    }
}

fn service_of_slice(slice: &PartialObjectMeta) -> Option<ServiceRef> {
    let service = slice.labels().get(SERVICE_NAME)?;
    Some(ServiceRef::new(slice.namespace().unwrap_or_default(), service))
}

fn key(object: &PartialObjectMeta) -> ServiceRef {
    ServiceRef::new(object.namespace().unwrap_or_default(), object.name_any())
}

fn watch_name(watch: Watch) -> &'static str {
    match watch {
        Watch::Services => "Services",
        Watch::HeadlessSlices => "EndpointSlices of headless Services",
        Watch::OtherSlices => "EndpointSlices that Kubernetes does not manage",
        Watch::Exports => "ServiceExports",
        Watch::ClusterIpSlices => "EndpointSlices of Services that are not headless",
    }
}

fn code(error: &watcher::Error) -> u16 {
    use watcher::Error::{InitialListFailed, WatchError, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
        | WatchFailed(kube::Error::Api(status))
        | WatchError(status) => status.code,
        _ => 0,
    }
}

fn hint(error: &watcher::Error) -> &'static str {
    match code(error) {
        401 => " (is the token of the pod's ServiceAccount mounted?)",
        403 => " (is the ClusterRole cloud-map-forwarder bound to the pod's ServiceAccount?)",
        _ => "",
    }
}

/// Returns a version of a ServiceExport that does not change if the function writes the status. The server increments
/// the generation at each change of the spec, which has the exported labels and annotations.
fn version_of_export(meta: &ObjectMeta) -> String {
    let uid = meta.uid.as_deref().unwrap_or_default();
    format!("{uid}/{}", meta.generation.unwrap_or_default())
}

/// The backoff of one watch. kube resets a backoff after each event, and a watch that cannot list begins each attempt
/// with the event `Init`. So this backoff ignores the reset, and keeps the count of failures until `QUIET` has passed
/// without a failure.
#[derive(Debug, Default)]
struct WatchBackoff {
    failures: u32,
    last: Option<Instant>,
}

impl WatchBackoff {
    const FIRST: Duration = Duration::from_millis(250);
    const LONGEST: Duration = Duration::from_secs(5);
    /// The time without a failure that resets the count. Longer than the longest pause and the connect timeout.
    const QUIET: Duration = Duration::from_secs(20);
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if self.last.is_some_and(|last| last.elapsed() > Self::QUIET) {
            self.failures = 0;
        }
        self.failures += 1;
        self.last = Some(Instant::now());
        Some(backoff(self.failures, Self::FIRST, Self::LONGEST))
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {}
}
