//! Watches the cluster with kube's watcher, which resumes a watch that broke off where it was, or
//! lists again where the server has forgotten that place. Only metadata is asked for: what an object
//! says is for the function to read.

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

/// How long the server keeps one watch open, in seconds. A connection that died in silence is noticed
/// a little later.
const WATCH_SECONDS: u32 = 60;
/// How long the server may be silent. Longer than a watch on which nothing happens.
const READ_TIMEOUT: Duration = Duration::from_secs(90);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// On the slices that Kubernetes makes for headless Services.
const OF_HEADLESS: &str = "service.kubernetes.io/headless";
/// All other slices: that label is missing on those that were made by hand, or mirrored from Endpoints.
const OF_OTHERS: &str = "endpointslice.kubernetes.io/managed-by!=endpointslice-controller.k8s.io";

type Watched = (Watch, Result<Seen, watcher::Error>);

/// A client for the cluster that the process runs in, or that `KUBECONFIG` names.
///
/// # Errors
/// Where there is neither, or it cannot be used.
pub async fn connect() -> Result<Client, Box<dyn std::error::Error + Send + Sync>> {
    let mut config = kube::Config::infer().await?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    // kube reads HTTPS_PROXY, and not NO_PROXY; the API server is never behind a proxy for the internet.
    config.proxy_url = None;
    // A watch that fails is begun again here, and the log says so.
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// Watches for as long as it is polled, and says what each change is due a message for.
pub async fn follow(client: Client, annotation_prefix: &str, mut due: impl FnMut(Place)) {
    let hostname = format!("{annotation_prefix}hostname");
    let mut changes = Changes::default();
    let mut watches = watches(&client, &hostname);
    while let Some((watch, seen)) = watches.next().await {
        match seen {
            Ok(seen) => {
                if seen == Seen::ListEnds {
                    info!("{} are listed", name(watch));
                }
                changes.take(watch, seen).into_iter().for_each(&mut due);
            }
            Err(error) => warn!("{}, tried again: {}{}", name(watch), chain(&error), hint(&error)),
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

fn name(watch: Watch) -> &'static str {
    match watch {
        Watch::Services => "Services",
        Watch::HeadlessSlices => "EndpointSlices of headless Services",
        Watch::OtherSlices => "EndpointSlices that Kubernetes does not keep itself",
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
