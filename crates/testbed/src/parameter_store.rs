//! The stand-in of Systems Manager's Parameter Store: GetParameter and GetParametersByPath in AWS JSON 1.1, with pages
//! of at most ten, values that are encrypted by default, and the permissions that a test grants for IAM resources.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::Bytes;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::operation;
use super::sigv4::{Caller, Refusal};

const LARGEST_PAGE: usize = 10;

/// The parameters of all accounts and Regions; clones share them.
#[derive(Clone, Default)]
pub struct ParameterStore(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    parameters: Vec<Parameter>,
    /// Of which reads are allowed: `/name`, or `/path/`.
    readable: BTreeSet<String>,
}

#[derive(Clone)]
struct Parameter {
    /// Region and account.
    place: (String, String),
    name: String,
    value: String,
}

type Answer<T = Value> = Result<T, (&'static str, Option<String>)>;

impl ParameterStore {
    /// Keeps a parameter, as a SecureString.
    pub fn put(&self, region: &str, account: &str, name: &str, value: &str) {
        let place = (region.to_owned(), account.to_owned());
        let name = name.to_owned();
        let value = value.to_owned();
        self.state().parameters.push(Parameter { place, name, value });
    }

    /// Lets roles read the parameter or the path of that name, which a policy would say as
    /// `arn:aws:ssm:REGION:ACCOUNT:parameter` and the name.
    pub fn allow(&self, name: &str) {
        self.state().readable.insert(name.to_owned());
    }

    /// Answers an operation.
    pub fn answer(&self, operation: &str, caller: &Caller, request: &Request<Bytes>) -> Response {
        let parameters: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let answer = match operation {
            "GetParameter" => self.get(caller, &parameters),
            "GetParametersByPath" => self.get_by_path(caller, &parameters),
            _ => Err(("UnknownOperationException", None)),
        };
        match answer {
            Ok(answer) => respond(StatusCode::OK, &answer),
            Err((code, message)) => {
                respond(StatusCode::BAD_REQUEST, &json!({"__type": code, "message": message}))
            }
        }
    }

    fn get(&self, caller: &Caller, parameters: &Value) -> Answer {
        let name = parameters["Name"].as_str().unwrap_or_default();
        self.admit(caller, "GetParameter", name)?;
        let found = self.of(caller).into_iter().find(|parameter| parameter.name == name);
        // The service says no more than that.
        let found = found.ok_or(("ParameterNotFound", None))?;
        Ok(json!({"Parameter": found.view(parameters)}))
    }

    fn get_by_path(&self, caller: &Caller, parameters: &Value) -> Answer {
        let path = parameters["Path"].as_str().unwrap_or_default();
        let most = parameters["MaxResults"].as_u64().map_or(Ok(LARGEST_PAGE), usize::try_from);
        let most = most.ok().filter(|most| (1..=LARGEST_PAGE).contains(most));
        let (Some(most), true) = (most, path.starts_with('/')) else {
            return Err(("ValidationException", Some("the request is not valid".to_owned())));
        };
        self.admit(caller, "GetParametersByPath", path)?;
        let of_caller = self.of(caller).into_iter();
        let found: Vec<_> =
            of_caller.filter(|parameter| parameter.is_directly_under(path)).collect();
        let start: usize =
            parameters["NextToken"].as_str().map_or(Ok(0), str::parse).unwrap_or(found.len());
        let end = found.len().min(start + most);
        let page: Vec<Value> =
            found[start..end].iter().map(|parameter| parameter.view(parameters)).collect();
        let next = (end < found.len()).then(|| end.to_string());
        Ok(json!({"Parameters": page, "NextToken": next}))
    }

    fn admit(&self, caller: &Caller, action: &str, name: &str) -> Answer<()> {
        if self.state().readable.contains(name) {
            return Ok(());
        }
        let user = caller.principal.arn();
        let region = &caller.region;
        let account = &caller.principal.account;
        let text = format!(
            "User: {user} is not authorized to perform: ssm:{action} on resource: \
             arn:aws:ssm:{region}:{account}:parameter{name} because no identity-based policy allows \
             the ssm:{action} action"
        );
        Err(("AccessDeniedException", Some(text)))
    }

    fn of(&self, caller: &Caller) -> Vec<Parameter> {
        let place = (caller.region.clone(), caller.principal.account.clone());
        let state = self.state();
        state.parameters.iter().filter(|parameter| parameter.place == place).cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no poisoned lock")
    }
}

impl Parameter {
    fn is_directly_under(&self, path: &str) -> bool {
        let path = path.strip_suffix('/').unwrap_or(path);
        let rest = self.name.strip_prefix(path).and_then(|rest| rest.strip_prefix('/'));
        rest.is_some_and(|rest| !rest.contains('/'))
    }

    fn view(&self, asked: &Value) -> Value {
        let encrypted = || STANDARD.encode(format!("encrypted {}", self.name));
        let value = if asked["WithDecryption"] == true { self.value.clone() } else { encrypted() };
        json!({"Name": self.name, "Type": "SecureString", "Value": value, "Version": 1})
    }
}

/// A request whose signature does not hold.
pub fn refuse(refusal: &Refusal) -> Response {
    let body = json!({"__type": refusal.code, "message": refusal.message});
    respond(StatusCode::BAD_REQUEST, &body)
}

fn respond(status: StatusCode, body: &Value) -> Response {
    operation::respond(status, "application/x-amz-json-1.1", body.to_string())
}
