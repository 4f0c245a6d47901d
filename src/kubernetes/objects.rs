//! Objects as JSON: lists, and the writes of an import and of an export's status. The caller decides on the fields; this
//! module knows paths and preconditions.
//!
//! A change is a JSON merge patch with the `resourceVersion` that was read, so a stale one is refused (409). Only the
//! status of a `ServiceExport` is applied, since other controllers may keep conditions there.

use kube::api::{
    DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions,
};
use kube::core::Request;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::list::{List, list_all};
use super::{Error, Kubernetes};

pub use super::list::{Named, Resource};

const PER_PAGE: u32 = 500;
/// The manager in the managed fields of what this function writes.
const MANAGER: &str = "cloud-map-sync";

impl Kubernetes {
    /// All objects of a resource with these labels, in all namespaces.
    ///
    /// # Errors
    /// Returns an error if a page could not be read.
    pub async fn objects(&self, resource: Resource, labels: &str) -> Result<Vec<Value>, Error> {
        self.objects_as(resource, labels, |it| it).await
    }

    /// The same, and of each object only this part is kept in memory.
    ///
    /// # Errors
    /// As [`Self::objects`].
    pub async fn objects_as<T>(
        &self,
        resource: Resource,
        labels: &str,
        part: impl Fn(Value) -> T,
    ) -> Result<Vec<T>, Error> {
        self.list_objects(resource, &resource.path(), labels, part).await
    }

    /// The same in one namespace.
    ///
    /// # Errors
    /// As [`Self::objects`].
    pub async fn objects_in(
        &self,
        resource: Resource,
        namespace: &str,
        labels: &str,
    ) -> Result<Vec<Value>, Error> {
        self.list_objects(resource, &resource.path_in(namespace), labels, |it| it).await
    }

    /// Whether the whole cluster has any.
    ///
    /// # Errors
    /// As [`Self::objects`].
    pub async fn has_objects(&self, resource: Resource, labels: &str) -> Result<bool, Error> {
        Ok(!self.objects_as(resource, labels, drop).await?.is_empty())
    }

    async fn list_objects<T>(
        &self,
        resource: Resource,
        path: &str,
        labels: &str,
        part: impl Fn(Value) -> T,
    ) -> Result<Vec<T>, Error> {
        let params = ListParams::default();
        let params = if labels.is_empty() { params } else { params.labels(labels) };
        let name = format!("the {}", resource.plural());
        let list = List { path, params, page: PER_PAGE, name: &name };
        let listed = list_all(&self.client, &list, |object| Some(part(object))).await;
        listed.map_err(Error::of_multi_cluster)
    }

    /// One object; `None` if it does not exist.
    ///
    /// # Errors
    /// Returns an error on any other answer.
    pub async fn object(&self, object: Named<'_>) -> Result<Option<Value>, Error> {
        let request = Request::new(object.path()).get(object.name, &GetParams::default());
        match self.send(request).await {
            Ok(found) => Ok(Some(found)),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(object.failed("get", error)),
        }
    }

    /// A namespace; `None` if it does not exist.
    ///
    /// # Errors
    /// Returns an error on any other answer.
    pub async fn namespace(&self, name: &str) -> Result<Option<Value>, Error> {
        let failed = |error| Error::new(format!("get namespace {name}"), error).of_multi_cluster();
        let request = Request::new("/api/v1/namespaces").get(name, &GetParams::default());
        match self.send(request).await {
            Ok(found) => Ok(Some(found)),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Whether the installed CRD of ServiceImports has `status.endpointSliceObjects`: a field that it does not declare
    /// is dropped from a patch. Asked again after five minutes, and each time until the answer is yes: definitions may
    /// be replaced by others.
    ///
    /// # Errors
    /// Returns an error if the document cannot be read.
    pub async fn declares_slice_objects(&self) -> Result<bool, Error> {
        let read = || async {
            let path = "/openapi/v3/apis/multicluster.x-k8s.io/v1beta1";
            let failed = |error| Error::new("read the schema of ServiceImports", error);
            let request = http::Request::get(path).body(Vec::new());
            let request = request.map_err(|error| failed(kube::Error::HttpError(error)))?;
            let text = self.client.request_text(request).await.map_err(failed)?;
            Ok(text.contains("\"endpointSliceObjects\""))
        };
        if self.slice_objects.is_recent() {
            return Ok(true);
        }
        let declares = read().await?;
        self.slice_objects.set(declares.then_some(()));
        Ok(declares)
    }

    /// Creates an object, and returns it as the API server stored it.
    ///
    /// # Errors
    /// Returns an error if the server refuses it, also if it exists (409).
    pub async fn create_object(&self, object: Named<'_>, body: &Value) -> Result<Value, Error> {
        let params =
            PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let request = Request::new(object.path()).create(&params, body.to_string().into_bytes());
        self.send(request).await.map_err(|error| object.failed("create", error))
    }

    /// Asks whether an object would be created: all is checked, and nothing is stored.
    ///
    /// # Errors
    /// Returns an error if the server would refuse it.
    pub async fn try_creation(&self, object: Named<'_>, body: &Value) -> Result<(), Error> {
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let request = Request::new(object.path()).create(&params, body.to_string().into_bytes());
        let tried = self.send::<Value>(request).await;
        tried.map(drop).map_err(|error| object.failed("try to create", error))
    }

    /// Changes an object by a merge patch, and returns it.
    ///
    /// # Errors
    /// Returns an error if the server refuses it, also if the object has changed since it was read (409).
    pub async fn patch_object(&self, object: Named<'_>, patch: &Value) -> Result<Value, Error> {
        let request =
            Request::new(object.path()).patch(object.name, &by_us(), &Patch::Merge(patch));
        self.send(request).await.map_err(|error| object.failed("patch", error))
    }

    /// Changes the status of an object by a merge patch, and returns the object.
    ///
    /// # Errors
    /// As [`Self::patch_object`].
    pub async fn patch_status(&self, object: Named<'_>, patch: &Value) -> Result<Value, Error> {
        let request = Request::new(object.path());
        let request =
            request.patch_subresource("status", object.name, &by_us(), &Patch::Merge(patch));
        self.send(request).await.map_err(|error| object.failed("patch the status of", error))
    }

    /// Applies our part of the status of an object. Fields of other managers stay.
    ///
    /// # Errors
    /// Returns an error if the server refuses it.
    pub async fn apply_status(&self, object: Named<'_>, body: &Value) -> Result<(), Error> {
        let request = Request::new(object.path());
        let params = by_us().force();
        let request =
            request.patch_subresource("status", object.name, &params, &Patch::Apply(body));
        let applied = self.send::<Value>(request).await;
        applied.map(drop).map_err(|error| object.failed("apply the status of", error))
    }

    /// Deletes this very object in this very version. One that is gone is no error.
    ///
    /// # Errors
    /// Returns an error if the server refuses it, also if the object is another one or has changed (409).
    pub async fn delete_object(
        &self,
        object: Named<'_>,
        uid: &str,
        version: &str,
    ) -> Result<(), Error> {
        let preconditions =
            Preconditions { uid: Some(uid.to_owned()), resource_version: Some(version.to_owned()) };
        let params = DeleteParams::background().preconditions(preconditions);
        let request = Request::new(object.path()).delete(object.name, &params);
        match self.send::<Value>(request).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(object.failed("delete", error)),
        }
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, kube::Error> {
        self.client.request(request.map_err(kube::Error::BuildRequest)?).await
    }
}

fn by_us() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}
