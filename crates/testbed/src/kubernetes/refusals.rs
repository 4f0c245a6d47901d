//! The refusals of writes: conflicts, preconditions, namespaces that are going, the admission policy.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::resource::Resource;
use super::status::{Failure, details, qualified};

impl Failure {
    fn of_object(
        code: StatusCode,
        reason: &'static str,
        resource: &Resource,
        name: &str,
        text: &str,
    ) -> Self {
        let mut failure = Self::new(code, reason, text);
        failure.details = details(resource.group, resource.plural, name);
        failure
    }

    /// The object is not the one that the client has read.
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let qualified = qualified(resource.group, resource.plural);
        let text = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {why}");
        Self::of_object(StatusCode::CONFLICT, "Conflict", resource, name, &text)
    }

    /// The object has another version than the client names.
    pub fn stale(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Self::conflict(resource, name, why)
    }

    /// A precondition of a deletion or of a change is not met.
    pub fn precondition(
        resource: &Resource,
        name: &str,
        what: &str,
        wanted: &Value,
        is: &Value,
    ) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (wanted, is) = (text(wanted), text(is));
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record ({is}). \
             The object might have been deleted and then recreated"
        );
        Self::conflict(resource, name, &why)
    }

    /// Nothing is created in a namespace that is being deleted.
    pub fn terminating(resource: &Resource, name: &str, namespace: &str) -> Self {
        let what = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let mut failure = Self::forbidden(Some((resource.group, resource.plural)), name, &what);
        let message = format!("namespace {namespace} is being terminated");
        failure.details["causes"] = json!([{
            "reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace",
        }]);
        failure
    }

    /// The admission policy denies a write: with 422, unless the policy names another reason.
    pub fn denied_by_policy(resource: &Resource, name: &str, why: &str) -> Self {
        let qualified = qualified(resource.group, resource.plural);
        let text = format!(
            "{qualified} \"{name}\" is forbidden: ValidatingAdmissionPolicy 'cloud-map-sync' with \
             binding 'cloud-map-sync' denied request: {why}"
        );
        Self::of_object(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", resource, name, &text)
    }

    /// A policy that is not ours denies a write, with these words.
    pub fn refused_by_policy(text: &str) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", text)
    }
}
