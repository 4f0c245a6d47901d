//! The class of a refusal of an API server.

use serde_json::{Value, json};

use crate::kubernetes::{Error, ErrorClass};

fn class(code: u16, message: &str, causes: &Value) -> ErrorClass {
    let status = json!({
        "status": "Failure", "code": code, "reason": "Forbidden", "message": message,
        "details": {"name": "web", "kind": "services", "causes": causes},
    });
    let status = serde_json::from_value(status).expect("a Status");
    Error::new("create services shop/web", kube::Error::Api(Box::new(status))).class
}

#[test]
fn only_a_403_that_names_a_right_is_a_missing_right() {
    let right = r#"services is forbidden: User "f" cannot create resource "services" in API group "" in the namespace "shop""#;
    let path = r#"forbidden: User "f" cannot get path "/healthz""#;
    let quota = r#"services "web" is forbidden: exceeded quota: q, requested: services=1, used: services=0, limited: services=0"#;
    let policy = r#"services "web" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no team"#;
    let webhook = r#"admission webhook "x.example.org" denied the request: no team"#;
    for (code, message, expected) in [
        (403, right, ErrorClass::Forbidden),
        (403, path, ErrorClass::Forbidden),
        (403, quota, ErrorClass::Denied),
        (403, policy, ErrorClass::Denied),
        (422, policy, ErrorClass::Denied),
        (400, webhook, ErrorClass::Denied),
        (409, webhook, ErrorClass::Denied),
        (500, r#"failed calling webhook "x.example.org": EOF"#, ErrorClass::Failed),
        (403, "Request blocked by a proxy", ErrorClass::Failed),
    ] {
        assert_eq!(class(code, message, &json!([])), expected, "{code} {message}");
    }
}

#[test]
fn refusal_to_create_in_a_namespace_that_is_being_deleted_is_no_missing_right() {
    let cause = json!([{
        "reason": "NamespaceTerminating", "message": "namespace shop is being terminated",
        "field": "metadata.namespace",
    }]);
    let message = r#"services "web" is forbidden: unable to create new content in namespace shop"#;
    assert_eq!(class(403, message, &cause), ErrorClass::Failed);
}
