//! What the SDK does by itself, told to the buckets: each of its retries is a call, and each throttle says that there
//! were too many. The SDK backs off for the one call; the buckets slow down those that follow.

use std::sync::Arc;

use aws_sdk_servicediscovery::config::interceptors::{
    BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef,
};
use aws_sdk_servicediscovery::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::orchestrator::{HttpResponse, Metadata};
use aws_smithy_runtime_api::client::retries::RequestAttempts;

use super::call::Call;
use super::quota::Quotas;

/// How Cloud Map says that there are too many calls: none of it is an error of the model but for discovery.
const THROTTLES: [&str; 3] =
    ["ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException"];

/// Looks at every try of every call.
#[derive(Debug)]
pub(super) struct Tries(pub(super) Arc<Quotas>);

impl Intercept for Tries {
    fn name(&self) -> &'static str {
        "CloudMapQuotas"
    }

    fn read_before_attempt(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.tried();
        let again = config.load::<RequestAttempts>().is_some_and(|tries| tries.attempts() > 1);
        if let Some(call) = call(config).filter(|_| again) {
            self.0.repeated(call);
        }
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        match (call(config), context.response()) {
            (Some(call), Some(response)) if is_throttle(response) => self.0.throttled(call),
            (Some(call), Some(_)) => self.0.passed(call),
            _ => {}
        }
        Ok(())
    }
}

fn call(config: &ConfigBag) -> Option<Call> {
    Call::named(config.load::<Metadata>()?.name())
}

fn is_throttle(response: &HttpResponse) -> bool {
    let says = |text: &str| THROTTLES.iter().any(|throttle| text.contains(throttle));
    !response.status().is_success()
        && response.body().bytes().is_some_and(|body| says(&String::from_utf8_lossy(body)))
}
