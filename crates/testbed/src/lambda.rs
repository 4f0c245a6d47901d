//! The Lambda stand-in: Invoke and GetFunctionConfiguration of the functions that a test deploys, for the roles that it
//! allows. A function is the handler in the process of the test, or the binary behind a runtime API.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::http::StatusCode;
use axum::response::Response;
use cloud_map_sync::function::Function;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::function;
use super::operation::{pairs, respond, respond_error};
use super::sigv4::{Caller, Refusal};
use cloud_map_sync::error::chain;

const PREFIX: &str = "/2015-03-31/functions/";
const INVOKE: &str = "Invoke";

/// What a function does with a payload, and with the alias of the call; what it fails with is `errorType` and
/// `errorMessage`.
pub type Handler =
    Arc<dyn Fn(Value, Option<String>) -> BoxFuture<'static, Result<Value, Value>> + Send + Sync>;

/// A deployed function.
#[derive(Clone)]
pub struct Deployed {
    pub environment: BTreeMap<String, String>,
    pub aliases: BTreeSet<String>,
    pub handler: Handler,
}

impl Deployed {
    /// This function, here.
    pub fn in_process(function: Function) -> Self {
        let function = Arc::new(function);
        let handler: Handler = Arc::new(move |payload, alias| {
            let function = function.clone();
            let runtime = Handle::current();
            // The handler's future stays on one thread, as in Lambda.
            let answer = move || {
                let answer = function::invoke_through(&function, alias.as_deref(), &payload);
                runtime.block_on(answer).response
            };
            Box::pin(async move {
                let answer = tokio::task::spawn_blocking(answer).await.expect("no panic");
                answer.map_err(
                    |error| json!({"errorType": error.kind(), "errorMessage": chain(&error)}),
                )
            })
        });
        Self { environment: BTreeMap::new(), aliases: BTreeSet::new(), handler }
    }
}

/// The functions of all accounts and Regions; clones share them.
#[derive(Clone, Default)]
pub struct Lambda(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// By ARN.
    functions: BTreeMap<String, Deployed>,
    /// The roles that may use every function of their account.
    users: BTreeSet<String>,
    /// The errors that answer the next invocations; their functions do not run.
    refusals: VecDeque<(StatusCode, &'static str)>,
}

/// One of the two operations, on a function by name.
pub struct Call {
    pub operation: &'static str,
    /// What a policy allows.
    action: &'static str,
    function: String,
}

impl Call {
    /// Reads a request's path.
    pub fn of(path: &str) -> Option<Self> {
        let (function, part) = path.strip_prefix(PREFIX)?.split_once('/')?;
        let (operation, action) = match part {
            "invocations" => (INVOKE, "lambda:InvokeFunction"),
            "configuration" => ("GetFunctionConfiguration", "lambda:GetFunctionConfiguration"),
            _ => return None,
        };
        Some(Self { operation, action, function: function.to_owned() })
    }
}

impl Lambda {
    /// Deploys a function, or changes it.
    pub fn deploy(&self, region: &str, account: &str, name: &str, function: Deployed) {
        self.state().functions.insert(arn(region, account, name), function);
    }

    /// Lets a role invoke the functions of its account, and read their settings.
    pub fn allow(&self, role_arn: &str) {
        self.state().users.insert(role_arn.to_owned());
    }

    /// Answers one more of the next invocations with this error.
    pub fn refuse(&self, status: StatusCode, code: &'static str) {
        self.state().refusals.push_back((status, code));
    }

    /// Answers an operation.
    pub async fn answer(&self, call: &Call, caller: &Caller, query: &str, body: &[u8]) -> Response {
        let arn = arn(&caller.region, &caller.principal.account, &call.function);
        if !self.state().users.contains(&caller.principal.role_arn) {
            return denied(call, &caller.principal.arn(), &arn);
        }
        let refusal = match call.operation {
            INVOKE => self.state().refusals.pop_front(),
            _ => None,
        };
        if let Some((status, code)) = refusal {
            return error(status, code, "said by a test");
        }
        let found = self.state().functions.get(&arn).cloned();
        let qualifier = pairs(query).into_iter().find(|(key, _)| key == "Qualifier");
        let qualifier = qualifier.map(|(_, value)| value);
        let has = |function: &Deployed| {
            qualifier.as_ref().is_none_or(|alias| function.aliases.contains(alias))
        };
        match found.filter(has) {
            None => {
                let arn = qualifier.map_or(arn.clone(), |alias| format!("{arn}:{alias}"));
                let text = format!("Function not found: {arn}");
                error(StatusCode::NOT_FOUND, "ResourceNotFoundException", &text)
            }
            Some(function) if call.operation == INVOKE => invoke(&function, qualifier, body).await,
            Some(function) => answer(&json!({
                "FunctionName": call.function, "FunctionArn": arn, "Runtime": "provided.al2023",
                "Timeout": 300, "Environment": {"Variables": function.environment},
            })),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no poisoned lock")
    }
}

async fn invoke(function: &Deployed, alias: Option<String>, body: &[u8]) -> Response {
    let Ok(payload) = serde_json::from_slice(body) else {
        let text = "Could not parse request body into json";
        return error(StatusCode::BAD_REQUEST, "InvalidRequestContentException", text);
    };
    match (function.handler)(payload, alias).await {
        Ok(answered) => answer(&answered),
        Err(failure) => {
            let mut response = answer(&failure);
            let unhandled = "Unhandled".parse().expect("a header's value");
            response.headers_mut().insert("x-amz-function-error", unhandled);
            response
        }
    }
}

fn arn(region: &str, account: &str, name: &str) -> String {
    format!("arn:aws:lambda:{region}:{account}:function:{name}")
}

fn denied(call: &Call, user: &str, arn: &str) -> Response {
    let action = call.action;
    let text = format!(
        "User: {user} is not authorized to perform: {action} on resource: {arn} because no \
         identity-based policy allows the {action} action"
    );
    error(StatusCode::FORBIDDEN, "AccessDeniedException", &text)
}

/// A request whose signature does not hold.
pub fn refuse(refusal: &Refusal) -> Response {
    error(StatusCode::FORBIDDEN, refusal.code, &refusal.message)
}

fn error(status: StatusCode, code: &str, message: &str) -> Response {
    respond_error(status, code, &json!({"Type": "User", "Message": message}))
}

fn answer(body: &Value) -> Response {
    respond(StatusCode::OK, "application/json", body.to_string())
}
