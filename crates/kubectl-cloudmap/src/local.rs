//! The function in this process: the same handler, with the credentials of the terminal. The settings come from the
//! deployed function if one is named, otherwise from the environment.

use std::ffi::OsString;
use std::time::Duration;

use aws_config::SdkConfig;
use serde_json::Value;

use super::function::{self, Configuration};
use cloud_map_sync::function::{Error as FunctionError, Function};
use cloud_map_sync::settings::{self, LoadError, Settings};
use cloud_map_sync::time::Deadline;

/// The timeout without a deployed function.
const TIMEOUT: Duration = Duration::from_mins(5);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the settings {source_of} cannot be used")]
    Settings {
        source_of: String,
        #[source]
        source: LoadError,
    },
    #[error(transparent)]
    Function(#[from] function::Error),
    #[error("{}", .0.kind())]
    Failed(#[source] FunctionError),
}

/// Runs the function once, with the settings of `deployed` if one is named.
pub async fn invoke(
    config: SdkConfig,
    deployed: Option<&function::Function>,
    payload: &Value,
) -> Result<Value, Error> {
    let (source_of, configuration) = match deployed {
        Some(function) => (format!("of the function {function}"), function.configuration().await?),
        None => ("in the environment".to_owned(), process_environment()),
    };
    let variable = |name: &str| configuration.environment.get(name).cloned();
    let settings = Box::pin(settings::load(variable, &config)).await;
    let settings = settings.map_err(|source| Error::Settings { source_of, source })?;
    // No function is invoked: IAM decides on the terminal's credentials.
    let settings = Settings { admin_alias: None, ..settings };
    let function = Function::new(settings, config);
    let timeout = configuration.timeout.unwrap_or(TIMEOUT);
    let answer = Box::pin(function.invoke(payload, Deadline::after(timeout))).await;
    answer.response.map_err(Error::Failed)
}

fn process_environment() -> Configuration {
    let text = |variable: (OsString, OsString)| {
        let (name, value) = variable;
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    Configuration { environment: std::env::vars_os().filter_map(text).collect(), timeout: None }
}
