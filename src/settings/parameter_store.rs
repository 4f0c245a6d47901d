//! Reads Systems Manager's Parameter Store, which holds the settings that are too long for the environment. It is read
//! once at a cold start: one call for a parameter, and one for each page of the parameters under a path.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_ssm::Client;
use aws_sdk_ssm::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ssm::types::Parameter as Found;
use tokio::time::{Instant, timeout_at};

use super::stored::{Parameter, Parameters, Reference};
use crate::error::chain;

/// The time for all reads together. Lambda limits a cold start to ten seconds and then drops its error.
const MAX_TIME: Duration = Duration::from_secs(8);

/// A parameter could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {reference} from Parameter Store: {message}")]
    Read {
        reference: Reference,
        /// The error message of Parameter Store or of the connection.
        message: String,
    },
    #[error(
        "cannot read {0} from Parameter Store: no answer in {MAX_TIME:?}; if the function is in a \
         VPC, is there a NAT gateway or an interface endpoint for ssm?"
    )]
    Timeout(Reference),
}

/// Reads the parameters of each reference, sorted by name. A path without parameters gives an empty list.
///
/// # Errors
/// Returns an error if one of them cannot be read.
pub async fn read(
    config: &SdkConfig,
    references: impl IntoIterator<Item = Reference>,
) -> Result<Parameters, Error> {
    let (client, until) = (Client::new(config), Instant::now() + MAX_TIME);
    let mut parameters = Parameters::new();
    for reference in references {
        let found = match &reference {
            Reference::Parameter(name) => timeout_at(until, read_parameter(&client, name)).await,
            Reference::Path(path) => timeout_at(until, read_path(&client, path)).await,
        };
        match found {
            Ok(Ok(found)) => parameters.insert(reference, found),
            Ok(Err(message)) => return Err(Error::Read { reference, message }),
            Err(_) => return Err(Error::Timeout(reference)),
        };
    }
    Ok(parameters)
}

async fn read_parameter(client: &Client, name: &str) -> Result<Vec<Parameter>, String> {
    let answer = client.get_parameter().name(name).with_decryption(true).send().await;
    let answer = answer.map_err(|error| explain(&error))?;
    Ok(answer.parameter.into_iter().filter_map(parameter).collect())
}

/// The path is sent unchanged: IAM compares it, including the last slash, with the resource of the policy.
async fn read_path(client: &Client, path: &str) -> Result<Vec<Parameter>, String> {
    let request = client.get_parameters_by_path().path(path).with_decryption(true);
    let mut pages = request.into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| explain(&error))?;
        found.extend(page.parameters.unwrap_or_default().into_iter().filter_map(parameter));
    }
    found.sort();
    Ok(found)
}

fn parameter(found: Found) -> Option<Parameter> {
    Some(Parameter { name: found.name?, value: found.value? })
}

fn explain<E, R>(error: &SdkError<E, R>) -> String
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    match error.as_service_error().and_then(|service| Some((service.code()?, service.message()))) {
        Some((code, message)) => format!("{code}: {}", message.unwrap_or("no message")),
        None => chain(error),
    }
}

#[cfg(test)]
mod tests {
    use aws_config::Region;
    use aws_credential_types::Credentials;
    use tokio::net::TcpListener;

    use super::*;
    use crate::clients::sdk_config;

    #[tokio::test(start_paused = true)]
    async fn timeout_comes_before_the_end_of_lambdas_cold_start() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let address = listener.local_addr().expect("bound");
        let config = sdk_config()
            .region(Region::new("eu-central-1"))
            .endpoint_url(format!("http://{address}"))
            .credentials_provider(Credentials::new("id", "secret", None, None, "test"))
            .load()
            .await;
        let references = ["/a", "/b"].map(|name| Reference::Parameter(name.to_owned()));

        let (before, found) = (Instant::now(), read(&config, references).await);

        let error = found.expect_err("no answer").to_string();
        assert!(error.contains("/a") && error.contains("endpoint for ssm"), "{error}");
        assert!(before.elapsed() < Duration::from_secs(10), "{:?}", before.elapsed());
    }
}
