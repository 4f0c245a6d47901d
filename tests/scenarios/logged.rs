//! The log of a test, kept in memory: any log, or that of an invocation as the binary writes it.

use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::SystemTime;

use cloud_map_sync::function::Function;
use cloud_map_sync::lambda;
use cloud_map_sync::report::metrics;
use lambda_runtime::Context;
use serde_json::Value;
use tracing::subscriber::NoSubscriber;
use tracing::{Dispatch, Instrument};
use tracing_subscriber::fmt::MakeWriter;

use testbed::function::{Answer, invoke};

const FUNCTION: &str = "cloud-map-sync";

/// With a single dispatcher in the process, tracing decides whether a line is on by that of the thread that reaches it
/// first: a test that logs nowhere would switch it off for all. So there is a second one.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// Keeps all that is logged.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no poisoned lock").write(text)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Log {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("no poisoned lock")).into_owned()
    }

    fn take(&self) -> String {
        let taken = std::mem::take(&mut *self.0.lock().expect("no poisoned lock"));
        String::from_utf8(taken).expect("text")
    }
}

/// The lines that the binary writes in one invocation, with its metrics.
pub async fn invoke_logged(function: &Function, payload: &Value) -> (Answer, Vec<String>) {
    LazyLock::force(&SECOND);
    let mut log = Log::default();
    let variable = |name: &str| match name {
        "AWS_LAMBDA_LOG_FORMAT" => Some("JSON".to_owned()),
        "AWS_LAMBDA_FUNCTION_NAME" => Some(FUNCTION.to_owned()),
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE" => Some("256".to_owned()),
        _ => None,
    };
    let logging = tracing::subscriber::set_default(lambda::subscriber(variable, log.clone()));
    let mut context = Context::default();
    "8f5d0a3c-2b1e-4c6d-9f7a-0123456789ab".clone_into(&mut context.request_id);
    context.invoked_function_arn =
        format!("arn:aws:lambda:eu-central-1:111122223333:function:{FUNCTION}");
    context.xray_trace_id = Some(
        "Root=1-67a0f5c2-0123456789abcdef01234567;Parent=0123456789abcdef;Sampled=0".to_owned(),
    );
    let answer = invoke(function, payload).instrument(lambda::span(&context)).await;
    drop(logging);
    if let Some(report) = &answer.report {
        metrics::write(report, FUNCTION, SystemTime::now(), &mut log).expect("memory");
    }
    (answer, log.take().lines().map(str::to_owned).collect())
}
