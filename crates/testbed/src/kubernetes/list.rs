//! Lists with paging. A later page shows what is there when it is asked for: nothing that is tested here depends on the
//! older revision that a real server keeps for it.
//!
//! Field and label selectors. Both are parsed before a list is made; an invalid one is a 400 with the error message of
//! a real server.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::resource::{Resource, SERVICES};
use super::status::Failure;
use super::store::{Key, Store, select};

/// The query parameters of a list or of a write.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Parameters {
    pub field_selector: String,
    pub label_selector: String,
    /// Page size; zero for all.
    pub limit: usize,
    /// Token of the page before.
    pub r#continue: String,
    /// Revision that is new enough.
    pub resource_version: String,
    /// A watch instead of a list.
    pub watch: String,
    pub field_manager: String,
    pub dry_run: String,
}

/// Answers a list.
pub fn list(
    store: &Store,
    resource: &Resource,
    namespace: &str,
    parameters: &Parameters,
    minor: u32,
) -> Result<Value, Failure> {
    let selector =
        Selector::parse(resource, &parameters.field_selector, &parameters.label_selector, minor)?;
    let (revision, objects) = store.now();
    let start = start_after(resource, parameters)?;
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
        // Absent from filtered lists: the server would have to filter all that follows.
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
fn start_after(resource: &Resource, parameters: &Parameters) -> Result<Option<Key>, Failure> {
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

/// The selectors of one list.
#[derive(Debug, Default)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Debug)]
struct Requirement {
    source: Source,
    key: String,
    test: Test,
}

#[derive(Debug)]
enum Source {
    Field,
    Label,
}

#[derive(Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    Not(String),
    Exists,
}

impl Selector {
    /// Reads both selectors; `minor` is the server's version 1.<minor>.
    pub fn parse(
        resource: &Resource,
        fields: &str,
        labels: &str,
        minor: u32,
    ) -> Result<Self, Failure> {
        let mut requirements = Vec::new();
        for term in fields.split(',').filter(|term| !term.is_empty()) {
            requirements.push(field_requirement(resource, fields, term, minor)?);
        }
        for term in label_terms(labels) {
            requirements.push(label_requirement(&term)?);
        }
        Ok(Self { requirements })
    }

    /// Whether everything matches.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether the object meets every requirement.
    pub fn matches(&self, object: &Value) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(object))
    }
}

impl Requirement {
    fn matches(&self, object: &Value) -> bool {
        let value = match self.source {
            Source::Field => {
                let path = format!("/{}", self.key.replace('.', "/"));
                Some(object.pointer(&path).and_then(Value::as_str).unwrap_or_default())
            }
            Source::Label => object["metadata"]["labels"].get(&self.key).and_then(Value::as_str),
        };
        match &self.test {
            Test::In(values) => {
                value.is_some_and(|value| values.iter().any(|known| known == value))
            }
            // An object without the label meets "!=".
            Test::Not(other) => value != Some(other.as_str()),
            Test::Exists => value.is_some(),
        }
    }
}

fn field_requirement(
    resource: &Resource,
    all: &str,
    term: &str,
    minor: u32,
) -> Result<Requirement, Failure> {
    let (key, test) = comparison(term).ok_or_else(|| {
        Failure::bad_request(format!("invalid selector: '{all}'; can't understand '{term}'"))
    })?;
    check_field(resource, &key, minor)?;
    Ok(Requirement { source: Source::Field, key, test })
}

/// Services can be selected by spec.clusterIP since 1.31 (kubernetes/kubernetes pull request 123905).
fn check_field(resource: &Resource, key: &str, minor: u32) -> Result<(), Failure> {
    let is_of_services = *resource == SERVICES && minor >= 31 && key == "spec.clusterIP";
    if is_of_services || matches!(key, "metadata.name" | "metadata.namespace") {
        return Ok(());
    }
    Err(Failure::bad_request(format!("field label not supported: {key}")))
}

/// `a=b` and `a!=b`
fn comparison(term: &str) -> Option<(String, Test)> {
    let (key, test) = match term.split_once("!=") {
        Some((key, value)) => (key, Test::Not(value.to_owned())),
        None => term.split_once('=').map(|(key, value)| (key, Test::In(vec![value.to_owned()])))?,
    };
    Some((key.to_owned(), test))
}

/// Commas inside the parentheses of `in (a,b)` do not end a term.
fn label_terms(selector: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut inside = false;
    for character in selector.chars() {
        inside = if inside { character != ')' } else { character == '(' };
        match character {
            ',' if !inside => terms.push(String::new()),
            _ => terms.last_mut().expect("never empty").push(character),
        }
    }
    terms.iter().map(|term| term.trim().to_owned()).filter(|term| !term.is_empty()).collect()
}

/// The forms that the function sends: `a`, `a=b`, `a!=b` and `a in (b,c)`. Every other one is refused.
fn label_requirement(term: &str) -> Result<Requirement, Failure> {
    let found = set_test(term).or_else(|| comparison(term));
    let (key, test) = found.unwrap_or_else(|| (term.to_owned(), Test::Exists));
    let legal = |text: &str| {
        text.chars()
            .all(|character| character.is_ascii_alphanumeric() || "-_./".contains(character))
    };
    let values = match &test {
        Test::In(values) => values.as_slice(),
        Test::Not(other) => std::slice::from_ref(other),
        Test::Exists => &[],
    };
    if key.is_empty()
        || !legal(&key)
        || !values.iter().all(|value| legal(value) && !value.contains('/'))
    {
        return Err(Failure::bad_request(format!(
            "unable to parse requirement: found '{term}', expected: identifier"
        )));
    }
    Ok(Requirement { source: Source::Label, key, test })
}

/// `a in (b,c)`
fn set_test(term: &str) -> Option<(String, Test)> {
    let (key, values) = term.strip_suffix(')')?.split_once(" in (")?;
    let values = values.split(',').map(ToOwned::to_owned).collect();
    Some((key.to_owned(), Test::In(values)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::resource::ENDPOINT_SLICES;
    use super::*;

    #[test]
    fn label_selectors_match_as_the_server_does() {
        let object =
            json!({"metadata": {"labels": {"app": "web", "kubernetes.io/service-name": "web"}}});
        for (selector, expected) in [
            ("kubernetes.io/service-name=web", true),
            ("kubernetes.io/service-name in (api,web),app", true),
            ("kubernetes.io/service-name in (api)", false),
            ("tier!=back", true),
            ("app!=web", false),
            ("tier", false),
        ] {
            let parsed = Selector::parse(&ENDPOINT_SLICES, "", selector, 33).unwrap();
            assert_eq!(parsed.matches(&object), expected, "{selector}");
        }
    }

    #[test]
    fn a_cluster_ip_selector_is_refused_before_1_31() {
        let refused = Selector::parse(&SERVICES, "spec.clusterIP=None", "", 30).unwrap_err();
        assert_eq!(refused.status()["message"], "field label not supported: spec.clusterIP");
        assert_eq!(refused.status()["code"], 400);

        let headless = Selector::parse(&SERVICES, "spec.clusterIP=None", "", 31).unwrap();
        assert!(headless.matches(&json!({"spec": {"clusterIP": "None"}})));
        assert!(!headless.matches(&json!({"spec": {"clusterIP": "10.100.3.4"}})));
        assert!(!headless.matches(&json!({"spec": {"type": "ExternalName"}})));
    }
}
