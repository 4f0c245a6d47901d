//! The Lambda function: cold start, then one invocation after another. No decisions. What keeps it from
//! starting is told to Lambda, which tells whoever invokes the function.

use std::process::ExitCode;
use std::time::SystemTime;

use cloud_map_sync::clients::sdk_config;
use cloud_map_sync::deadline::{Deadline, time_left};
use cloud_map_sync::handler::{Error, Function};
use cloud_map_sync::report::chain;
use cloud_map_sync::settings::{Mistakes, Settings};
use lambda_runtime::{Diagnostic, LambdaEvent, run, service_fn};
use lambda_runtime_api_client::body::Body;
use lambda_runtime_api_client::{BoxError, PooledClient, build_request};
use serde_json::Value;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

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
    start_log();
    let region = std::env::var("AWS_REGION").ok();
    let served = match Settings::read(|name| std::env::var(name).ok(), region.as_deref()) {
        Ok(settings) => Box::pin(serve(settings)).await,
        Err(mistakes) => refuse(mistakes).await,
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("the function ends: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}

/// The log in the format and at the level of Lambda's logging controls. The signer is kept quiet: at
/// TRACE it tells the session token of each presigned URL.
fn start_log() {
    let variable = |name: &str| std::env::var(name).ok();
    let level = variable("AWS_LAMBDA_LOG_LEVEL").or_else(|| variable("RUST_LOG"));
    let level = level.and_then(|text| text.parse().ok()).unwrap_or(LevelFilter::INFO);
    let filter = Targets::new().with_default(level).with_target("aws_sigv4", LevelFilter::INFO);
    let lines = fmt::layer().with_target(false).without_time();
    let json = variable("AWS_LAMBDA_LOG_FORMAT").is_some_and(|it| it.eq_ignore_ascii_case("json"));
    let lines = if json { lines.json().boxed() } else { lines.boxed() };
    tracing_subscriber::registry().with(lines).with(filter).init();
}

async fn serve(settings: Settings) -> Result<(), BoxError> {
    let function = &Function::new(settings, sdk_config().load().await);
    run(service_fn(move |event: LambdaEvent<Value>| async move {
        let deadline = Deadline::after(time_left(event.context.deadline(), SystemTime::now()));
        Box::pin(function.invoke(&event.payload, deadline))
            .await
            .response
            .map_err(|error| diagnostic(&error))
    }))
    .await
}

/// Tells Lambda the reason, of which it would otherwise only see that the process ended with 1.
async fn refuse(mistakes: Mistakes) -> Result<(), BoxError> {
    let error_message = mistakes.to_string();
    let reason = Diagnostic { error_type: "InvalidSettings".to_owned(), error_message };
    let request = build_request()
        .method("POST")
        .uri("/2018-06-01/runtime/init/error")
        .header("Lambda-Runtime-Function-Error-Type", &reason.error_type)
        .body(Body::from(serde_json::to_vec(&reason)?))?;
    if let Err(error) = PooledClient::builder().build().call(request).await {
        tracing::error!("Lambda was not told why the function ends: {}", chain(&*error));
    }
    Err(mistakes.into())
}

fn diagnostic(error: &Error) -> Diagnostic {
    Diagnostic { error_type: error.kind().to_owned(), error_message: chain(error) }
}
