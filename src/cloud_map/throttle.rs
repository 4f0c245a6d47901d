//! Reports the retries and throttles of the SDK to the token buckets. The SDK's backoff delays one call; the buckets
//! slow down the calls that follow.

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

/// Cloud Map's error codes of throttling. The SDK models them for discovery only.
const THROTTLES: [&str; 3] =
    ["ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException"];

/// Observes every attempt of every call.
#[derive(Debug)]
pub(super) struct AttemptObserver(pub(super) Arc<Quotas>);

impl Intercept for AttemptObserver {
    fn name(&self) -> &'static str {
        "CloudMapQuotas"
    }

    fn read_before_attempt(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.record_attempt();
        let is_retry = config.load::<RequestAttempts>().is_some_and(|it| it.attempts() > 1);
        if let Some(call) = call(config).filter(|_| is_retry) {
            self.0.record_retry(call);
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
            (Some(call), Some(response)) if is_throttle(response) => self.0.record_throttle(call),
            (Some(call), Some(_)) => self.0.record_success(call),
            _ => {}
        }
        Ok(())
    }
}

fn call(config: &ConfigBag) -> Option<Call> {
    Call::parse(config.load::<Metadata>()?.name())
}

fn is_throttle(response: &HttpResponse) -> bool {
    let has_code = |text: &str| THROTTLES.iter().any(|throttle| text.contains(throttle));
    !response.status().is_success()
        && response.body().bytes().is_some_and(|body| has_code(&String::from_utf8_lossy(body)))
}
