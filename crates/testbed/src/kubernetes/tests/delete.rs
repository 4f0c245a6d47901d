//! Deletion, and what goes with it.

use serde_json::{Value, json};

use super::super::multi_cluster::Export;
use super::super::resource::{ENDPOINT_SLICES, NAMESPACES, SERVICE_EXPORTS, SERVICE_IMPORTS};
use super::client::{Cluster, MCS, SERVICES, SLICES, import, service, slice};

fn owned(mut object: Value, owners: &[&Value]) -> Value {
    let reference = |owner: &&Value| {
        json!({
            "apiVersion": owner["apiVersion"], "kind": owner["kind"],
            "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        })
    };
    object["metadata"]["ownerReferences"] = owners.iter().map(reference).collect();
    object
}

#[test]
fn preconditions_are_met_or_nothing_is_deleted() {
    let mut cluster = Cluster::new();
    let created = cluster.created(SERVICES, &service("web"));
    let path = format!("{SERVICES}/web");
    for (key, text) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let options = json!({"preconditions": {key: "other"}});
        let (status, body) = cluster.delete(&path, &options);
        assert_eq!((status, &body["reason"]), (409, &json!("Conflict")));
        assert!(
            body["message"]
                .as_str()
                .unwrap()
                .contains(&format!("the {text} in the precondition (other)"))
        );
    }
    let metadata = &created["metadata"];
    let options = json!({"preconditions": {
        "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
    }});
    let (status, body) = cluster.delete(&path, &options);
    assert_eq!((status, &body["status"]), (200, &json!("Success")));
    assert_eq!(cluster.delete(&path, &json!({})).0, 404);
}

#[test]
fn what_has_no_owner_left_goes_with_its_last_one() {
    let mut cluster = Cluster::new();
    let imports = format!("{MCS}/serviceimports");
    let web = cluster.created(&imports, &import("web"));
    let api = cluster.created(&imports, &import("api"));
    let derived = cluster.created(SERVICES, &owned(service("derived"), &[&web]));
    for (name, owners) in [
        ("of-web", vec![&web]),
        ("of-derived", vec![&derived]),
        ("of-both", vec![&web, &api]),
        ("of-none", vec![]),
    ] {
        cluster.created(SLICES, &owned(slice(name, &[]), &owners));
    }
    let names = |cluster: &Cluster| -> Vec<String> {
        let slices = cluster.world.store.all(&ENDPOINT_SLICES, "shop");
        let names = slices.iter().filter_map(|it| it["metadata"]["name"].as_str());
        names.map(ToOwned::to_owned).collect()
    };
    cluster.delete(&format!("{imports}/web"), &json!({}));
    assert_eq!(names(&cluster), ["of-both", "of-none"]);
    assert_eq!(cluster.get(&format!("{SERVICES}/derived")).0, 404);
    cluster.world.delete(&SERVICE_IMPORTS, "shop", "api");
    assert_eq!(names(&cluster), ["of-none"]);
}

#[test]
fn a_finalizer_holds_an_object_until_it_is_taken_off() {
    let mut cluster = Cluster::new();
    cluster.world.put(Export::new("shop", "web").finalizer("example.com/held").into());
    let administrator = cluster.administrator.clone();
    let path = format!("{MCS}/serviceexports/web");
    let (status, held) = cluster.send_as(&administrator, "DELETE", &path, "", &Value::Null);
    assert_eq!(status, 200);
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "{held}");
    assert_eq!(cluster.get(&path).0, 200);
    let patch = json!({"metadata": {"finalizers": null}});
    cluster.send_as(&administrator, "PATCH", &path, super::client::MERGE, &patch);
    assert_eq!(cluster.get(&path).0, 404);
}

#[test]
fn with_a_namespace_goes_its_content() {
    let mut cluster = Cluster::new();
    for namespace in ["shop", "other"] {
        cluster.world.put(Export::new(namespace, "web").into());
    }
    cluster.world.delete(&NAMESPACES, "", "shop");
    let left = cluster.world.store.all(&SERVICE_EXPORTS, "");
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["metadata"]["namespace"], "other");
}
