//! The Lambda function: a cold start, then one invocation after another. An error at the start is reported to Lambda,
//! which returns it to the caller of the function.

use std::error::Error;
use std::io;
use std::process::ExitCode;
use std::time::SystemTime;

use aws_config::SdkConfig;
use cloud_map_sync::clients::sdk_config;
use cloud_map_sync::error::chain;
use cloud_map_sync::function::{Body, Function};
use cloud_map_sync::lambda;
use cloud_map_sync::report::metrics::{self, WrittenMetrics};
use cloud_map_sync::settings::{self, LoadError, Settings};
use cloud_map_sync::time::{Deadline, time_left};
use lambda_runtime::{Context, Diagnostic, LambdaEvent, Runtime, service_fn};
use lambda_runtime_api_client::BoxError;
use serde_json::Value;
use tracing::Instrument;
use tracing_subscriber::util::SubscriberInitExt;

/// Lambda and cargo-lambda set this variable when they start a function.
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
    lambda::subscriber(|name| std::env::var(name).ok(), io::stdout).init();
    let config = sdk_config().load().await;
    let served = match Box::pin(settings::load(|name| std::env::var(name).ok(), &config)).await {
        Ok(settings) => Box::pin(serve(settings, config)).await,
        Err(error) => report_start_error(error).await,
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("the function ends: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn serve(settings: Settings, config: SdkConfig) -> Result<(), BoxError> {
    let metrics = settings.metrics;
    let function = &Function::new(settings, config);
    // Not `lambda_runtime::run`: its span has other field names.
    let runtime = Runtime::new(service_fn(move |event: LambdaEvent<Value>| {
        let span = lambda::span(&event.context);
        invoke(function, metrics, event.payload, event.context).instrument(span)
    }));
    Box::pin(runtime.run()).await
}

async fn invoke(
    function: &Function,
    metrics: WrittenMetrics,
    payload: Value,
    context: Context,
) -> Result<Body, Diagnostic> {
    let deadline = Deadline::after(time_left(context.deadline(), SystemTime::now()));
    let qualifier = lambda::qualifier(&context);
    let reply = Box::pin(function.reply(qualifier, &payload, deadline)).await;
    let (function, now) = (&context.env_config.function_name, SystemTime::now());
    let (report, queued) = (reply.report.as_ref(), &reply.queued);
    let written = metrics::write(report, queued, metrics, function, now, &mut io::stdout());
    if let Err(error) = written {
        tracing::error!("metrics are not written: {}", chain(&error));
    }
    reply.into_body().map_err(|error| diagnostic(error.kind(), &error))
}

async fn report_start_error(error: LoadError) -> Result<(), BoxError> {
    let reason = diagnostic(error.kind(), &error);
    if let Err(error) = lambda::refuse_to_start(&reason).await {
        tracing::error!("cannot report to Lambda why the function ends: {}", chain(&*error));
    }
    Err(error.into())
}

fn diagnostic(kind: &str, error: &dyn Error) -> Diagnostic {
    Diagnostic { error_type: kind.to_owned(), error_message: chain(error) }
}
