//! Lists with paging. A later page shows what is there when it is asked for: nothing that is tested here depends on the
//! older revision that a real server keeps for it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::resource::Resource;
use super::selector::Selector;
use super::status::Failure;
use super::store::{Key, Store, select};

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

/// Answers a list.
pub fn list(
    store: &Store,
    resource: &Resource,
    namespace: &str,
    parameters: &ListParameters,
    minor: u32,
) -> Result<Value, Failure> {
    let selector =
        Selector::parse(resource, &parameters.field_selector, &parameters.label_selector, minor)?;
    let ((revision, objects), start) = (store.now(), start_after(resource, parameters)?);
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
        let (_, namespace, name) = last;
        metadata["continue"] = URL_SAFE_NO_PAD.encode(format!("{namespace}/{name}")).into();
        // Not told for filtered lists: the server would have to filter all that follows.
        if selector.is_empty() {
            metadata["remainingItemCount"] = remaining.into();
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

/// The key to start after.
fn start_after(resource: &Resource, parameters: &ListParameters) -> Result<Option<Key>, Failure> {
    if parameters.r#continue.is_empty() {
        return Ok(None);
    }
    if !parameters.resource_version.is_empty() {
        let text = "specifying resource version is not allowed when using continue";
        return Err(Failure::bad_request(text));
    }
    let invalid = |why: &str| Failure::bad_request(format!("continue key is not valid: {why}"));
    let bytes = URL_SAFE_NO_PAD.decode(&parameters.r#continue);
    let start = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let start = start.ok_or_else(|| invalid("not one of this server"))?;
    let (namespace, name) = start.split_once('/').ok_or_else(|| invalid("without a key"))?;
    Ok(Some(Store::key(resource, namespace, name)))
}
