//! The STS stand-in: AssumeRole and GetCallerIdentity in the query protocol. The signature check accepts the keys of
//! AssumeRole, so a request that is signed with them has the identity of the role.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;

use super::identity::{AssumedRole, Identities};
use super::operation::respond;
use super::sigv4::{Caller, Refusal};

const NAMESPACE: &str = "https://sts.amazonaws.com/doc/2011-06-15/";
const REQUEST_ID: &str = "<RequestId>00000000-0000-4000-8000-000000000000</RequestId>";

/// Answers one action; `form` is the decoded body.
pub fn answer(identities: &Identities, caller: &Caller, form: &[(String, String)]) -> Response {
    let field =
        |name: &str| form.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    match field("Action").as_deref() {
        Some("GetCallerIdentity") => get_caller_identity(caller),
        Some("AssumeRole") => {
            let seconds =
                field("DurationSeconds").and_then(|text| text.parse().ok()).unwrap_or(3600);
            let request = AssumedRole {
                by: caller.principal.role_arn.clone(),
                role_arn: field("RoleArn").unwrap_or_default(),
                external_id: field("ExternalId"),
                session: field("RoleSessionName").unwrap_or_default(),
            };
            assume_role(identities, caller, &request, Duration::from_secs(seconds))
        }
        action => {
            let text = format!(
                "Could not find operation {} for version 2011-06-15",
                action.unwrap_or_default()
            );
            error(StatusCode::BAD_REQUEST, "InvalidAction", &text)
        }
    }
}

fn get_caller_identity(caller: &Caller) -> Response {
    let principal = &caller.principal;
    let result = format!(
        "<Arn>{}</Arn><UserId>{}</UserId><Account>{}</Account>",
        principal.arn(),
        principal.user_id(),
        principal.account
    );
    success("GetCallerIdentity", &result)
}

fn assume_role(
    identities: &Identities,
    caller: &Caller,
    request: &AssumedRole,
    lifetime: Duration,
) -> Response {
    if !is_session_name(&request.session) {
        let text =
            "1 validation error detected: Value at 'roleSessionName' failed to satisfy constraint";
        return error(StatusCode::BAD_REQUEST, "ValidationError", text);
    }
    let Some(key) = identities.assume(request, lifetime) else {
        let user = caller.principal.arn();
        let text = format!(
            "User: {user} is not authorized to perform: sts:AssumeRole on resource: {}",
            request.role_arn
        );
        return error(StatusCode::FORBIDDEN, "AccessDenied", &text);
    };
    let result = format!(
        "<AssumedRoleUser><AssumedRoleId>{}</AssumedRoleId><Arn>{}</Arn></AssumedRoleUser>\
         <Credentials><AccessKeyId>{}</AccessKeyId><SecretAccessKey>{}</SecretAccessKey>\
         <SessionToken>{}</SessionToken><Expiration>{}</Expiration></Credentials>",
        key.principal.user_id(),
        key.principal.arn(),
        key.id,
        key.secret,
        key.session_token,
        key.expires.strftime("%Y-%m-%dT%H:%M:%SZ")
    );
    success("AssumeRole", &result)
}

/// `[\w+=,.@-]{2,64}`
fn is_session_name(name: &str) -> bool {
    let allowed =
        |character: char| character.is_ascii_alphanumeric() || "_+=,.@-".contains(character);
    (2..=64).contains(&name.len()) && name.chars().all(allowed)
}

/// A request whose signature does not hold, under the names that the query protocol has for it.
pub fn refuse(refusal: &Refusal) -> Response {
    let code = match refusal.code {
        "InvalidSignatureException" => "SignatureDoesNotMatch",
        "UnrecognizedClientException" => "InvalidClientTokenId",
        "ExpiredTokenException" => "ExpiredToken",
        _ => "MissingAuthenticationToken",
    };
    error(StatusCode::FORBIDDEN, code, &refusal.message)
}

fn success(action: &str, result: &str) -> Response {
    let body = format!(
        "<{action}Response xmlns=\"{NAMESPACE}\"><{action}Result>{result}</{action}Result>\
         <ResponseMetadata>{REQUEST_ID}</ResponseMetadata></{action}Response>"
    );
    respond(StatusCode::OK, "text/xml", body)
}

fn error(status: StatusCode, code: &str, message: &str) -> Response {
    let message = message.replace('&', "&amp;").replace('<', "&lt;");
    let body = format!(
        "<ErrorResponse xmlns=\"{NAMESPACE}\"><Error><Type>Sender</Type><Code>{code}</Code>\
         <Message>{message}</Message></Error>{REQUEST_ID}</ErrorResponse>"
    );
    respond(status, "text/xml", body)
}
