//! Lists, reads and writes Kubernetes objects as JSON: the objects of an import, and the status of an export. The
//! caller chooses the fields; this module knows paths. It also creates Events on Services, ServiceExports and
//! ServiceImports.
//!
//! All pages of a list are read, or the read fails: a partial list must never reach the plan, which would take the
//! missing objects for deleted ones. Only the needed fields of each page are kept in memory.
//!
//! A change is a JSON merge patch. The caller puts the `resourceVersion` that it read into the patch, so the server
//! refuses a stale change (409). Only the status of a `ServiceExport` is written by server-side apply, since other
//! controllers may keep conditions there.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Error as RequestError;
use kube::api::{
    Api, DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions,
};
use kube::core::{Request, Status};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::object::{FromObject, null_is_empty};
use super::remembered::recent;
use super::{Error, Kubernetes};
use crate::model::{Kind, Notice, ObjectRef, REPORTER, ServiceRef, SignedDuration, Timestamp};

/// The number of objects in a page.
const PER_PAGE: u32 = 500;
/// How often a list is restarted after its continue token has expired.
const MAX_RESTARTS: usize = 3;
/// The field manager of this function's writes.
const MANAGER: &str = "cloud-map-sync";

/// Returns the path of all objects of a kind, or of those in one namespace.
fn path(kind: Kind, namespace: Option<&str>) -> String {
    let api = if kind.group().is_empty() { "api" } else { "apis" };
    let within = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
    format!("/{api}/{}{within}/{}", kind.api_version(), kind.plural())
}

/// Returns the object's name for messages.
fn noun(ObjectRef { kind, namespace, name }: &ObjectRef) -> String {
    format!("{} {namespace}/{name}", kind.plural())
}

/// A request for a list.
pub(super) struct List<'a> {
    pub kind: Kind,
    /// `None`: all namespaces.
    pub namespace: Option<&'a str>,
    /// The selectors.
    pub params: ListParams,
    pub page: u32,
    /// The noun for error messages.
    pub name: &'a str,
}

impl<'a> List<'a> {
    pub fn all(kind: Kind, namespace: Option<&'a str>, name: &'a str) -> Self {
        Self { kind, namespace, params: ListParams::default(), page: PER_PAGE, name }
    }
}

/// A page of a list. `items` is required: a reply without it must not be read as an empty list.
#[derive(Deserialize)]
struct Page<K> {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(deserialize_with = "null_is_empty", bound(deserialize = "K: Deserialize<'de>"))]
    items: Vec<K>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PageMetadata {
    r#continue: Option<String>,
}

impl Kubernetes {
    /// Reads a list and maps each object by `keep`, which may drop it. The resource version is not set, so that the
    /// server returns its most recent state.
    pub(super) async fn list<K: DeserializeOwned, T>(
        &self,
        list: &List<'_>,
        keep: impl Fn(K) -> Option<T>,
    ) -> Result<Vec<T>, Error> {
        self.fold(list, |kept: &mut Vec<T>, object| kept.extend(keep(object))).await
    }

    /// Reads a list and folds its objects with `add`. If the list is restarted, the fold starts again from the default
    /// value.
    pub(super) async fn fold<K: DeserializeOwned, A: Default>(
        &self,
        list: &List<'_>,
        add: impl Fn(&mut A, K),
    ) -> Result<A, Error> {
        let read = async {
            let mut restarts = 0;
            loop {
                match self.fold_once(list, &add).await {
                    // 410: the server has compacted the revision of the token. The token that it offers would mix two
                    // revisions, so the list is restarted.
                    Err(RequestError::Api(status))
                        if status.code == 410 && restarts < MAX_RESTARTS =>
                    {
                        restarts += 1;
                    }
                    folded => return folded,
                }
            }
        };
        self.in_time(|| format!("list {}", list.name), read).await
    }

