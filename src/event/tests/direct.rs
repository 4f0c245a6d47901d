//! Commands of direct invocations.

use std::error::Error as _;

use serde_json::{Value, json};

use crate::event::Error;
use crate::event::direct::{Command, read};

fn parse(value: &Value) -> Result<Command, Error> {
    read(value.as_object().expect("an object"))
}

#[test]
fn commands_have_an_action_and_a_scope() {
    let rows = [
        (json!({"action": "sync"}), "sync every cluster"),
        (json!({"action": "plan"}), "plan every cluster"),
        (json!({"action": "plan", "cluster": "green"}), "plan green"),
        (json!({"action": "confirm"}), "confirm every cluster"),
        (json!({"action": "confirm", "cluster": "green"}), "confirm green"),
        (json!({"action": "status"}), "status every cluster"),
        (json!({"action": "sync", "namespace": "shop"}), "sync the only cluster/shop"),
        (
            json!({"action": "sync", "cluster": "blue", "namespace": "shop", "service": "web"}),
            "sync blue/shop/web",
        ),
    ];
    for (payload, expected) in rows {
        let command = parse(&payload).expect("a command");
        assert_eq!(format!("{} {}", command.action, command.scope), expected);
    }
}

#[test]
fn an_unknown_action_is_answered_with_the_known_ones() {
    for action in [json!("porge"), json!("SYNC"), json!(""), json!(null), json!(["sync"])] {
        let error = parse(&json!({"action": action})).expect_err("no such action");
        assert_eq!(
            error.to_string(),
            "the command's action is unknown; known actions: sync, plan, adopt, purge, confirm, status, explain, doctor"
        );
    }
}

#[test]
fn a_mistyped_field_is_an_error_that_names_it() {
    let error = parse(&json!({"action": "sync", "sevice": "web", "Cluster": "blue"}));
    assert_eq!(
        error.expect_err("unknown fields").to_string(),
        "the command has unknown fields (Cluster, sevice); \
         known fields: action, cluster, region, namespace, service, fresh"
    );
}

#[test]
fn an_adoption_is_a_plan_until_it_is_confirmed() {
    let rows = [
        (json!({"action": "adopt"}), None, false),
        (json!({"action": "adopt", "confirm": false, "owner": null}), None, false),
        (json!({"action": "adopt", "confirm": true}), None, true),
        (json!({"action": "adopt", "owner": "team-a", "confirm": true}), Some("team-a"), true),
    ];
    for (payload, owner, confirm) in rows {
        let command = parse(&payload).expect("a command");
        assert_eq!((command.owner.as_deref(), command.is_confirmed), (owner, confirm), "{payload}");
    }
}

#[test]
fn an_invalid_owner_or_confirmation_is_an_error() {
    let long = "x".repeat(257);
    for (field, value) in [
        ("confirm", json!("true")),
        ("confirm", json!(1)),
        ("owner", json!("")),
        ("owner", json!("two words")),
        ("owner", json!(["team-a"])),
        ("owner", json!(long)),
    ] {
        let mut payload = json!({"action": "adopt"});
        payload[field] = value;
        let error = parse(&payload).expect_err("no such value").to_string();
        assert!(error.starts_with(&format!("the command's {field} must be ")), "{error}");
    }
    for action in ["sync", "plan"] {
        let error = parse(&json!({"action": action, "confirm": true, "owner": "team-a"}));
        assert!(matches!(error, Err(Error::UnknownFields { .. })), "{error:?}");
    }
}

#[test]
fn only_a_whole_cluster_is_confirmed() {
    let error = parse(&json!({"action": "confirm", "cluster": "blue", "namespace": "shop"}));
    assert_eq!(
        error.expect_err("a part of it").to_string(),
        "the command has unknown fields (namespace); known fields: action, cluster, region"
    );
}

#[test]
fn a_purge_names_its_cluster_and_nothing_inside_it() {
    let command = parse(&json!({"action": "purge", "cluster": "blue", "confirm": true}));
    assert_eq!(
        command.map(|command| (command.scope.to_string(), command.is_confirmed)),
        Ok(("blue".into(), true))
    );
    let error = parse(&json!({"action": "purge", "confirm": true})).expect_err("no cluster");
    assert_eq!(
        error.to_string(),
        "the command's cluster must be given: a purge deregisters all instances of one cluster"
    );
    let error = parse(&json!({"action": "purge", "cluster": "blue", "namespace": "shop"}));
    assert_eq!(
        error.expect_err("no namespace").to_string(),
        "the command has unknown fields (namespace); known fields: action, cluster, region, registry, clusterset, confirm"
    );
}

