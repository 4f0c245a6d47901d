//! The status of some names: one Cloud Map service, or those of one Cloud Map namespace. The function reads all of them,
//! since the list of services has the namespaces of all; what is not asked for is left out of its answer here.

use serde_json::Value;

use super::answer::{Answer, Code};
use super::arguments::{self, Shown};
use super::command::Command;
use super::{Error, format, place, request};
use cloud_map_sync::actions::status::Status;

/// No Cloud Map service has the name.
#[derive(Debug, thiserror::Error)]
#[error("no Cloud Map service is named {0}; without a name, status lists all of them")]
pub struct NoSuchName(String);

/// The Cloud Map services that are asked for; each part may be absent.
#[derive(Clone, Debug, Default)]
pub struct Narrow {
    namespaces: Vec<String>,
    name: Option<String>,
}

impl Narrow {
    /// `name` may begin with its namespace, which must be `namespace` if that is given, too.
    pub fn new(name: Option<&str>, namespace: Option<&str>) -> Self {
        let (before, name) = match name.and_then(|name| name.split_once('/')) {
            Some((before, name)) => (Some(before), Some(name)),
            None => (None, name),
        };
        let namespaces = [before, namespace].into_iter().flatten().map(str::to_owned).collect();
        Self { namespaces, name: name.map(str::to_owned) }
    }

    /// Leaves everything else out of an answer of `status`. The members of clustersets are no names.
    pub fn apply(&self, status: &mut Value) {
        if self.namespaces.is_empty() && self.name.is_none() {
            return;
        }
        for registry in status["registries"].as_array_mut().into_iter().flatten() {
            if let Some(services) = registry["services"].as_array_mut() {
                services.retain(|service| self.has(service));
            }
            if let Some(registry) = registry.as_object_mut() {
                registry.remove("clustersets");
            }
        }
    }

    fn has(&self, service: &Value) -> bool {
        let is = |key: &str, wanted: &String| {
            service[key].as_str().is_some_and(|it| it.eq_ignore_ascii_case(wanted))
        };
        self.namespaces.iter().all(|it| is("namespace", it))
            && self.name.iter().all(|it| is("name", it))
    }
}

/// Requests the status, without what is not asked for.
pub async fn read(shown: &Shown) -> Result<Answer<Status>, Error> {
    let arguments::Status { clusters, aws, .. } = &shown.status;
    let place = place::resolve(&clusters.clone().into())?;
    let command = Command { created: shown.created, ..Command::new("status", place) };
    let mut value = request(aws, &command).await?;
    Narrow::new(shown.name.as_deref(), shown.namespace.as_deref()).apply(&mut value);
    Ok(Answer::read(value)?)
}

/// Shows the status. A name that is not there is an error.
pub async fn status(shown: Shown) -> Result<Code, Error> {
    let answer = read(&shown).await?;
    let status = &answer.parsed;
    let is_empty = status.registries.iter().all(|registry| registry.services.is_empty());
    if let Some(name) = shown.name.filter(|_| is_empty && status.ok) {
        return Err(NoSuchName(name).into());
    }
    format::print(&answer, shown.status.output.format)?;
    Ok(Code::from_success(status.ok))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_names_asked_for_are_left() {
        let service = |namespace: &str, name: &str| json!({"namespace": namespace, "name": name});
        let services = json!([service("a", "web"), service("a", "cart"), service("b", "web")]);
        let rows = [
            (None, None, "a/web a/cart b/web", true),
            (Some("web"), None, "a/web b/web", false),
            (Some("WEB"), Some("b"), "b/web", false),
            (Some("a/web"), None, "a/web", false),
            (None, Some("a"), "a/web a/cart", false),
            (Some("a/web"), Some("b"), "", false),
        ];
        for (name, namespace, expected, has_members) in rows {
            let mut status =
                json!({"registries": [{"services": services, "clustersets": [{"members": []}]}]});
            Narrow::new(name, namespace).apply(&mut status);
            let registry = &status["registries"][0];
            let left = registry["services"].as_array().expect("a list").iter();
            let text = |it: &Value, key: &str| it[key].as_str().expect("a name").to_owned();
            let left = left.map(|it| format!("{}/{}", text(it, "namespace"), text(it, "name")));
            assert_eq!(left.collect::<Vec<_>>().join(" "), expected);
            assert_eq!(registry.get("clustersets").is_some(), has_members);
        }
    }
}
