//! Reads what a cluster says of itself as a member of a clusterset: the APIs that its server has, its `ClusterProperty`
//! objects (KEP-2149), which state its id and its clusterset, and its exports: its `ServiceExports`, then the Services of
//! their names.
//!
//! v1 Endpoints have neither zones nor terminating pods, so they are read only from a server whose discovery document lists
//! no `EndpointSlices`. A 404 on a list of slices is otherwise an error.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use kube::api::{GetParams, ListParams};
use kube::core::{Request, Status};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::connect::CONCURRENCY;
use super::export_object::{ExportObject, ExportedServiceObject};
use super::list::{List, Resource, list_all};
use super::object::FromObject;
use super::remembered::Recent;
use super::services::{MAX_NAMED, SERVICES_PER_PAGE, services_path};
use super::{Error, Kubernetes, exported};
use crate::model::clusterset::Member;
use crate::model::{Desired, ServiceRef};

impl Kubernetes {
    /// All exports of the cluster.
    ///
    /// # Errors
    /// Returns an error if a list or a Service could not be read, also if the API is not installed: an export that was
    /// not read is never taken for one that is gone.
    pub async fn exports(&self, member: &Member) -> Result<Desired, Error> {
        let exports = self.list_exports(&Resource::ServiceExports.path()).await?;
        self.with_services(exports, member).await
    }

    /// The exports of these namespaces and these single ones.
    ///
    /// # Errors
    /// As [`Self::exports`].
    pub async fn selected_exports(
        &self,
        namespaces: &BTreeSet<String>,
        services: &BTreeSet<ServiceRef>,
        member: &Member,
    ) -> Result<Desired, Error> {
        if namespaces.len() + services.len() > MAX_NAMED {
            return self.exports(member).await;
        }
        let lists = namespaces
            .iter()
            .map(|namespace| async move { self.list_exports(&path(namespace)).await });
        let single = services.iter().map(|service| async move {
            let path = path(&service.namespace);
            let export = self.get::<ExportObject>(&path, service, "ServiceExport").await;
            export.map_err(Error::of_multi_cluster)
        });
        let (lists, single) = tokio::try_join!(try_join_all(lists), try_join_all(single))?;
        let exports = lists.into_iter().flatten().chain(single.into_iter().flatten()).collect();
        self.with_services(exports, member).await
    }

    async fn list_exports(&self, path: &str) -> Result<Vec<ExportObject>, Error> {
        let params = ListParams::default();
        let list = List { path, params, page: SERVICES_PER_PAGE, name: "the ServiceExports" };
        let listed = list_all(&self.client, &list, Some).await;
        listed.map_err(Error::of_multi_cluster)
    }

    async fn with_services(
        &self,
        exports: Vec<ExportObject>,
        member: &Member,
    ) -> Result<Desired, Error> {
        let names = exports.iter();
        let names = names.map(|it| ServiceRef::new(&it.metadata.namespace, &it.metadata.name));
        let services = self.exported_services(&names.collect()).await?;
        Ok(exported::desired(exports, &services, member))
    }

    async fn exported_services(
        &self,
        names: &BTreeSet<ServiceRef>,
    ) -> Result<BTreeMap<ServiceRef, ExportedServiceObject>, Error> {
        if names.len() > MAX_NAMED {
            let params = ListParams::default();
            let (path, name) = ("/api/v1/services", "the Services");
            let list = List { path, params, page: SERVICES_PER_PAGE, name };
            let keep = |service: ExportedServiceObject| {
                let name = ServiceRef::new(&service.metadata.namespace, &service.metadata.name);
                names.contains(&name).then_some((name, service))
            };
            return Ok(list_all(&self.client, &list, keep).await?.into_iter().collect());
        }
        let reads = stream::iter(names.clone()).map(|name| async move {
            let path = services_path(&name.namespace);
            let read = self.get::<ExportedServiceObject>(&path, &name, "Service").await?;
            Ok(read.map(|service| (name, service)))
        });
        let read: Vec<_> = reads.buffer_unordered(CONCURRENCY).try_collect().await?;
        Ok(read.into_iter().flatten().collect())
    }

    /// One object; `None` if the API server has none of this name.
    async fn get<K: DeserializeOwned>(
        &self,
        path: &str,
        name: &ServiceRef,
        kind: &str,
    ) -> Result<Option<K>, Error> {
        if !name.can_exist() {
            return Ok(None);
        }
        let failed = |source| Error::new(format!("get {kind} {name}"), source);
        let request = Request::new(path).get(&name.name, &GetParams::default());
        let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
        match self.client.request::<FromObject<K>>(request).await {
            Ok(FromObject(found)) => Ok(Some(found)),
            // Without the API the server answers 404, too, but with no name.
            Err(kube::Error::Api(status)) if is_absent(&status) => Ok(None),
            Err(source) => Err(failed(source)),
        }
    }
}

/// Whether a 404 is about the object. One about the path has no details.
fn is_absent(status: &Status) -> bool {
    let names_it = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
    status.is_not_found() && names_it
}

fn path(namespace: &str) -> String {
    Resource::ServiceExports.path_in(namespace)
}

/// The group of `EndpointSlices` with its version.
const SLICES: &str = "discovery.k8s.io/v1";
/// The version of the Multi-Cluster Services API that is read and written.
const MULTI_CLUSTER: &str = "multicluster.x-k8s.io/v1beta1";

