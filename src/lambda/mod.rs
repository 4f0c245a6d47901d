//! The process in Lambda's runtime: its log (`log`), the span around every line of an invocation, the alias of a call, and
//! the report of an error at the start.

pub mod log;

use std::sync::atomic::{AtomicBool, Ordering};

use lambda_runtime::{Context, Diagnostic};
use lambda_runtime_api_client::body::Body;
use lambda_runtime_api_client::{BoxError, PooledClient, build_request};
use tracing::{Span, error_span};

/// The span of an invocation, with the keys that users of Powertools for AWS Lambda search by. It has the level ERROR,
/// so that no log level removes it.
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

/// The alias or version through which the function was invoked: the eighth part of the invoked ARN.
pub fn qualifier(context: &Context) -> Option<&str> {
    context.invoked_function_arn.split(':').nth(7)
}

/// Reports to Lambda the reason why the function does not start. Otherwise Lambda reports only that the process ended.
///
/// # Errors
/// Returns an error if Lambda cannot be reached.
pub async fn refuse_to_start(reason: &Diagnostic) -> Result<(), BoxError> {
    let request = build_request()
        .method("POST")
        .uri("/2018-06-01/runtime/init/error")
        .header("Lambda-Runtime-Function-Error-Type", &reason.error_type)
        .body(Body::from(serde_json::to_vec(reason)?))?;
    PooledClient::builder().build().call(request).await?;
    Ok(())
}
