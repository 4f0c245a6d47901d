//! Lists one resource to the end or fails. A partial list must never reach the plan: what is missing
//! from it would be deregistered. Of each page only what is asked for is kept.

use kube::api::ListParams;
use kube::core::{Request, Status};
use kube::{Client, Error as Cause};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::Error;
use super::object::FromObject;

/// How often a list is begun again after its continue token expired.
const RESTARTS: usize = 3;

/// Which list to ask for.
pub struct List<'a> {
    /// Its path.
    pub path: &'a str,
    /// What it is narrowed to.
    pub params: ListParams,
    /// How many objects to ask for at a time.
    pub page: u32,
    /// What it is called in an error.
    pub what: &'a str,
}

/// A page. One without items is none, for an empty list would say that everything is gone.
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

/// What `keep` makes of every object of a list. The resource version is left unset, so that the server
/// answers with its most recent state.
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
            // 410: the token is older than what the server keeps. Going on with the one it offers
            // would mix two states, so the list begins anew.
            Err(Cause::Api(status)) if status.code == 410 && restarts < RESTARTS => restarts += 1,
            Err(source) => return Err(Error::new(format!("list {}", list.what), source)),
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

/// An empty list may come as null.
fn items<'de, D, K>(deserializer: D) -> Result<Vec<K>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
