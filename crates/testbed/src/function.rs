//! The function with the sandbox's settings: the real handler and its own clients, whose requests reach the stand-ins
//! without sockets, unless the sandbox uses them.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::future::ProvideCredentials as Provided;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use cloud_map_sync::clients::sdk_config;
use cloud_map_sync::function::{Error, Function, Reply};
use cloud_map_sync::report::Report;
use cloud_map_sync::settings as function_settings;
use cloud_map_sync::time::Deadline;
use serde_json::{Value, json};

use super::aws::Aws;
use super::clock::TokioTime;
use super::identity::AccessKey;
use super::runtime_api::FUNCTION_ARN;
use super::{REGION, ROLE_ARN, Sandbox, in_process};

/// The time an invocation is given, as the template sets it.
pub const TIMEOUT: Duration = Duration::from_mins(5);

impl Sandbox {
    /// The function as it would be in the sandbox's environment, with more or other settings.
    pub async fn function(&self, settings: &[(&str, &str)]) -> Function {
        self.function_invoked_as(FUNCTION_ARN, settings).await
    }

    /// The same function, invoked by this ARN.
    pub async fn function_invoked_as(&self, arn: &str, settings: &[(&str, &str)]) -> Function {
        let environment = self.environment();
        let variable = |name: &str| {
            let set = settings.iter().find(|(key, _)| *key == name);
            let own = || environment.iter().find(|(key, _)| key == name).map(|(_, value)| value);
            // Tests wait for no rates but those that they are about.
            let own = || own().cloned().or((name == "QUOTA_SHARE").then(|| "1000".to_owned()));
            set.map(|(_, value)| (*value).to_owned()).or_else(own)
        };
        let config = self.sdk_config().await;
        let settings = function_settings::load(variable, Some(arn), &config).await;
        let settings = settings.expect("the test's settings");
        let function = Function::new(settings, config);
        if self.uses_sockets() {
            return function;
        }
        function.with_transport(in_process::api_servers(self.api_servers.clone()))
    }

    fn uses_sockets(&self) -> bool {
        self.uses_sockets.load(Ordering::Relaxed)
    }

    /// The SDK's configuration of a client in the sandbox's account.
    pub async fn sdk_config(&self) -> SdkConfig {
        let credentials = match self.credentials_last {
            None => SharedCredentialsProvider::new(credentials(self.access_key(), None)),
            Some(lifetime) => {
                SharedCredentialsProvider::new(OfRole { aws: self.aws().clone(), lifetime })
            }
        };
        let config = sdk_config()
            .region(aws_config::Region::new(REGION))
            .endpoint_url(self.endpoint_url())
            .credentials_provider(credentials)
            .time_source(TokioTime);
        if self.uses_sockets() {
            return config.load().await;
        }
        config.http_client(self.aws.http_client()).load().await
    }
}

fn credentials(key: &AccessKey, expires: Option<SystemTime>) -> Credentials {
    Credentials::new(&key.id, &key.secret, Some(key.session_token.clone()), expires, "sandbox")
}

/// The credentials of the function's role, which Lambda issues anew before they expire.
#[derive(Clone)]
struct OfRole {
    aws: Aws,
    lifetime: Duration,
}

impl fmt::Debug for OfRole {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("OfRole")
    }
}

impl ProvideCredentials for OfRole {
    fn provide_credentials<'a>(&'a self) -> Provided<'a>
    where
        Self: 'a,
    {
        let key = self.aws.identities.issue(ROLE_ARN, "cloud-map-sync", self.lifetime);
        Provided::ready(Ok(credentials(&key, Some(key.expires.into()))))
    }
}

/// The reply of a function, with its response as JSON.
#[derive(Debug)]
pub struct Answer {
    pub report: Option<Report>,
    pub response: Result<Value, Error>,
}

/// Invokes a function with a payload and the time that the template gives.
pub async fn invoke(function: &Function, payload: &Value) -> Answer {
    invoke_through(function, None, payload).await
}

/// The same through an alias of the function.
pub async fn invoke_through(function: &Function, alias: Option<&str>, payload: &Value) -> Answer {
    let reply = Box::pin(function.reply(alias, payload, Deadline::after(TIMEOUT))).await;
    Answer::of(reply)
}

/// The same in another time.
pub async fn invoke_until(function: &Function, payload: &Value, deadline: Deadline) -> Answer {
    Answer::of(Box::pin(function.reply(None, payload, deadline)).await)
}

impl Answer {
    fn of(reply: Reply) -> Self {
        let report = reply.report.clone();
        Self { report, response: reply.into_body().map(|body| json!(body)) }
    }
}

/// One of the payloads in `events/`.
pub fn event(name: &str) -> Value {
    let path = format!("{}/events/{name}.json", crate::ROOT);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}
