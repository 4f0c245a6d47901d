//! The JSON Schemas in `docs/schemas`, made from the types that serde reads: `trace` has what a type asks for, and here it
//! becomes a schema. Those of the settings allow no other fields, since the function refuses them; those of the answers do,
//! since a release may add some. `UPDATE_SCHEMAS=1 cargo test --workspace --test documentation schemas` writes them, and
//! `.ci/schemas.py` compares them with the examples of the pages.

mod trace;

use std::collections::BTreeMap;

use cloud_map_sync::actions::{doctor::Checkup, explain::Explanation, status::Status};
use cloud_map_sync::event;
use cloud_map_sync::publish::plan::Rule;
use cloud_map_sync::report::Report;
use cloud_map_sync::settings::ClusterObject;
use serde_json::{Map, Value, json};

use trace::{Traced, trace};

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

fn schemas() -> BTreeMap<&'static str, Value> {
    let text = json!({"type": "string", "minLength": 1});
    let cluster = trace::<ClusterObject>(Traced::Setting);
    let rule = trace::<Rule>(Traced::Setting);
    let list = |items: Value| json!({"type": "array", "items": items, "minItems": 1});
    BTreeMap::from([
        (
            "clusters",
            with("CLUSTERS: EKS clusters to sync", list(json!({"anyOf": [text, cluster]}))),
        ),
        ("name-policy", with("NAME_POLICY: the names that each Service may claim", list(rule))),
        ("payload", with("A direct invocation of the function", payload())),
        (
            "report",
            with(
                "The answer of plan, sync, adopt, confirm and purge",
                trace::<Report>(Traced::Answer),
            ),
        ),
        ("status", with("The answer of status", trace::<Status>(Traced::Answer))),
        ("explain", with("The answer of explain", trace::<Explanation>(Traced::Answer))),
        ("doctor", with("The answer of doctor", trace::<Checkup>(Traced::Answer))),
    ])
}

fn with(title: &str, schema: Value) -> Value {
    let Value::Object(fields) = schema else { panic!("{schema} is no schema") };
    let heading = [("$schema".to_owned(), DRAFT.into()), ("title".to_owned(), title.into())];
    heading.into_iter().chain(fields).collect()
}

/// One schema for each action. The function's own refusals name the actions, their fields, and those that must be given.
fn payload() -> Value {
    let refusal = |payload: Value| event::read(&payload).expect_err("refused");
    let actions = refusal(json!({"action": "?"})).to_string();
    let actions = actions.split("known actions: ").nth(1).expect("the actions").split(", ");
    let commands = actions.map(|action| {
        let event::Error::UnknownFields { known, .. } =
            refusal(json!({"action": action, "?": true}))
        else {
            panic!("{action} takes every field");
        };
        let mut properties = Map::new();
        for field in known {
            let schema = match *field {
                "action" => json!({"const": action}),
                "clusterset" | "confirm" | "created" | "fresh" => json!({"type": "boolean"}),
                _ => json!({"type": "string", "minLength": 1}),
            };
            properties.insert((*field).to_owned(), schema);
        }
        json!({
            "type": "object", "properties": properties, "required": required(action),
            "additionalProperties": false,
        })
    });
    json!({"oneOf": commands.collect::<Vec<_>>()})
}

/// The fields without which a command is refused.
fn required(action: &str) -> Vec<&'static str> {
    let all = [("cluster", "blue"), ("namespace", "shop"), ("service", "web")];
    let mut given: BTreeMap<&str, &str> = [("action", action)].into();
    while event::read(&json!(given)).is_err() {
        let next = all.into_iter().find(|(field, _)| !given.contains_key(field));
        given
            .extend(next.map(|(field, value)| Some((field, value))).expect("it is taken with all"));
    }
    ["action"].into_iter().chain(all.map(|it| it.0)).filter(|it| given.contains_key(it)).collect()
}

#[test]
fn the_schemas_are_those_of_the_code() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas");
    for (name, schema) in schemas() {
        let path = format!("{folder}/{name}.schema.json");
        let text = format!("{schema:#}\n");
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            std::fs::create_dir_all(folder).expect("a folder");
            std::fs::write(&path, &text).expect("a schema");
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        let hint = "UPDATE_SCHEMAS=1 cargo test --workspace --test documentation schemas";
        assert!(found == text, "{path} is out of date; run {hint}");
    }
}

#[test]
fn a_schema_has_fields_types_and_what_is_required() {
    let schemas = schemas();
    let object = &schemas["clusters"]["items"]["anyOf"][1];
    assert_eq!(object["required"], json!(["cluster"]));
    assert_eq!(object["additionalProperties"], false);
    assert_eq!(object["properties"]["page"], json!({"type": ["boolean", "null"]}));
    let parts = &object["properties"]["multiCluster"]["anyOf"][0]["enum"];
    assert_eq!(parts, &json!(["off", "on", "export", "import"]));
    let rule = &schemas["name-policy"]["items"];
    let needed = json!(["clusters", "kubernetesNamespaces", "cloudMapNamespaces", "names"]);
    assert_eq!(rule["required"], needed);
    let line =
        &schemas["report"]["properties"]["clusters"]["items"]["properties"]["lines"]["items"];
    assert_eq!(line["properties"]["outcome"]["anyOf"][0]["enum"][0], "planned", "{line:#}");
    let purge = schemas["payload"]["oneOf"].as_array().expect("commands").iter();
    let mut purge = purge.filter(|it| it["properties"]["action"]["const"] == "purge");
    assert_eq!(purge.next().expect("purge")["required"], json!(["action", "cluster"]));
}
