//! The SDK configuration: retries, timeouts, and the roles that are assumed in other accounts.

use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::sts::AssumeRoleProvider;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, ConfigLoader, Region, SdkConfig};
use aws_credential_types::provider::SharedCredentialsProvider;

use crate::settings::Role;

use super::Clients;

/// The attempts of one AWS call, with a backoff between them. The SDK's adaptive mode is not used: after one throttle
/// it limits all calls to about one per second.
const MAX_ATTEMPTS: u32 = 8;
const MAX_BACKOFF: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);

/// The SDK configuration with the function's retries and timeouts, to be loaded from the environment.
pub fn sdk_config() -> ConfigLoader {
    let retries =
        RetryConfig::standard().with_max_attempts(MAX_ATTEMPTS).with_max_backoff(MAX_BACKOFF);
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .build();
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .retry_config(retries)
        .timeout_config(timeouts)
}

impl Clients {
    pub(super) async fn config(&self, role: Option<&Role>, region: Option<&str>) -> SdkConfig {
        let mut config = self.base.to_builder();
        if let Some(region) = region {
            config = config.region(Region::new(region.to_owned()));
        }
        if let Some(role) = role {
            let mut provider = AssumeRoleProvider::builder(role.arn.clone())
                .session_name("cloud-map-sync")
                .configure(&self.base);
            if let Some(id) = &role.external_id {
                provider = provider.external_id(id);
            }
            let provider = provider.build().await;
            config = config.credentials_provider(SharedCredentialsProvider::new(provider));
        }
        config.build()
    }
}
