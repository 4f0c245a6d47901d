//! Systems Manager's Parameter Store, which holds settings that are too long for the environment. Only
//! reads, once at cold start: one call for a parameter, one for each page of those under a path.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_ssm::Client;
use aws_sdk_ssm::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_ssm::types::Parameter as Found;
use tokio::time::{Instant, timeout_at};

use super::stored::{Parameter, Parameters, Reference};

/// All reads together. Lambda gives a cold start ten seconds, and forgets what was said after that.
const TIME: Duration = Duration::from_secs(8);

/// Parameters that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Parameter Store refuses, or cannot be reached.
    #[error("cannot read {reference} from Parameter Store: {message}")]
    Read {
        /// Which.
        reference: Reference,
        /// What Parameter Store or the connection said.
        message: String,
    },
    /// No answer in time.
    #[error(
        "cannot read {0} from Parameter Store: no answer in {TIME:?}; where the function is in a \
         VPC, is there a NAT gateway or an interface endpoint for ssm?"
    )]
    Silent(Reference),
}

/// Reads everything that the references mean, by name in each path. A path without parameters is
/// empty.
///
/// # Errors
/// Where one of them cannot be read.
pub async fn read(
    config: &SdkConfig,
    references: impl IntoIterator<Item = Reference>,
) -> Result<Parameters, Error> {
    let (client, until) = (Client::new(config), Instant::now() + TIME);
    let mut parameters = Parameters::new();
    for reference in references {
        let found = match &reference {
            Reference::Parameter(name) => timeout_at(until, one(&client, name)).await,
            Reference::Path(path) => timeout_at(until, under(&client, path)).await,
        };
        match found {
            Ok(Ok(found)) => parameters.insert(reference, found),
            Ok(Err(message)) => return Err(Error::Read { reference, message }),
            Err(_) => return Err(Error::Silent(reference)),
        };
    }
    Ok(parameters)
}

async fn one(client: &Client, name: &str) -> Result<Vec<Parameter>, String> {
    let answer = client.get_parameter().name(name).with_decryption(true).send().await;
    let answer = answer.map_err(|error| explain(&error))?;
    Ok(answer.parameter.into_iter().filter_map(parameter).collect())
}

/// The path is sent as it stands in the setting: IAM compares it, slash and all, with the policy's
/// resource.
async fn under(client: &Client, path: &str) -> Result<Vec<Parameter>, String> {
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
        None => DisplayErrorContext(error).to_string(),
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
    async fn a_parameter_store_that_is_silent_is_an_error_while_lambda_still_listens() {
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

        let said = found.expect_err("nobody answers").to_string();
        assert!(said.contains("/a") && said.contains("endpoint for ssm"), "{said}");
        assert!(before.elapsed() < Duration::from_secs(10), "{:?}", before.elapsed());
    }
}
