//! Reads all pages of a list, or fails. A partial list must never reach the plan, which would deregister the missing
//! objects. Only the needed fields of each page are kept in memory.

use kube::api::ListParams;
use kube::core::{Request, Status};
use kube::{Client, Error as Cause};
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
            Err(Cause::Api(status)) if status.code == 410 && restarts < MAX_RESTARTS => {
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
) -> Result<Vec<T>, Cause>
where
    K: DeserializeOwned,
{
    let mut params = list.params.clone();
    params.limit = Some(list.page);
    let mut kept = Vec::new();
    loop {
        let request = Request::new(list.path).list(&params).map_err(Cause::BuildRequest)?;
        let FromObject::<Page<K>>(page) = client.request(request).await?;
        kept.extend(page.items.into_iter().filter_map(keep));
        let next = page.metadata.r#continue.filter(|token| !token.is_empty());
        if next.is_some() && next == params.continue_token {
            let status = Status::failure("the list repeats itself", "ListLoop");
            return Err(Cause::Api(status.boxed()));
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
