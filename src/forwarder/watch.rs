//! The watches of the cluster, with kube's watcher: it resumes a broken watch at its last version, or lists again if
//! the server no longer has that version. Only metadata is requested, since the function reads the objects itself.

use std::fmt::Debug;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{BoxStream, SelectAll};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Client, Resource, ResourceExt};
use tracing::{info, warn};

use super::backoff::WatchBackoff;
use super::changes::{Changes, Object, Seen, Watch};
use super::place::Place;
use crate::error::chain;
use crate::kubernetes::read::SERVICE_NAME;
use crate::model::ServiceRef;

/// The server's timeout of one watch, in seconds. A connection that died without a reset is detected soon after it.
const WATCH_SECONDS: u32 = 60;
/// The read timeout, longer than a watch without events.
const READ_TIMEOUT: Duration = Duration::from_secs(90);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The label of slices that Kubernetes creates for headless Services.
const OF_HEADLESS: &str = "service.kubernetes.io/headless";
/// Selects all other slices. Those that were created by hand or mirrored from Endpoints lack the label above.
const OF_OTHERS: &str = "endpointslice.kubernetes.io/managed-by!=endpointslice-controller.k8s.io";

type Watched = (Watch, Result<Seen, watcher::Error>);

/// A client for the cluster that the process runs in, or that `KUBECONFIG` names.
///
/// # Errors
/// Returns an error if there is neither, or if it is invalid.
pub async fn connect() -> Result<Client, Box<dyn std::error::Error + Send + Sync>> {
    let mut config = kube::Config::infer().await?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    // kube reads HTTPS_PROXY and ignores NO_PROXY, and the API server is not behind a proxy for the internet.
    config.proxy_url = None;
    // Failed watches are retried and logged here, so the client must not retry them silently.
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// Watches as long as it is polled, and calls `add` with the place of each change.
pub async fn follow(client: Client, annotation_prefix: &str, mut add: impl FnMut(Place)) {
    let hostname = format!("{annotation_prefix}hostname");
    let mut changes = Changes::default();
    let mut watches = watches(&client, &hostname);
    while let Some((watch, seen)) = watches.next().await {
        match seen {
            Ok(seen) => {
                if seen == Seen::ListEnds {
                    info!("{} are listed", watch_name(watch));
                }
                changes.record(watch, seen).into_iter().for_each(&mut add);
            }
            Err(error) => warn!(
                "watch of {} failed, retrying: {}{}",
                watch_name(watch),
                chain(&error),
                hint(&error)
            ),
        }
    }
}

fn watches<'a>(client: &Client, hostname: &'a str) -> SelectAll<BoxStream<'a, Watched>> {
    let config = Config::default().timeout(WATCH_SECONDS);
    let annotated = |service: &PartialObjectMeta<Service>| {
        service.annotations().contains_key(hostname).then(|| key(service))
    };
    let slices_of = |selector: &str| config.clone().labels(selector);
    futures_util::stream::select_all([
        watch_all(client, Watch::Services, config.clone(), annotated),
        watch_all(client, Watch::HeadlessSlices, slices_of(OF_HEADLESS), service_of_slice),
        watch_all(client, Watch::OtherSlices, slices_of(OF_OTHERS), service_of_slice),
    ])
}

fn watch_all<'a, K>(
    client: &Client,
    watch: Watch,
    config: Config,
    service: impl Fn(&PartialObjectMeta<K>) -> Option<ServiceRef> + Send + 'a,
) -> BoxStream<'a, Watched>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + 'static,
{
    let api: Api<PartialObjectMeta<K>> = Api::all(client.clone());
    let events = watcher(api, config).backoff(WatchBackoff::default());
    events.map(move |event| (watch, event.map(|event| seen(event, &service)))).boxed()
}

fn seen<K>(
    event: Event<PartialObjectMeta<K>>,
    service: impl Fn(&PartialObjectMeta<K>) -> Option<ServiceRef>,
) -> Seen
where
    K: Resource<DynamicType = ()>,
{
    let object = |meta: PartialObjectMeta<K>| Object {
        key: key(&meta),
        version: meta.resource_version().unwrap_or_default(),
        service: service(&meta),
    };
    match event {
        Event::Init => Seen::ListBegins,
        Event::InitApply(meta) => Seen::Listed(object(meta)),
        Event::InitDone => Seen::ListEnds,
        Event::Apply(meta) => Seen::Changed(object(meta)),
        Event::Delete(meta) => Seen::Deleted(object(meta)),
    }
}

fn service_of_slice(slice: &PartialObjectMeta<EndpointSlice>) -> Option<ServiceRef> {
    let service = slice.labels().get(SERVICE_NAME)?;
    Some(ServiceRef::new(slice.namespace().unwrap_or_default(), service))
}

fn key(object: &impl ResourceExt) -> ServiceRef {
    ServiceRef::new(object.namespace().unwrap_or_default(), object.name_any())
}

fn watch_name(watch: Watch) -> &'static str {
    match watch {
        Watch::Services => "Services",
        Watch::HeadlessSlices => "EndpointSlices of headless Services",
        Watch::OtherSlices => "EndpointSlices that Kubernetes does not manage",
    }
}

fn hint(error: &watcher::Error) -> &'static str {
    use watcher::Error::{InitialListFailed, WatchError, WatchFailed, WatchStartFailed};
    let code = match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
        | WatchFailed(kube::Error::Api(status))
        | WatchError(status) => status.code,
        _ => 0,
    };
    match code {
        401 => " (is the token of the pod's ServiceAccount mounted?)",
        403 => " (is the ClusterRole cloud-map-forwarder bound to the pod's ServiceAccount?)",
        _ => "",
    }
}
