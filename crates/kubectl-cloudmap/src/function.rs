//! The deployed function: invokes it through Lambda and returns its response, or reads its settings for a local run.
//! Errors of Lambda become messages with a remedy.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_lambda::Client;
use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_lambda::primitives::Blob;
use serde::Deserialize;
use serde_json::Value;

use cloud_map_sync::error::chain;

/// Lambda's longest timeout of a function, and some time for the response.
pub const LONGEST_RUN: Duration = Duration::from_secs(15 * 60 + 30);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action} the function {name}: {problem}{hint}")]
    Refused { action: &'static str, name: String, problem: String, hint: &'static str },
    #[error("the function {name} failed with {kind}: {message}")]
    Failed { name: String, kind: String, message: String },
    #[error("the response of the function {0} is not JSON")]
    NotJson(String, #[source] serde_json::Error),
    #[error("Lambda did not return the settings of the function {name}: {problem}")]
    Settings { name: String, problem: String },
}

pub struct Configuration {
    pub environment: BTreeMap<String, String>,
    pub timeout: Option<Duration>,
}

/// A function by name or ARN, with an optional version or alias.
pub struct Function {
    client: Client,
    name: String,
    qualifier: Option<String>,
}

/// Lambda's payload instead of a response if the function failed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Failure {
    error_type: String,
    error_message: String,
}

impl Default for Failure {
    fn default() -> Self {
        let error_message = "the cause is in its log".to_owned();
        Self { error_type: "an error".to_owned(), error_message }
    }
}

impl Function {
    pub fn new(config: &SdkConfig, name: &str, qualifier: Option<&str>) -> Self {
        // The connection has no traffic while the function runs.
        let timeouts = config.timeout_config().map_or_else(TimeoutConfig::builder, |timeouts| {
            timeouts.to_builder().operation_attempt_timeout(LONGEST_RUN)
        });
        let config = aws_sdk_lambda::config::Builder::from(config)
            .timeout_config(timeouts.build())
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .build();
        let (name, qualifier) = (name.to_owned(), qualifier.map(str::to_owned));
        Self { client: Client::from_conf(config), name, qualifier }
    }

    pub async fn invoke(&self, payload: &Value) -> Result<Value, Error> {
        let invoke = self.client.invoke().function_name(&self.name);
        let invoke = invoke.set_qualifier(self.qualifier.clone());
        let sent = invoke.payload(Blob::new(payload.to_string())).send().await;
        let answer = sent.map_err(|error| self.refused("invoke", &error))?;
        let payload = answer.payload().map(Blob::as_ref).unwrap_or_default();
        if answer.function_error().is_some() {
            let failure: Failure = serde_json::from_slice(payload).unwrap_or_default();
            let Failure { error_type: kind, error_message: message } = failure;
            return Err(Error::Failed { name: self.name.clone(), kind, message });
        }
        serde_json::from_slice(payload).map_err(|error| Error::NotJson(self.name.clone(), error))
    }

    pub async fn configuration(&self) -> Result<Configuration, Error> {
        let read = self.client.get_function_configuration().function_name(&self.name);
        let read = read.set_qualifier(self.qualifier.clone()).send().await;
        let answer = read.map_err(|error| self.refused("read the settings of", &error))?;
        let environment = answer.environment();
        if let Some(error) = environment.and_then(|environment| environment.error()) {
            let (name, problem) = (self.name.clone(), error.message().unwrap_or("no reason given"));
            return Err(Error::Settings { name, problem: problem.to_owned() });
        }
        let variables = environment.and_then(|environment| environment.variables());
        let timeout = answer.timeout().and_then(|seconds| u64::try_from(seconds).ok());
        Ok(Configuration {
            environment: variables.cloned().unwrap_or_default().into_iter().collect(),
            timeout: timeout.map(Duration::from_secs),
        })
    }

    fn refused<E>(&self, action: &'static str, error: &SdkError<E>) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let code = error.as_service_error().and_then(ProvideErrorMetadata::code);
        let message = error.as_service_error().and_then(ProvideErrorMetadata::message);
        let problem = match code {
            Some(code) => format!("{code}: {}", message.unwrap_or("no message")),
            None => chain(error),
        };
        let hint = match code {
            Some("ResourceNotFoundException") => "; check --region and --profile",
            Some("AccessDeniedException") => {
                "; this needs lambda:InvokeFunction, and lambda:GetFunctionConfiguration for --local"
            }
            _ => "",
        };
        Error::Refused { action, name: self.name.clone(), problem, hint }
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.qualifier.iter().try_for_each(|qualifier| write!(f, ":{qualifier}"))
    }
}