#[test]
fn only_a_purge_may_be_about_the_clusterset_alone() {
    let of = |action: &str, clusterset: Value| {
        parse(&json!({"action": action, "cluster": "blue", "clusterset": clusterset}))
    };
    let command = of("purge", json!(true)).expect("a command");
    assert!(command.only_clusterset);
    for (action, clusterset) in [("confirm", json!(true)), ("purge", json!("true"))] {
        assert!(of(action, clusterset).is_err(), "{action}");
    }
}

#[test]
fn a_purge_may_name_one_cloud_map() {
    let purge = |registry: Value| {
        parse(&json!({"action": "purge", "cluster": "blue", "registry": registry}))
    };
    let command = purge(json!("111122223333/eu-central-1")).expect("a command");
    assert_eq!(command.registry.expect("a name").to_string(), "111122223333/eu-central-1");
    assert_eq!(purge(json!(null)).expect("a command").registry, None);
    for registry in [json!("eu-central-1"), json!(1), json!("111122223333/*")] {
        let error = purge(registry).expect_err("no name").to_string();
        assert!(error.starts_with("the command's registry must be ACCOUNT/REGION"), "{error}");
    }
}

#[test]
fn one_service_is_explained_at_a_time() {
    let web = json!({"action": "explain", "namespace": "shop", "service": "web"});
    assert_eq!(parse(&web).expect("a command").scope.to_string(), "the only cluster/shop/web");
    for payload in [json!({"action": "explain"}), json!({"action": "explain", "namespace": "shop"})]
    {
        let error = parse(&payload).expect_err("no Service").to_string();
        assert!(error.starts_with("the command's service must be given"), "{error}");
    }
}

#[test]
fn hostile_field_names_are_escaped_and_cut() {
    let mut payload = json!({"action": "sync", "\u{1b}[31m\n": 1});
    payload["x".repeat(5_000)] = json!(1);
    for index in 0..200 {
        payload[format!("y{index}")] = json!(1);
    }
    let text = parse(&payload).expect_err("unknown fields").to_string();
    assert!(!text.contains(char::is_control) && text.len() < 250, "{text}");
}

#[test]
fn an_invalid_scope_is_an_error_with_the_expected_content() {
    let rows = [
        (
            json!({"action": "sync", "cluster": "blue", "service": "web"}),
            "the namespace is missing",
        ),
        (
            json!({"action": "sync", "cluster": "blue", "namespace": "Shop!"}),
            "the namespace is not a valid name: expected at most 63 of a-z, 0-9 and -, \
             a letter or digit at both ends",
        ),
        (
            json!({"action": "plan", "cluster": ["blue"]}),
            "the cluster is not a valid name: expected a string",
        ),
    ];
    for (payload, cause) in rows {
        let error = parse(&payload).expect_err("an invalid scope");
        assert_eq!(error.source().expect("a source").to_string(), cause);
    }
}

#[test]
fn a_region_belongs_to_a_named_cluster_of_an_action_that_writes() {
    for action in ["sync", "adopt", "confirm", "purge"] {
        let west = json!({"action": action, "cluster": "blue", "region": "eu-west-1"});
        assert_eq!(parse(&west).expect("a command").region.as_deref(), Some("eu-west-1"));
        for region in [json!(""), json!(7), json!("EU west"), json!("eu.example/")] {
            let error = parse(&json!({"action": action, "cluster": "blue", "region": region}));
            let error = error.expect_err("no Region").to_string();
            assert!(error.starts_with("the command's region must be an AWS Region"), "{error}");
        }
    }
    let error = parse(&json!({"action": "sync", "region": "eu-west-1"})).expect_err("no cluster");
    assert_eq!(error.to_string(), "the command's region must be absent, or given with a cluster");
    let plan = json!({"action": "plan", "cluster": "blue", "region": "eu-west-1"});
    assert!(matches!(parse(&plan), Err(Error::UnknownFields { .. })));
}