    async fn fold_once<K: DeserializeOwned, A: Default>(
        &self,
        list: &List<'_>,
        add: &impl Fn(&mut A, K),
    ) -> Result<A, RequestError> {
        let path = path(list.kind, list.namespace);
        let mut params = ListParams { limit: Some(list.page), ..list.params.clone() };
        let mut folded = A::default();
        loop {
            let FromObject::<Page<K>>(page) =
                self.send(Request::new(path.as_str()).list(&params)).await?;
            page.items.into_iter().for_each(|object| add(&mut folded, object));
            match page.metadata.r#continue.filter(|token| !token.is_empty()) {
                None => return Ok(folded),
                next if next == params.continue_token => {
                    let status = Status::failure("the list repeats itself", "ListLoop");
                    return Err(RequestError::Api(status.boxed()));
                }
                next => params.continue_token = next,
            }
        }
    }

    /// Reads all objects of a kind with these labels, in all namespaces.
    ///
    /// # Errors
    /// Returns an error if a page could not be read.
    pub async fn objects(&self, kind: Kind, labels: &str) -> Result<Vec<Value>, Error> {
        self.objects_as((kind, None), labels, |object| object).await
    }

    /// Reads the objects of a kind with these labels in one namespace, or in all if it is `None`. Only `part` of each
    /// object is kept in memory.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Self::objects`].
    pub async fn objects_as<T>(
        &self,
        (kind, namespace): (Kind, Option<&str>),
        labels: &str,
        part: impl Fn(Value) -> T,
    ) -> Result<Vec<T>, Error> {
        let name = format!("the {}", kind.plural());
        let mut list = List::all(kind, namespace, &name);
        list.params.label_selector = (!labels.is_empty()).then(|| labels.to_owned());
        let listed = self.list(&list, |object| Some(part(object))).await;
        listed.map_err(Error::about_multi_cluster)
    }

    /// Whether the cluster has an object of a kind with these labels, in any namespace.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Self::objects`].
    pub async fn has_objects(&self, kind: Kind, labels: &str) -> Result<bool, Error> {
        Ok(!self.objects_as((kind, None), labels, drop).await?.is_empty())
    }

    /// Gets one object; `None` if `is_absent` is true for the server's error.
    pub(super) async fn get<K: DeserializeOwned>(
        &self,
        path: &str,
        name: &str,
        noun: &str,
        is_absent: fn(&Status) -> bool,
    ) -> Result<Option<K>, Error> {
        let read = async {
            match self.send(Request::new(path).get(name, &GetParams::default())).await {
                Ok(FromObject(found)) => Ok(Some(found)),
                Err(RequestError::Api(status)) if is_absent(&status) => Ok(None),
                Err(error) => Err(error),
            }
        };
        self.in_time(|| format!("get {noun}"), read).await
    }

    /// Gets the object of a reference. Returns `None` without a request if Kubernetes accepts no object of this name.
    pub(super) async fn get_of<K: DeserializeOwned>(
        &self,
        kind: Kind,
        object: &ServiceRef,
        is_absent: fn(&Status) -> bool,
    ) -> Result<Option<K>, Error> {
        if !object.can_exist() {
            return Ok(None);
        }
        let path = path(kind, Some(&object.namespace));
        self.get(&path, &object.name, &format!("{kind} {object}"), is_absent).await
    }

    /// Gets one object; `None` if it does not exist.
    ///
    /// # Errors
    /// Returns an error on any other answer, also if the kind is not served.
    pub async fn object(&self, object: &ObjectRef) -> Result<Option<Value>, Error> {
        let path = path(object.kind, Some(&object.namespace));
        let read = self.get(&path, &object.name, &noun(object), is_absent).await;
        read.map_err(Error::about_multi_cluster)
    }

    /// Gets a namespace; `None` if it does not exist.
    ///
    /// # Errors
    /// Returns an error on any other answer.
    pub async fn namespace(&self, name: &str) -> Result<Option<Value>, Error> {
        let path = path(Kind::Namespace, None);
        let noun = format!("namespace {name}");
        let read = self.get(&path, name, &noun, Status::is_not_found).await;
        read.map_err(Error::about_multi_cluster)
    }

    /// Creates an object, and returns it as the API server stored it.
    ///
    /// # Errors
    /// Returns an error if the server refuses it, also if it exists (409).
    pub async fn create_object(&self, object: &ObjectRef, body: &Value) -> Result<Value, Error> {
        let params =
            PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        self.write("create", object, |request| {
            request.create(&params, body.to_string().into_bytes())
        })
        .await
    }

    /// Checks by a dry run whether the server would create an object. Nothing is stored.
    ///
    /// # Errors
    /// Returns an error if the server would refuse it.
    pub async fn try_creation(&self, object: &ObjectRef, body: &Value) -> Result<(), Error> {
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let create = |request: Request| request.create(&params, body.to_string().into_bytes());
        self.write("try to create", object, create).await.map(drop)
    }

    /// Changes an object by a merge patch, and returns it.
    ///
    /// # Errors
    /// Returns an error if the server refuses it, also if the object has changed since it was read (409).
    pub async fn patch_object(&self, object: &ObjectRef, patch: &Value) -> Result<Value, Error> {
        let patch = Patch::Merge(patch);
        self.write("patch", object, |request| request.patch(&object.name, &patch_params(), &patch))
            .await
    }

    /// Changes the status of an object by a merge patch, and returns the object.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Self::patch_object`].
    pub async fn patch_status(&self, object: &ObjectRef, patch: &Value) -> Result<Value, Error> {
        let patch = Patch::Merge(patch);
        let change = |request: Request| {
            request.patch_subresource("status", &object.name, &patch_params(), &patch)
        };
        self.write("patch the status of", object, change).await
    }

    /// Writes our part of the status of an object by server-side apply. Fields of other managers stay.
    ///
    /// # Errors
    /// Returns an error if the server refuses it.
    pub async fn apply_status(&self, object: &ObjectRef, body: &Value) -> Result<(), Error> {
        let params = patch_params().force();
        let patch = Patch::Apply(body);
        let apply =
            |request: Request| request.patch_subresource("status", &object.name, &params, &patch);
        self.write("apply the status of", object, apply).await.map(drop)
    }

    /// Deletes an object if it still has this UID and this resource version. An object that is already gone is no
    /// error.
    ///
    /// # Errors
    /// Returns an error if the server refuses the deletion, also if the object was recreated or has changed (409).
    pub async fn delete_object(
        &self,
        object: &ObjectRef,
        uid: &str,
        version: &str,
    ) -> Result<(), Error> {
        let preconditions =
            Preconditions { uid: Some(uid.to_owned()), resource_version: Some(version.to_owned()) };
        let params = DeleteParams::background().preconditions(preconditions);
        match self.write("delete", object, |request| request.delete(&object.name, &params)).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    async fn write(
        &self,
        verb: &str,
        object: &ObjectRef,
        request: impl FnOnce(Request) -> BuiltRequest,
    ) -> Result<Value, Error> {
        let path = path(object.kind, Some(&object.namespace));
        let written = self.send(request(Request::new(path))).await;
        let failed = |error| Error::new(format!("{verb} {}", noun(object)), error);
        written.map_err(|error| failed(error).about_multi_cluster())
    }

    async fn send<T: DeserializeOwned>(&self, request: BuiltRequest) -> Result<T, RequestError> {
        self.client.request(request.map_err(RequestError::BuildRequest)?).await
    }
}

