//! The kinds of objects that are read or written as JSON, with the paths of their requests, and their lists.
//!
//! All pages of a list are read, or the read fails: a partial list must never reach the plan, which would deregister the
//! missing objects. Only the needed fields of each page are kept in memory.

use kube::api::ListParams;
use kube::core::{Request, Status};
use kube::{Client, Error as RequestCause};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::Error;
use super::object::FromObject;

/// How often a list is restarted after its continue token has expired.
const MAX_RESTARTS: usize = 3;

/// The request of a list.
pub struct List<'a> {
    pub path: &'a str,
    /// The selectors.
    pub params: ListParams,
    /// The number of objects of a page.
    pub page: u32,
    /// The noun for error messages.
    pub name: &'a str,
}

/// A page of a list. `items` is required: a reply without it must not be read as an empty list.
#[derive(Deserialize)]
struct Page<K> {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(deserialize_with = "items", bound(deserialize = "K: Deserialize<'de>"))]
    items: Vec<K>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PageMetadata {
    r#continue: Option<String>,
}

/// Reads a list and maps each object by `keep`, which may drop it. The resource version is not set, so that the server
/// returns its most recent state.
pub async fn list_all<K, T>(
    client: &Client,
    list: &List<'_>,
    keep: impl Fn(K) -> Option<T>,
) -> Result<Vec<T>, Error>
where
    K: DeserializeOwned,
{
    let mut restarts = 0;
    loop {
        match list_once(client, list, &keep).await {
            // 410: the server has compacted the revision of the token. The token that it offers would mix two
            // revisions, so the list is restarted.
            Err(RequestCause::Api(status)) if status.code == 410 && restarts < MAX_RESTARTS => {
                restarts += 1;
            }
            Err(source) => return Err(Error::new(format!("list {}", list.name), source)),
            Ok(items) => return Ok(items),
        }
    }
}

async fn list_once<K, T>(
    client: &Client,
    list: &List<'_>,
    keep: &impl Fn(K) -> Option<T>,
) -> Result<Vec<T>, RequestCause>
where
    K: DeserializeOwned,
{
    let mut params = list.params.clone();
    params.limit = Some(list.page);
    let mut kept = Vec::new();
    loop {
        let request = Request::new(list.path).list(&params).map_err(RequestCause::BuildRequest)?;
        let FromObject::<Page<K>>(page) = client.request(request).await?;
        kept.extend(page.items.into_iter().filter_map(keep));
        let next = page.metadata.r#continue.filter(|token| !token.is_empty());
        if next.is_some() && next == params.continue_token {
            let status = Status::failure("the list repeats itself", "ListLoop");
            return Err(RequestCause::Api(status.boxed()));
        }
        match next {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(kept),
        }
    }
}

/// An empty list may be null.
fn items<'de, D, K>(deserializer: D) -> Result<Vec<K>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A kind of object that is read or written as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    Namespaces,
    Services,
    EndpointSlices,
    ServiceImports,
    ServiceExports,
}

/// An object, for the paths and messages of its requests.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    pub resource: Resource,
    pub namespace: &'a str,
    pub name: &'a str,
}

impl Resource {
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Services => "services",
            Self::EndpointSlices => "endpointslices",
            Self::ServiceImports => "serviceimports",
            Self::ServiceExports => "serviceexports",
        }
    }

    fn api(self) -> &'static str {
        match self {
            Self::Namespaces | Self::Services => "/api/v1",
            Self::EndpointSlices => "/apis/discovery.k8s.io/v1",
            Self::ServiceImports | Self::ServiceExports => "/apis/multicluster.x-k8s.io/v1beta1",
        }
    }
}

impl Resource {
    /// The path of all objects.
    pub(super) fn path(self) -> String {
        format!("{}/{}", self.api(), self.plural())
    }

    /// The path of the objects of a namespace.
    pub(super) fn path_in(self, namespace: &str) -> String {
        format!("{}/namespaces/{namespace}/{}", self.api(), self.plural())
    }
}

impl Named<'_> {
    /// The path of the objects beside it.
    pub(super) fn path(&self) -> String {
        self.resource.path_in(self.namespace)
    }

    pub(super) fn failed(&self, verb: &str, error: kube::Error) -> Error {
        let Self { resource, namespace, name } = self;
        let action = format!("{verb} {} {namespace}/{name}", resource.plural());
        Error::new(action, error).of_multi_cluster()
    }
}
