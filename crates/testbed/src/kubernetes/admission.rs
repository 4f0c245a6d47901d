//! The ValidatingAdmissionPolicy of the deployment: whoever is no administrator creates, changes and deletes only
//! Services, EndpointSlices and ServiceImports with our label, before and after. A ServiceImport of AWS's controller may
//! be taken over and handed back, but not deleted without the label.

use serde_json::Value;

use super::resource::{ENDPOINT_SLICES, Resource, SERVICE_IMPORTS, SERVICES};
use super::status::Failure;

const LABEL: &str = "cloud-map-sync/owner";
const ANNOTATION: &str = "multicluster.k8s.aws/derived-service";

/// Judges a write by the object before it and after it.
pub fn check(
    resource: &Resource,
    name: &str,
    before: Option<&Value>,
    after: Option<&Value>,
) -> Result<(), Failure> {
    if ![&SERVICES, &ENDPOINT_SLICES, &SERVICE_IMPORTS].contains(&resource) {
        return Ok(());
    }
    let is_handed_over = match (before, after) {
        (Some(before), Some(after)) => {
            is_adoptable(resource, before) && (is_ours(before) || is_ours(after))
        }
        _ => false,
    };
    if is_handed_over || before.into_iter().chain(after).all(is_ours) {
        return Ok(());
    }
    let text = format!("the object does not carry the label {LABEL} before and after");
    Err(Failure::denied_by_policy(resource, name, &text))
}

fn is_ours(object: &Value) -> bool {
    object["metadata"]["labels"].get(LABEL).is_some_and(|value| !value.is_null())
}

fn is_adoptable(resource: &Resource, object: &Value) -> bool {
    *resource == SERVICE_IMPORTS && object["metadata"]["annotations"].get(ANNOTATION).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::resource::{ENDPOINTS, SERVICE_EXPORTS};
    use super::*;

    #[test]
    fn only_labelled_objects_and_imports_to_adopt_pass() {
        let ours = json!({"metadata": {"labels": {LABEL: "me"}}});
        let foreign = json!({"metadata": {"labels": {"app": "web"}}});
        let of_aws = json!({"metadata": {"annotations": {ANNOTATION: "[]"}}});
        let mut both = of_aws.clone();
        both["metadata"]["labels"] = json!({LABEL: "me"});
        let cases = [
            (None, Some(&ours), [true, true]),
            (None, Some(&foreign), [false, false]),
            (None, Some(&of_aws), [false, false]),
            (Some(&ours), Some(&ours), [true, true]),
            (Some(&foreign), Some(&ours), [false, false]),
            (Some(&ours), Some(&foreign), [false, false]),
            (Some(&of_aws), Some(&ours), [false, true]),
            (Some(&both), Some(&of_aws), [false, true]),
            (Some(&ours), Some(&of_aws), [false, false]),
            (Some(&of_aws), Some(&of_aws), [false, false]),
            (Some(&ours), None, [true, true]),
            (Some(&foreign), None, [false, false]),
            (Some(&of_aws), None, [false, false]),
        ];
        for (before, after, expected) in cases {
            let passes = [&SERVICES, &SERVICE_IMPORTS]
                .map(|resource| check(resource, "web", before, after).is_ok());
            assert_eq!(passes, expected, "{before:?} -> {after:?}");
            for other in [&ENDPOINTS, &SERVICE_EXPORTS] {
                assert!(check(other, "web", before, after).is_ok());
            }
        }
    }

    #[test]
    fn a_denial_has_the_words_and_the_code_of_the_server() {
        let denied = check(&SERVICES, "web", None, Some(&json!({"metadata": {}}))).unwrap_err();
        let status = denied.status();
        assert_eq!((&status["code"], &status["reason"]), (&json!(422), &json!("Invalid")));
        assert_eq!(
            status["message"],
            "services \"web\" is forbidden: ValidatingAdmissionPolicy 'cloud-map-sync' with binding \
             'cloud-map-sync' denied request: the object does not carry the label \
             cloud-map-sync/owner before and after"
        );
    }
}
