//! The API server's error replies: `Status` objects with code, reason and details, and a few plain texts.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::resource::Resource;

/// A request that the server refuses.
#[derive(Clone, Debug)]
pub struct Failure {
    pub code: StatusCode,
    reason: &'static str,
    message: String,
    details: Value,
    /// Seconds for a `Retry-After` header.
    pub retry_after: Option<u32>,
}

impl Failure {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Value::Null, retry_after: None }
    }

    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code.as_u16(),
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }

    /// The token was refused.
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// RBAC has no rule for it; `what` is RBAC's sentence.
    pub fn forbidden(resource: Option<(&str, &str)>, name: &str, what: &str) -> Self {
        let subject = match resource {
            Some((group, plural)) => qualified(group, plural) + &quoted(name),
            None => "forbidden".to_owned(),
        };
        let message = match resource {
            Some(_) => format!("{subject} is forbidden: {what}"),
            None => format!("{subject}: {what}"),
        };
        let mut failure = Self::new(StatusCode::FORBIDDEN, "Forbidden", message);
        failure.details =
            resource.map_or(json!({}), |(group, plural)| details(group, plural, name));
        failure
    }

    pub fn not_found(resource: &Resource, name: &str) -> Self {
        let text = format!("{} not found", named(resource, name));
        Self::of_object(StatusCode::NOT_FOUND, "NotFound", resource, name, &text)
    }

    /// The name is taken.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        let text = format!("{} already exists", named(resource, name));
        Self::of_object(StatusCode::CONFLICT, "AlreadyExists", resource, name, &text)
    }

    /// The object breaks rules of its kind.
    pub fn invalid(resource: &Resource, name: &str, causes: &[String]) -> Self {
        let kind = qualified(resource.group, resource.kind);
        let message = format!("{kind} \"{name}\" is invalid: {}", causes.join(", "));
        let mut failure = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        failure.details = json!({
            "name": name, "group": resource.group, "kind": resource.kind,
            "causes": causes.iter().map(|cause| details_cause(cause)).collect::<Vec<_>>(),
        });
        failure
    }

    /// The request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// The verb is not one the resource has.
    pub fn method_not_allowed() -> Self {
        let text = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", text)
    }

    /// The patch format is not one that is understood.
    pub fn unsupported_media_type(sent: &str) -> Self {
        let text = format!(
            "the body of the request was in an unknown format - accepted media types include: \
             application/merge-patch+json, application/apply-patch+yaml, not {sent}"
        );
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", text)
    }

    /// A continue token whose revision is gone.
    pub fn expired() -> Self {
        let text = "The provided continue parameter is too old to display a consistent list \
                    result. You can start a new list without the continue parameter";
        Self::new(StatusCode::GONE, "Expired", text)
    }

    /// Priority and fairness turned the request away.
    pub fn too_many_requests(seconds: u32) -> Self {
        let text = "too many requests, please try again later";
        let mut failure = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", text);
        failure.details = json!({"retryAfterSeconds": seconds});
        failure.retry_after = Some(seconds);
        failure
    }

    /// An injected failure with just a status code.
    pub fn of_code(code: StatusCode) -> Self {
        match code {
            StatusCode::UNAUTHORIZED => Self::unauthorized(),
            StatusCode::TOO_MANY_REQUESTS => Self::too_many_requests(1),
            StatusCode::FORBIDDEN => {
                let what = "User \"sandbox\" cannot make this request, by an injected fault";
                Self::forbidden(None, "", what)
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                Self::new(code, "ServiceUnavailable", "apiserver not ready")
            }
            StatusCode::GATEWAY_TIMEOUT => {
                Self::new(code, "Timeout", "the server was unable to return a response in time")
            }
            _ => {
                Self::new(code, "InternalError", "Internal error occurred: injected by the sandbox")
            }
        }
    }

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
        let object = named(resource, name);
        let text = format!("Operation cannot be fulfilled on {object}: {why}");
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
        let wanted = text(wanted);
        let is = text(is);
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
        let object = named(resource, name);
        let text = format!(
            "{object} is forbidden: ValidatingAdmissionPolicy 'cloud-map-sync' with \
             binding 'cloud-map-sync' denied request: {why}"
        );
        Self::of_object(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", resource, name, &text)
    }

    /// An admission policy or webhook that is not ours denies a write, with these words.
    pub fn denied(code: u16, text: &str) -> Self {
        let code = StatusCode::from_u16(code).expect("a status code");
        let reason = match code {
            StatusCode::FORBIDDEN => "Forbidden",
            StatusCode::UNPROCESSABLE_ENTITY => "Invalid",
            // A webhook rarely names one.
            _ => "",
        };
        Self::new(code, reason, text)
    }

    /// A ResourceQuota of the namespace leaves no room for one more object.
    pub fn exceeded_quota(resource: &Resource, name: &str, limit: usize) -> Self {
        let counted = match resource.group {
            "" => resource.plural.to_owned(),
            group => format!("count/{}.{group}", resource.plural),
        };
        let what = format!(
            "exceeded quota: q, requested: {counted}=1, used: {counted}={limit}, limited: {counted}={limit}"
        );
        Self::forbidden(Some((resource.group, resource.plural)), name, &what)
    }
}

/// An object as messages name it.
fn named(resource: &Resource, name: &str) -> String {
    format!("{} \"{name}\"", qualified(resource.group, resource.plural))
}

pub(super) fn details(group: &str, plural: &str, name: &str) -> Value {
    let mut details = json!({"kind": plural});
    if !name.is_empty() {
        details["name"] = name.into();
    }
    if !group.is_empty() {
        details["group"] = group.into();
    }
    details
}

fn qualified(group: &str, plural: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

/// A cause begins with the path of its field.
fn details_cause(cause: &str) -> Value {
    let (field, message) = cause.split_once(": ").unwrap_or(("", cause));
    let reason = match message.split(':').next() {
        Some("Unsupported value") => "FieldValueNotSupported",
        _ => "FieldValueInvalid",
    };
    json!({"reason": reason, "message": message, "field": field})
}

fn quoted(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" \"{name}\"") }
}
