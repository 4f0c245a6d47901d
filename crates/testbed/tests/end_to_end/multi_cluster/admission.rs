//! The API server itself keeps the function's role off what is not the function's, although RBAC would let it.

use http::Method;
use serde_json::{Value, json};

use super::Story;
use super::imports::slices;
use crate::real_cluster::member::{IMPORTS, SERVICES, SLICES, Wish};

/// The annotation of AWS's controller.
const OF_AWS: &str = "multicluster.k8s.aws/derived-service";
const LABEL: &str = "cloud-map-sync/owner";

impl Story {
    pub(super) async fn function_is_kept_off_the_objects_of_others(&self) {
        let blue = &self.blue;
        let theirs = json!({
            "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport",
            "metadata": {"name": "theirs"}, "spec": {"type": "Headless", "ports": []},
        });
        let mut of_aws = theirs.clone();
        of_aws["metadata"] = json!({"name": "of-aws", "annotations": {OF_AWS: "imported-1"}});
        let mut taken_over = of_aws.clone();
        taken_over["metadata"]["name"] = json!("taken-over");
        taken_over["metadata"]["labels"] = json!({LABEL: "cloud-map-sync"});
        for import in [&theirs, &of_aws, &taken_over] {
            blue.create_object(IMPORTS, import.clone()).await;
        }
        let foreign_slice = blue.objects(SLICES).await.into_iter();
        let mut foreign_slice =
            foreign_slice.filter(|it| it["metadata"]["labels"][LABEL].is_null());
        let foreign_slice = name(&foreign_slice.next().expect("a slice of the controller"));
        let our_slice = name(&slices(blue, "web").await[0]);
        let derived = "derived-isrlchlhrq";

        let taken = json!({"metadata": {"labels": {LABEL: "cloud-map-sync"}}});
        let given_up = json!({"metadata": {"labels": {LABEL: null}}});
        let changed = json!({"metadata": {"annotations": {"a": "b"}}});
        let refused = [
            create(SERVICES, service(&json!({}))),
            create(IMPORTS, theirs),
            delete(SERVICES, "web"),
            delete(SLICES, &foreign_slice),
            delete(IMPORTS, "theirs"),
            patch(SERVICES, "web", &changed),
            patch(SERVICES, "web", &taken),
            patch(SLICES, &foreign_slice, &taken),
            patch(IMPORTS, "theirs", &taken),
            patch(IMPORTS, "theirs/status", &json!({"status": {"clusters": []}})),
            patch(IMPORTS, "of-aws", &changed),
            delete(IMPORTS, "of-aws"),
            patch(SERVICES, derived, &given_up),
            patch(SLICES, &our_slice, &given_up),
            patch(IMPORTS, "web", &given_up),
        ];
        for wish in refused {
            let refusal = blue.refusal(wish.clone()).await;
            let status = refusal.unwrap_or_else(|| panic!("granted: {wish:?}"));
            assert_eq!(status.code, 422, "{wish:?}: {status:?}");
            assert!(status.message.contains(LABEL), "{wish:?}: {status:?}");
        }
        let granted = [
            create(SERVICES, service(&json!({LABEL: "cloud-map-sync"}))),
            patch(SERVICES, derived, &changed),
            delete(SLICES, &our_slice),
            delete(IMPORTS, "web"),
            // A cluster that moves here from AWS's controller, and back.
            patch(IMPORTS, "of-aws", &taken),
            patch(IMPORTS, "taken-over", &given_up),
        ];
        for wish in granted {
            assert_eq!(blue.refusal(wish.clone()).await, None, "{wish:?}");
        }
        for name in ["theirs", "of-aws", "taken-over"] {
            blue.delete_object(IMPORTS, name).await;
        }
    }
}

fn service(labels: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "another", "labels": labels}, "spec": {"ports": [{"port": 80}]},
    })
}

fn create(path: &str, object: Value) -> Wish {
    (Method::POST, path.to_owned(), object)
}

fn delete(path: &str, name: &str) -> Wish {
    (Method::DELETE, format!("{path}/{name}"), Value::Null)
}

fn patch(path: &str, name: &str, change: &Value) -> Wish {
    (Method::PATCH, format!("{path}/{name}"), change.clone())
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().expect("a name").to_owned()
}
