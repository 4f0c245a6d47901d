//! Lambda's side of the runtime API, for one execution environment: hands out one invocation at a time
//! and takes the answer or the error for it.
//! <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path as FilePath;
use std::process::Stdio;
use std::sync::{Arc, Mutex as StdMutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::{Mutex, Notify, mpsc, oneshot};

use super::REGION;

/// The function as `Lambda-Runtime-Invoked-Function-Arn` names it.
pub const FUNCTION_ARN: &str = "arn:aws:lambda:eu-central-1:111122223333:function:cloud-map-sync";

/// The most that Lambda takes for an answer: 6 MB.
const LONGEST_ANSWER: usize = 6 * 1024 * 1024;

/// What became of an invocation.
pub type Outcome = Result<Value, Failure>;

/// What Lambda tells the caller of a function that failed.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Failure {
    /// The error's stable name.
    pub error_type: String,
    pub error_message: String,
}

/// The running server; it ends with the tokio runtime. Clones share it.
#[derive(Clone)]
pub struct RuntimeApi {
    address: SocketAddr,
    queue: mpsc::UnboundedSender<Invocation>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Invocation {
    payload: Value,
    alias: Option<String>,
    deadline: SystemTime,
    answer: oneshot::Sender<Outcome>,
}

struct Shared {
    queue: Mutex<mpsc::UnboundedReceiver<Invocation>>,
    open: StdMutex<BTreeMap<String, oneshot::Sender<Outcome>>>,
    handed_out: StdMutex<u32>,
    polled: Notify,
}

impl RuntimeApi {
    /// Starts the server on a free loopback port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let address = listener.local_addr().expect("the bound address");
        let (queue, waiting) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            queue: Mutex::new(waiting),
            open: StdMutex::default(),
            handed_out: StdMutex::default(),
            polled: Notify::new(),
        });
        let router = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next))
            .route("/2018-06-01/runtime/invocation/{id}/{outcome}", post(outcome))
            .layer(DefaultBodyLimit::max(LONGEST_ANSWER))
            .with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, queue, shared }
    }

    /// `AWS_LAMBDA_RUNTIME_API`: host and port.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// A command that starts a binary as an execution environment of this server, for a measurement: it logs errors
    /// alone, its output is dropped, and it ends with the handle of its process.
    pub fn command(&self, binary: &FilePath) -> Command {
        let mut command = Command::new(binary);
        command
            .env_clear()
            .env("AWS_LAMBDA_RUNTIME_API", self.address())
            .env("AWS_LAMBDA_FUNCTION_NAME", "cloud-map-sync")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .env("AWS_LAMBDA_LOG_GROUP_NAME", "/aws/lambda/cloud-map-sync")
            .env("AWS_LAMBDA_LOG_STREAM_NAME", "bench")
            .env("AWS_LAMBDA_LOG_FORMAT", "JSON")
            .env("AWS_LAMBDA_LOG_LEVEL", "ERROR")
            .env("AWS_REGION", REGION)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Queues a payload, to be answered within `time`; the function's word comes through the channel.
    pub fn invoke(&self, payload: Value, time: Duration) -> oneshot::Receiver<Outcome> {
        self.invoke_through(None, payload, time)
    }

    /// The same through an alias.
    pub fn invoke_through(
        &self,
        alias: Option<String>,
        payload: Value,
        time: Duration,
    ) -> oneshot::Receiver<Outcome> {
        let (answer, outcome) = oneshot::channel();
        let deadline = SystemTime::now() + time;
        let invocation = Invocation { payload, alias, deadline, answer };
        self.queue.send(invocation).expect("the server holds the other end");
        outcome
    }

    /// Waits until the function asks for work.
    pub async fn polled(&self) {
        self.shared.polled.notified().await;
    }
}

/// Waits for an invocation as long as it takes: Lambda freezes the function meanwhile.
async fn next(State(shared): State<Arc<Shared>>) -> Response {
    shared.polled.notify_one();
    let Some(invocation) = shared.queue.lock().await.recv().await else {
        return StatusCode::GONE.into_response();
    };
    let id = shared.hand_out(invocation.answer);
    let deadline = invocation.deadline.duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
    let arn = invocation.alias.map(|alias| format!("{FUNCTION_ARN}:{alias}"));
    let headers = [
        ("Lambda-Runtime-Aws-Request-Id", id),
        ("Lambda-Runtime-Deadline-Ms", deadline.to_string()),
        ("Lambda-Runtime-Invoked-Function-Arn", arn.unwrap_or(FUNCTION_ARN.to_owned())),
        (
            "Lambda-Runtime-Trace-Id",
            "Root=1-6a200a40-0123456789abcdef01234567;Parent=0123456789abcdef;Sampled=0".to_owned(),
        ),
    ];
    (headers, Json(invocation.payload)).into_response()
}

async fn outcome(
    State(shared): State<Arc<Shared>>,
    Path((id, outcome)): Path<(String, String)>,
    body: Bytes,
) -> Result<StatusCode, StatusCode> {
    let outcome = match outcome.as_str() {
        "response" => Ok(json(&body)?),
        "error" => Err(json(&body)?),
        _ => return Err(StatusCode::NOT_FOUND),
    };
    Ok(shared.close(&id, outcome))
}

/// Runtimes need not name the type of what they send.
fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, StatusCode> {
    serde_json::from_slice(body).map_err(|_| StatusCode::BAD_REQUEST)
}

impl Shared {
    fn hand_out(&self, answer: oneshot::Sender<Outcome>) -> String {
        let mut handed_out = lock(&self.handed_out);
        *handed_out += 1;
        let id = format!("8476a536-e9f4-11e8-9739-{:012x}", *handed_out);
        lock(&self.open).insert(id.clone(), answer);
        id
    }

    /// Each invocation is answered once.
    fn close(&self, id: &str, outcome: Outcome) -> StatusCode {
        match lock(&self.open).remove(id) {
            Some(answer) => {
                // The test that asked may have ended already.
                let _ = answer.send(outcome);
                StatusCode::ACCEPTED
            }
            None => StatusCode::FORBIDDEN,
        }
    }
}

fn lock<T>(mutex: &StdMutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no poisoned lock")
}
