//! The process in Lambda's runtime: one invocation after another. It also has the span around the log lines of an
//! invocation, the alias of an invocation, and the log.

use std::error::Error;
use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use aws_config::SdkConfig;
use json_subscriber::JsonLayer;
use lambda_runtime::{Context, Diagnostic, LambdaEvent, Runtime, service_fn};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tracing::{Instrument, Span, Subscriber, error_span};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::util::SubscriberInitExt;

use crate::clients::sdk_config;
use crate::error::chain;
use crate::function::{Body, Function};
use crate::report::metrics;
use crate::settings::{self, LoadError};
use crate::time::{Deadline, time_left};

/// The variable that Lambda and cargo-lambda set when they start a function.
const RUNTIME_API: &str = "AWS_LAMBDA_RUNTIME_API";

/// Starts the function, and serves invocations until the process ends.
pub async fn main() -> ExitCode {
    if std::env::var_os(RUNTIME_API).is_none() {
        eprintln!(
            "cloud-map-sync is an AWS Lambda function and {RUNTIME_API} is not set: to try it \
             without AWS, run `cargo run --example sandbox`"
        );
        return ExitCode::from(2);
    }
    subscriber(|name| std::env::var(name).ok(), io::stdout).init();
    let config = sdk_config().load().await;
    match Box::pin(Process { config, function: OnceCell::new() }.serve()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("the function ends: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}

/// The process, which creates its function at the first invocation: only the ARN of an invocation has the account and
/// Region of clusters that `CLUSTERS` gives by name. Settings that are invalid or cannot be read fail each invocation
/// until they are corrected.
struct Process {
    config: SdkConfig,
    function: OnceCell<Function>,
}

impl Process {
    async fn serve(self) -> Result<(), lambda_runtime::Error> {
        let process = &self;
        // `lambda_runtime::run` is not used, since its span has other field names.
        let runtime = Runtime::new(service_fn(move |event: LambdaEvent<Value>| {
            let span = span(&event.context);
            process.invoke(event.payload, event.context).instrument(span)
        }));
        Box::pin(runtime.run()).await
    }

    async fn invoke(&self, payload: Value, context: Context) -> Result<Body, Diagnostic> {
        let deadline = Deadline::after(time_left(context.deadline(), SystemTime::now()));
        let function = self.function(&context.invoked_function_arn).await.map_err(|error| {
            tracing::error!("the settings of the function cannot be used: {}", chain(&error));
            diagnostic(error.kind(), &error)
        })?;
        let reply = Box::pin(function.reply(qualifier(&context), &payload, deadline)).await;
        let name = &context.env_config.function_name;
        if let Some(report) = &reply.report
            && let Err(error) = metrics::write(report, name, SystemTime::now(), &mut io::stdout())
        {
            tracing::error!("metrics are not written: {}", chain(&error));
        }
        reply.into_body().map_err(|error| diagnostic(error.kind(), &error))
    }

    /// Returns the function. Loads its settings unless an earlier invocation has.
    async fn function(&self, invoked_arn: &str) -> Result<&Function, LoadError> {
        let load = async || {
            let variable = |name: &str| std::env::var(name).ok();
            let settings = Box::pin(settings::load(variable, Some(invoked_arn), &self.config));
            Ok(Function::new(settings.await?, self.config.clone()))
        };
        self.function.get_or_try_init(load).await
    }
}

fn diagnostic(kind: &str, error: &dyn Error) -> Diagnostic {
    Diagnostic { error_type: kind.to_owned(), error_message: chain(error) }
}

/// Returns the span of an invocation, with the keys that users of Powertools for AWS Lambda search by. It has the level
/// ERROR, so that no log level removes it.
pub fn span(context: &Context) -> Span {
    static WARM: AtomicBool = AtomicBool::new(false);
    error_span!(
        "invocation",
        function_request_id = context.request_id,
        xray_trace_id = context.xray_trace_id,
        function_arn = context.invoked_function_arn,
        cold_start = !WARM.swap(true, Ordering::Relaxed),
    )
}

/// Returns the alias or version through which the function was invoked: the eighth part of the invoked ARN, if it has
/// one.
fn qualifier(context: &Context) -> Option<&str> {
    context.invoked_function_arn.split(':').nth(7)
}

/// Returns the log that the environment configures, written to `output`. `variable` reads an environment variable.
pub fn subscriber<W>(variable: impl Fn(&str) -> Option<String>, output: W) -> impl Subscriber
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let level = variable("AWS_LAMBDA_LOG_LEVEL").or_else(|| variable("RUST_LOG"));
    let level = level.and_then(|text| text.parse().ok()).unwrap_or(LevelFilter::INFO);
    // At TRACE the signer logs the session token of each presigned URL.
    let filter = Targets::new().with_default(level).with_target("aws_sigv4", LevelFilter::INFO);
    let json =
        variable("AWS_LAMBDA_LOG_FORMAT").is_some_and(|text| text.eq_ignore_ascii_case("json"));
    let lines = if json {
        json_lines(variable, output).boxed()
    } else {
        fmt::layer().with_target(false).without_time().with_writer(output).boxed()
    };
    Registry::default().with(lines).with(filter)
}

fn json_lines<S, W>(variable: impl Fn(&str) -> Option<String>, output: W) -> JsonLayer<S, W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    let mut lines = JsonLayer::new(output);
    lines.with_level("level");
    lines.with_timer("timestamp", fmt::time::SystemTime);
    lines.with_flattened_event();
    lines.with_top_level_flattened_span_list();
    lines.add_static_field("service", json!("cloud-map-sync"));
    for (key, name) in [
        ("function_name", "AWS_LAMBDA_FUNCTION_NAME"),
        ("function_memory_size", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"),
    ] {
        if let Some(value) = variable(name) {
            lines.add_static_field(key, json!(value));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use tracing::{debug, info, info_span};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log_lines(variables: &'static [(&str, &str)]) -> String {
        let written = Written::default();
        let output = written.clone();
        let variable = move |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let subscriber = subscriber(variable, move || output.clone());
        tracing::subscriber::with_default(subscriber, || {
            let span = info_span!("invocation", function_request_id = "r-1", cold_start = true);
            let _entered = span.enter();
            info!(cluster = "blue", "done");
            debug!("detail");
        });
        let bytes = written.0.lock().expect("no panic").clone();
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn json_lines_have_the_keys_of_powertools_on_top() {
        let text = log_lines(&[
            ("AWS_LAMBDA_LOG_FORMAT", "JSON"),
            ("AWS_LAMBDA_FUNCTION_NAME", "sync"),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
        ]);
        let line: Value = serde_json::from_str(text.trim()).expect("one line of JSON");
        let expected = [
            ("level", "INFO"),
            ("message", "done"),
            ("service", "cloud-map-sync"),
            ("function_name", "sync"),
            ("function_memory_size", "256"),
            ("function_request_id", "r-1"),
            ("cluster", "blue"),
        ];
        for (key, value) in expected {
            assert_eq!(line[key], value, "{key} in {line}");
        }
        assert_eq!(line["cold_start"], true);
        assert!(line["timestamp"].is_string(), "{line}");
    }

    #[test]
    fn level_and_format_are_lambdas() {
        assert!(log_lines(&[("AWS_LAMBDA_LOG_LEVEL", "WARN"), ("RUST_LOG", "debug")]).is_empty());
        let text = log_lines(&[("RUST_LOG", "debug")]);
        assert_eq!(text.lines().count(), 2);
        assert!(serde_json::from_str::<Value>(text.lines().next().expect("a line")).is_err());
    }
}
