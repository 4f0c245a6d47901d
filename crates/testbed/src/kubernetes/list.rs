//! Lists with paging: every page of a list shows the revision of its first page, until that
//! revision is compacted and the continue token answers 410.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::resource::Resource;
use super::selector::Selector;
use super::status::Failure;
use super::store::{Key, Objects, Store, select};

/// The query parameters of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListParameters {
    /// Field selector.
    pub field_selector: String,
    /// Label selector.
    pub label_selector: String,
    /// Page size; zero for all.
    pub limit: usize,
    /// Token of the page before.
    pub r#continue: String,
    /// Revision that is new enough.
    pub resource_version: String,
    /// A watch instead of a list.
    pub watch: String,
}

/// The server's own form of a continue token (k8s.io/apiserver pkg/storage/continue.go), in
/// unpadded base64url.
#[derive(Serialize, Deserialize)]
struct ContinueToken {
    v: String,
    rv: i64,
    start: String,
}

/// Answers a list.
pub fn list(
    store: &mut Store,
    resource: &Resource,
    namespace: &str,
    parameters: &ListParameters,
    minor: u32,
) -> Result<Value, Failure> {
    let selector =
        Selector::parse(resource, &parameters.field_selector, &parameters.label_selector, minor)?;
    let (revision, objects, start) = position(store, resource, parameters)?;
    let mut matching = select(&objects, resource, namespace).filter(|(key, object)| {
        start.as_ref().is_none_or(|start| *key > start) && selector.matches(object)
    });
    // "Any revision will do" is answered from the watch cache, which knows no pages.
    let limit = match parameters.limit {
        0 => usize::MAX,
        _ if parameters.resource_version == "0" && parameters.r#continue.is_empty() => usize::MAX,
        limit => limit,
    };
    let page: Vec<_> = matching.by_ref().take(limit).collect();
    let remaining = matching.count();
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if let Some((last, _)) = page.last().filter(|_| remaining > 0) {
        metadata["continue"] = token(i64::try_from(revision).expect("a small number"), last).into();
        // Not told for filtered lists: the server would have to filter all that follows.
        if selector.is_empty() {
            metadata["remainingItemCount"] = remaining.into();
        }
        if store.at(revision).is_none() {
            store.keep_revision();
        }
    }
    Ok(json!({
        "kind": format!("{}List", resource.kind),
        "apiVersion": resource.api_version(),
        "metadata": metadata,
        "items": page.iter().map(|(_, object)| without_type(object)).collect::<Vec<_>>(),
    }))
}

/// Items of a list carry neither kind nor apiVersion.
fn without_type(object: &Value) -> Value {
    let mut item = object.clone();
    if let Some(members) = item.as_object_mut() {
        members.remove("kind");
        members.remove("apiVersion");
    }
    item
}

/// The revision to show and the key to start after.
fn position(
    store: &Store,
    resource: &Resource,
    parameters: &ListParameters,
) -> Result<(u64, Objects, Option<Key>), Failure> {
    if parameters.r#continue.is_empty() {
        let (revision, objects) = store.now();
        return Ok((revision, objects, None));
    }
    if !parameters.resource_version.is_empty() {
        let text = "specifying resource version is not allowed when using continue";
        return Err(Failure::bad_request(text));
    }
    let (revision, start) = read_token(resource, &parameters.r#continue)?;
    match u64::try_from(revision) {
        // Revision -1 goes on with what is there now.
        Err(_) => {
            let (revision, objects) = store.now();
            Ok((revision, objects, Some(start)))
        }
        Ok(kept) => match store.at(kept) {
            Some(objects) => Ok((kept, objects, Some(start))),
            None => Err(Failure::expired(token(-1, &start))),
        },
    }
}

fn token(revision: i64, last: &Key) -> String {
    let token = ContinueToken {
        v: "meta.k8s.io/v1".to_owned(),
        rv: revision,
        start: format!("{}/{}\0", last.1, last.2),
    };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).expect("a plain struct"))
}

fn read_token(resource: &Resource, text: &str) -> Result<(i64, Key), Failure> {
    let invalid = |why: &str| Failure::bad_request(format!("continue key is not valid: {why}"));
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| invalid(&error.to_string()))?;
    let token: ContinueToken =
        serde_json::from_slice(&bytes).map_err(|error| invalid(&error.to_string()))?;
    if token.v != "meta.k8s.io/v1" {
        return Err(invalid("server does not recognize this encoded version"));
    }
    let start = token.start.trim_end_matches('\0').split_once('/');
    let (namespace, name) = start.ok_or_else(|| invalid("encoded start key empty"))?;
    Ok((token.rv, Store::key(resource, namespace, name)))
}

/// The token that an expired one is answered with, made without the store knowing.
pub fn expire(resource: &Resource, text: &str) -> Failure {
    match read_token(resource, text) {
        Ok((_, start)) => Failure::expired(token(-1, &start)),
        Err(failure) => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::super::resource::SERVICES;
    use super::super::service::Headless;
    use super::*;

    fn page(store: &mut Store, token: &str) -> Result<Value, Failure> {
        let parameters =
            ListParameters { limit: 1, r#continue: token.to_owned(), ..ListParameters::default() };
        list(store, &SERVICES, "", &parameters, 33)
    }

    fn names(list: &Value) -> Vec<&str> {
        let items = list["items"].as_array().expect("items");
        items.iter().filter_map(|item| item["metadata"]["name"].as_str()).collect()
    }

    #[test]
    fn later_pages_show_the_first_page_s_revision_until_it_is_compacted() {
        let mut store = Store::new();
        for name in ["a", "b"] {
            store.put(&SERVICES, Headless::new("shop", name).build());
        }
        let first = page(&mut store, "").unwrap();
        let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
        store.remove(&SERVICES, "shop", "b");
        store.put(&SERVICES, Headless::new("shop", "c").build());

        let second = page(&mut store, &token).unwrap();
        store.compact();
        let gone = page(&mut store, &token).unwrap_err();
        let inconsistent = gone.status()["metadata"]["continue"].as_str().unwrap().to_owned();
        let resumed = page(&mut store, &inconsistent).unwrap();

        assert_eq!(
            (names(&first), names(&second), names(&resumed)),
            (vec!["a"], vec!["b"], vec!["c"])
        );
        assert_eq!((gone.code.as_u16(), &gone.status()["reason"]), (410, &json!("Expired")));
    }
}
