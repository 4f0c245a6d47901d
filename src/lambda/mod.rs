//! What the process is in Lambda's hands: its log in the form of Lambda's logging controls (`log`),
//! the span that every line of an invocation stands in, and the reason for which it does not start.

pub mod log;

use std::sync::atomic::{AtomicBool, Ordering};

use lambda_runtime::{Context, Diagnostic};
use lambda_runtime_api_client::body::Body;
use lambda_runtime_api_client::{BoxError, PooledClient, build_request};
use tracing::{Span, error_span};

/// The span of an invocation, with the keys that users of Powertools for AWS Lambda search by. Its level
/// is the highest, so that it is there whatever the log leaves out.
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

/// Tells Lambda the reason for which the function does not start, of which it would otherwise only
/// see that the process ended.
///
/// # Errors
/// Where Lambda cannot be reached.
pub async fn refuse_to_start(reason: &Diagnostic) -> Result<(), BoxError> {
    let request = build_request()
        .method("POST")
        .uri("/2018-06-01/runtime/init/error")
        .header("Lambda-Runtime-Function-Error-Type", &reason.error_type)
        .body(Body::from(serde_json::to_vec(reason)?))?;
    PooledClient::builder().build().call(request).await?;
    Ok(())
}
