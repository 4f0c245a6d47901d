//! Lists one resource to the end or fails. A partial list must never reach the plan: what is missing
//! from it would be deregistered.

use std::fmt::Debug;

use kube::api::{Api, ListParams};
use kube::{Error as Cause, Resource};
use serde::de::DeserializeOwned;

use super::Error;

/// How many objects to ask for at a time.
const PAGE: u32 = 500;
/// How often a list is begun again after its continue token expired.
const RESTARTS: usize = 3;

/// Every object of `api` that `params` select. The resource version is left unset, so that the server
/// answers with its most recent state.
pub async fn list_all<K>(api: &Api<K>, params: ListParams, what: &str) -> Result<Vec<K>, Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let mut restarts = 0;
    loop {
        match list_once(api, params.clone()).await {
            // 410: the token is older than what the server keeps. Going on with the one it offers
            // would mix two states, so the list begins anew.
            Err(Cause::Api(status)) if status.code == 410 && restarts < RESTARTS => restarts += 1,
            Err(source) => return Err(Error::new(format!("list {what}"), source)),
            Ok(items) => return Ok(items),
        }
    }
}

async fn list_once<K>(api: &Api<K>, mut params: ListParams) -> Result<Vec<K>, Cause>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    params.limit = Some(PAGE);
    let mut items = Vec::new();
    loop {
        let page = api.list(&params).await?;
        items.extend(page.items);
        let next = page.metadata.continue_.filter(|token| !token.is_empty());
        if next.is_some() && next == params.continue_token {
            let status = kube::core::Status::failure("the list repeats itself", "ListLoop");
            return Err(Cause::Api(status.boxed()));
        }
        match next {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(items),
        }
    }
}
