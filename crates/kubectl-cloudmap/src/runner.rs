//! Runs a command's payload: by the deployed function, or with `--local` in this process. Either
//! returns the JSON of the response.

use std::fmt;

use aws_config::SdkConfig;
use serde_json::Value;

use super::arguments::Aws;
use super::function::Function;
use super::{Error, local, sdk_config};

/// The deployed function or this process.
pub struct Runner {
    config: SdkConfig,
    function: Option<Function>,
    local: bool,
}

impl Runner {
    pub async fn new(aws: &Aws) -> Self {
        let config = sdk_config(aws).await;
        let named = aws.function.as_ref();
        let function = named.map(|name| Function::new(&config, name, aws.qualifier.as_deref()));
        Self { config, function, local: aws.local }
    }

    pub async fn run(&self, payload: &Value) -> Result<Value, Error> {
        match &self.function {
            Some(function) if !self.local => Ok(function.invoke(payload).await?),
            deployed => {
                let config = self.config.clone();
                Ok(Box::pin(local::invoke(config, deployed.as_ref(), payload)).await?)
            }
        }
    }
}

impl fmt::Display for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.function {
            Some(function) if !self.local => write!(f, "by {function}"),
            Some(function) => write!(f, "in this process, with the settings of {function}"),
            None => f.write_str("in this process"),
        }
    }
}
