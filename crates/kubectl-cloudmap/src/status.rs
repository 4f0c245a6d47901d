//! The verb `status`: of all Cloud Map services, of one, or of those of one Cloud Map namespace. The function reads all of
//! them, since the list of services has the namespaces of all; what is not asked for is left out of its answer here. The
//! tables are printed by the action itself, or as Markdown.

use std::fmt::Write as _;

use serde_json::Value;

use super::answer::{Code, FunctionAnswer, Shown, print};
use super::markdown::cell;
use super::request::{FunctionRequest, request};
use super::{Error, arguments, place};
use cloud_map_sync::actions::status::{ClustersetStatus, MemberStatus, Status};

/// Leaves all Cloud Map services but those asked for out of an answer of `status`, and the members of clustersets, which are
/// no names. `name` may begin with its namespace, which must be `namespace` if that is given, too.
fn narrow(status: &mut Value, name: Option<&str>, namespace: Option<&str>) {
    if name.is_none() && namespace.is_none() {
        return;
    }
    let (before, name) = match name.and_then(|name| name.split_once('/')) {
        Some((before, name)) => (Some(before), Some(name)),
        None => (None, name),
    };
    let wanted = [("namespace", before), ("namespace", namespace), ("name", name)];
    let wanted: Vec<_> = wanted.into_iter().filter_map(|(key, it)| Some((key, it?))).collect();
    let is_wanted = |service: &Value| {
        let is = |text: &str, wanted: &str| text.eq_ignore_ascii_case(wanted);
        wanted.iter().all(|(key, it)| service[*key].as_str().is_some_and(|text| is(text, it)))
    };
    for registry in status["registries"].as_array_mut().into_iter().flatten() {
        if let Some(services) = registry["services"].as_array_mut() {
            services.retain(is_wanted);
        }
        if let Some(registry) = registry.as_object_mut() {
            registry.remove("clustersets");
        }
    }
}

/// Requests the status, without what is not asked for.
pub async fn read(shown: &arguments::ShownArguments) -> Result<FunctionAnswer<Status>, Error> {
    let arguments::StatusArguments { clusters, output } = &shown.status;
    let place = place::resolve(&clusters.clone().into())?;
    let command =
        FunctionRequest { created: shown.created, ..FunctionRequest::new("status", place) };
    let mut value = request(&output.aws, &command).await?;
    narrow(&mut value, shown.name.as_deref(), shown.namespace.as_deref());
    Ok(FunctionAnswer::read(value)?)
}

/// Shows the status. A name that is not there is an error.
pub async fn show(shown: arguments::ShownArguments) -> Result<Code, Error> {
    let answer = read(&shown).await?;
    let status = &answer.parsed;
    let is_empty = status.registries.iter().all(|registry| registry.services.is_empty());
    if let Some(name) = shown.name.filter(|_| is_empty && status.ok) {
        return Err(format!(
            "no Cloud Map service is named {name}; without a name, status lists all of them"
        )
        .into());
    }
    print(&answer, shown.status.output.format)?;
    Ok(Code::from_success(status.ok))
}

impl Shown for Status {
    fn markdown(&self) -> String {
        let mut page =
            format!("| {} |\n|---|---|--:|--:|--:|--:|--:|\n", self.headings().join(" | "));
        let mut problems = String::new();
        for registry in &self.registries {
            for service in &registry.services {
                let row = self.row(service).map(|text| cell(&text));
                let _ = writeln!(page, "| {} |", row.join(" | "));
            }
            if let Some(problem) = &registry.error {
                let _ = writeln!(problems, "\nNot read: {}", cell(problem));
            }
        }
        let clustersets = self.registries.iter().flat_map(|registry| &registry.clustersets);
        let clustersets: String = clustersets.map(members).collect();
        if let Some(cut) = &self.cut {
            let _ = writeln!(problems, "\n{}", cell(cut));
        }
        format!("{page}{clustersets}{problems}\n**{}**\n", cell(&self.summary()))
    }

    fn names(&self) -> Vec<String> {
        let services = self.registries.iter().flat_map(|registry| &registry.services);
        services.map(|service| format!("{}/{}", service.namespace, service.name)).collect()
    }
}

/// The members of a clusterset as a table of their own.
fn members(clusterset: &ClustersetStatus) -> String {
    let headings = MemberStatus::HEADINGS.join(" | ");
    let mut table = format!(
        "\nClusterset {}\n\n| {headings} |\n|---|---|---|--:|--:|\n",
        cell(&clusterset.clusterset)
    );
    for member in &clusterset.members {
        let row = member.row().map(|text| cell(&text));
        let _ = writeln!(table, "| {} |", row.join(" | "));
        for problem in &member.problems {
            let _ = writeln!(table, "| | {} | | | |", cell(problem));
        }
    }
    table
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
            narrow(&mut status, name, namespace);
            let registry = &status["registries"][0];
            let left = registry["services"].as_array().expect("a list").iter();
            let text = |it: &Value, key: &str| it[key].as_str().expect("a name").to_owned();
            let left = left.map(|it| format!("{}/{}", text(it, "namespace"), text(it, "name")));
            assert_eq!(left.collect::<Vec<_>>().join(" "), expected);
            assert_eq!(registry.get("clustersets").is_some(), has_members);
        }
    }
}