/// The results of API discovery.
#[derive(Debug, Default)]
pub(super) struct Serves {
    /// Whether there are slices. Requested once for a connection, and only after a list of slices has failed.
    slices: OnceCell<bool>,
    /// All group versions of a server with the Multi-Cluster Services API. A server without it is asked each time, since
    /// its definitions may be installed at any time.
    multi_cluster: Recent<BTreeSet<String>>,
}

impl Serves {
    /// Whether discovery has shown that there are no slices.
    pub(super) fn lacks_slices(&self) -> bool {
        self.slices.get() == Some(&false)
    }
}

impl Kubernetes {
    /// Whether the server serves `EndpointSlices`.
    ///
    /// # Errors
    /// Returns an error if discovery does not return a list of API groups.
    pub(super) async fn serves_slices(&self) -> Result<bool, Error> {
        let has_slices = || async { Ok(self.discover().await?.contains(SLICES)) };
        self.serves.slices.get_or_try_init(has_slices).await.copied()
    }

    /// Whether the server serves the Multi-Cluster Services API in the version that is read and written.
    ///
    /// # Errors
    /// Returns an error if discovery does not return a list of API groups.
    pub async fn serves_multi_cluster(&self) -> Result<bool, Error> {
        if self.serves.multi_cluster.is_recent() {
            return Ok(true);
        }
        let versions = self.discover().await?;
        let is_served = versions.contains(MULTI_CLUSTER);
        self.serves.multi_cluster.set(is_served.then_some(versions));
        Ok(is_served)
    }

    /// The versions of the Multi-Cluster Services API and of ClusterProperties that the server serves now.
    ///
    /// # Errors
    /// Returns an error if discovery does not return a list of API groups.
    pub async fn multi_cluster_versions(&self) -> Result<Vec<String>, Error> {
        let groups = ["multicluster.x-k8s.io/", "about.k8s.io/"];
        let mut versions = self.discover().await?;
        versions.retain(|version| groups.iter().any(|group| version.starts_with(group)));
        Ok(versions.into_iter().collect())
    }

    /// Whether a server of the Multi-Cluster Services API serves a group in a version, too.
    pub(super) fn serves_beside(&self, version: &str) -> bool {
        self.serves.multi_cluster.latest().is_some_and(|versions| versions.contains(version))
    }

    async fn discover(&self) -> Result<BTreeSet<String>, Error> {
        let failed = |source| Error::new("list the API groups", source);
        let groups = self.client.list_api_groups().await.map_err(failed)?.groups;
        // Every server has groups, so a document without groups is an error.
        if groups.is_empty() {
            let status = Status::failure("API discovery lists no group", "NoGroups");
            return Err(failed(kube::Error::Api(status.boxed())));
        }
        let versions = groups.into_iter().flat_map(|group| group.versions);
        Ok(versions.map(|version| version.group_version).collect())
    }
}

/// The versions of the API, the newest first.
const VERSIONS: [&str; 3] = ["about.k8s.io/v1", "about.k8s.io/v1beta1", "about.k8s.io/v1alpha1"];

#[derive(Deserialize)]
struct Property {
    spec: PropertySpec,
}

#[derive(Deserialize)]
struct PropertySpec {
    value: String,
}

/// The values of properties by name, each with the time of its read.
pub(super) type PropertyValues = Mutex<BTreeMap<String, (Instant, Option<String>)>>;

/// A cluster keeps its id for life, so a sync of single Services does not read it again for this time.
const STANDS: Duration = Duration::from_mins(1);

impl Kubernetes {
    /// The value of a `ClusterProperty`; `None` if there is none of this name, or no such API. The server must have been
    /// asked for the Multi-Cluster Services API before ([`Self::serves_multi_cluster`]).
    ///
    /// # Errors
    /// Returns an error on any other answer.
    pub async fn cluster_property(&self, name: &str) -> Result<Option<String>, Error> {
        let read = Instant::now();
        let mut versions = VERSIONS.into_iter();
        let value = match versions.find(|version| self.serves_beside(version)) {
            Some(version) => self.property(version, name).await?,
            None => None,
        };
        self.properties().insert(name.to_owned(), (read, value.clone()));
        Ok(value)
    }

    /// The same, as it was a moment ago if it was read then.
    ///
    /// # Errors
    /// As [`Self::cluster_property`].
    pub async fn recent_cluster_property(&self, name: &str) -> Result<Option<String>, Error> {
        let known = self.properties().get(name).cloned();
        match known.filter(|(read, _)| read.elapsed() < STANDS) {
            Some((_, value)) => Ok(value),
            None => self.cluster_property(name).await,
        }
    }

    fn properties(&self) -> MutexGuard<'_, BTreeMap<String, (Instant, Option<String>)>> {
        self.properties.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn property(&self, version: &str, name: &str) -> Result<Option<String>, Error> {
        let failed =
            |source| Error::new(format!("get ClusterProperty {name}"), source).of_multi_cluster();
        let path = format!("/apis/{version}/clusterproperties");
        let request = Request::new(path).get(name, &GetParams::default());
        let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
        match self.client.request::<FromObject<Property>>(request).await {
            Ok(FromObject(found)) => Ok(Some(found.spec.value)),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(source) => Err(failed(source)),
        }
    }
}
