//! Reads the exports of a cluster: its `ServiceExports`, then the Services of their names.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use kube::api::{GetParams, ListParams};
use kube::core::{Request, Status};
use serde::de::DeserializeOwned;

use super::client::CONCURRENCY;
use super::export_object::{ExportObject, ExportedServiceObject};
use super::list::{List, list_all};
use super::object::FromObject;
use super::resource::Resource;
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