/// Whether a 404 is about the object. If the server does not serve the kind, the 404 is about the path and has no
/// details.
pub(super) fn is_absent(status: &Status) -> bool {
    let has_name = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
    status.is_not_found() && has_name
}

type BuiltRequest = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}

// Events are optional, so a refused one does not fail the run.

/// How long a process does not create the same Event again. The API server deletes Events after about an hour. If the
/// notice still applies then, the next run creates a new Event.
const REPEAT_AFTER: SignedDuration = SignedDuration::from_mins(15);

impl Kubernetes {
    /// Records a refusal of Events, and returns whether it is the first within `REPEAT_AFTER` in this process. A
    /// cluster in which the function may not create Events refuses them in every run.
    pub fn record_refusal(&self) -> bool {
        let now = Timestamp::now();
        let mut events = recent(&self.remembered.events, now, REPEAT_AFTER);
        let is_first = !events.contains_key("refused");
        if is_first {
            events.insert("refused".to_owned(), now);
        }
        is_first
    }

    /// Creates the Event of a notice if it does not exist. After a permanent refusal, an Event is tried again after
    /// `REPEAT_AFTER`.
    ///
    /// # Errors
    /// Returns an error if the cluster refuses it.
    pub async fn create_event(&self, notice: &Notice) -> Result<(), Error> {
        let name = notice.name();
        let now = Timestamp::now();
        let key = format!("{}/{name}", notice.service.namespace);
        if recent(&self.remembered.events, now, REPEAT_AFTER).contains_key(&key) {
            return Ok(());
        }
        let api: Api<Event> = Api::namespaced(self.client.clone(), &notice.service.namespace);
        let action =
            || format!("create an Event about {} {}", notice.about.as_str(), notice.service);
        let created = match api.create(&PostParams::default(), &event(name, notice)).await {
            // 409: the Event exists.
            Err(RequestError::Api(status)) if status.code == 409 => Ok(()),
            created => created.map(drop).map_err(|error| Error::new(action(), error)),
        };
        if created.as_ref().err().is_none_or(Error::is_permanent) {
            recent(&self.remembered.events, now, REPEAT_AFTER).insert(key, now);
        }
        created
    }
}

fn event(name: String, notice: &Notice) -> Event {
    let namespace = Some(notice.service.namespace.clone());
    Event {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: namespace.clone(),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(Timestamp::now())),
        regarding: Some(ObjectReference {
            api_version: Some(notice.about.api_version().to_owned()),
            kind: Some(notice.about.as_str().to_owned()),
            namespace,
            name: Some(notice.service.name.clone()),
            uid: Some(notice.uid.clone()),
            ..ObjectReference::default()
        }),
        type_: Some(notice.tone.as_str().to_owned()),
        reason: Some(notice.line.code.to_string()),
        note: Some(notice.line.text.clone()),
        action: Some("Sync".to_owned()),
        reporting_controller: Some(REPORTER.to_owned()),
        reporting_instance: Some("cloud-map-sync".to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::remembered::Times;
    use super::*;

    #[test]
    fn an_event_is_not_created_again_for_a_quarter_of_an_hour() {
        let events = Times::default();
        let now = Timestamp::UNIX_EPOCH;
        let has = |name: &str, now| recent(&events, now, REPEAT_AFTER).contains_key(name);
        assert!(!has("shop/web.1", now));
        recent(&events, now, REPEAT_AFTER).insert("shop/web.1".to_owned(), now);
        assert!(has("shop/web.1", now) && !has("shop/web.2", now));
        assert!(!has("shop/web.1", now + REPEAT_AFTER));
    }
}
