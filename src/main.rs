//! The Lambda function: cold start, then one invocation after another. No decisions.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use cloud_map_sync::clients::sdk_config;
use cloud_map_sync::deadline::Deadline;
use cloud_map_sync::handler::{Error, Function};
use cloud_map_sync::report::chain;
use cloud_map_sync::settings::Settings;
use lambda_runtime::{Diagnostic, LambdaEvent, run, service_fn, tracing as logging};
use serde_json::Value;

/// What Lambda sets wherever it starts a function, and cargo-lambda too.
const RUNTIME_API: &str = "AWS_LAMBDA_RUNTIME_API";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if std::env::var_os(RUNTIME_API).is_none() {
        eprintln!(
            "cloud-map-sync is an AWS Lambda function and {RUNTIME_API} is not set: to try it \
             without AWS, run `cargo run --example sandbox`"
        );
        return ExitCode::from(2);
    }
    logging::init_default_subscriber();
    match Box::pin(serve()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("the function ends: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<(), lambda_runtime::Error> {
    let region = std::env::var("AWS_REGION").ok();
    let settings = Settings::read(|name| std::env::var(name).ok(), region.as_deref())?;
    let function = &Function::new(settings, sdk_config().load().await);
    run(service_fn(move |event: LambdaEvent<Value>| async move {
        let deadline = Deadline::after(time_left(event.context.deadline()));
        function.invoke(&event.payload, deadline).await.response.map_err(|error| diagnostic(&error))
    }))
    .await
}

/// Lambda gives the deadline by wall clock.
fn time_left(deadline: SystemTime) -> Duration {
    deadline.duration_since(SystemTime::now()).unwrap_or_default()
}

fn diagnostic(error: &Error) -> Diagnostic {
    Diagnostic { error_type: error.kind().to_owned(), error_message: chain(error) }
}
