//! What a refusal of an API server says of the function's rights.

use serde_json::json;

use crate::kubernetes::{Error, ErrorClass};

#[test]
fn refusal_to_create_in_a_namespace_that_is_being_deleted_is_no_missing_right() {
    let class = |causes| {
        let status = json!({
            "status": "Failure", "code": 403, "reason": "Forbidden", "message": "forbidden",
            "details": {"name": "web", "kind": "services", "causes": causes},
        });
        let status = serde_json::from_value(status).expect("a Status");
        Error::new("create services shop/web", kube::Error::Api(Box::new(status))).class
    };
    let cause = json!([{
        "reason": "NamespaceTerminating", "message": "namespace shop is being terminated",
        "field": "metadata.namespace",
    }]);
    assert_eq!(class(cause), ErrorClass::Failed);
    assert_eq!(class(json!([])), ErrorClass::Forbidden);
}
