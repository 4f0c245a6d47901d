//! Reads the settings at the first invocation of a process, from the environment and from the parameters that it
//! references.
//!
//! Lambda limits the environment to 4 KB, so `ssm:/name` references one parameter of Systems Manager's Parameter Store,
//! and `ssm:/path/` all parameters directly under a path. Their values replace the text of the variable. They are read
//! once, with one call for a parameter, and one for each page of the parameters under a path.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_ssm::{Client, types};
use tokio::time::{Instant, timeout_at};

use super::{Mistakes, Settings};
use crate::error::answer_of;

/// The longest time of all reads together.
const MAX_TIME: Duration = Duration::from_secs(8);

/// Reads the parameters of each reference, sorted by name. A path without parameters has an empty list.
///
/// # Errors
/// Returns an error if a reference cannot be read, or if the reads take longer than `MAX_TIME`.
pub async fn read(
    config: &SdkConfig,
    references: impl IntoIterator<Item = Reference>,
) -> Result<Parameters, LoadError> {
    let client = Client::new(config);
    let until = Instant::now() + MAX_TIME;
    let mut parameters = Parameters::new();
    for reference in references {
        let found = match &reference {
            Reference::Parameter(name) => timeout_at(until, read_parameter(&client, name)).await,
            Reference::Path(path) => timeout_at(until, read_path(&client, path)).await,
        };
        match found {
            Ok(Ok(found)) => parameters.insert(reference, found),
            Ok(Err(message)) => return Err(LoadError::Unreadable { reference, message }),
            Err(_) => return Err(LoadError::Timeout(reference)),
        };
    }
    Ok(parameters)
}

async fn read_parameter(client: &Client, name: &str) -> Result<Vec<Parameter>, String> {
    let answer = client.get_parameter().name(name).with_decryption(true).send().await;
    let answer = answer.map_err(|error| answer_of(&error))?;
    Ok(answer.parameter.into_iter().filter_map(parameter).collect())
}

/// Reads all parameters under a path. The path is sent unchanged, since IAM compares it, including the last slash, with
/// the resource of the policy.
async fn read_path(client: &Client, path: &str) -> Result<Vec<Parameter>, String> {
    let request = client.get_parameters_by_path().path(path).with_decryption(true);
    let mut pages = request.into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| answer_of(&error))?;
        found.extend(page.parameters.unwrap_or_default().into_iter().filter_map(parameter));
    }
    found.sort();
    Ok(found)
}

fn parameter(found: types::Parameter) -> Option<Parameter> {
    Some(Parameter { name: found.name?, value: found.value? })
}

/// The settings that may be in Parameter Store.
pub const STORABLE: [&str; 2] = ["CLUSTERS", "NAME_POLICY"];
pub(super) const SCHEME: &str = "ssm:";
/// The longest name of a parameter with its path, in characters.
const MAX_NAME: usize = 1011;

/// A reference of a setting to Parameter Store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Reference {
    #[error("the parameter {0}")]
    Parameter(String),
    /// Every parameter directly under a path, which ends in `/`.
    #[error("the parameters under {0}")]
    Path(String),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Parameter {
    /// The name with its path.
    pub name: String,
    /// The decrypted value.
    pub value: String,
}

/// The parameters of each reference.
pub type Parameters = BTreeMap<Reference, Vec<Parameter>>;

/// One of the texts of a setting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    /// The name of the parameter that contains the text. `None` if the variable itself contains it.
    pub parameter: Option<&'a str>,
    pub text: &'a str,
}

impl Reference {
    /// Parses the reference in a text. Returns `None` if the text is the setting itself.
    ///
    /// # Errors
    /// Returns an error if the reference is malformed.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        let Some(name) = text.trim().strip_prefix(SCHEME) else { return Ok(None) };
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
        let is_absolute_path = name.starts_with('/') && name.len() > 1 && !name.contains("//");
        if !is_absolute_path || name.len() > MAX_NAME || !name.chars().all(allowed) {
            return Err(format!(
                "{text:?} is neither ssm:/NAME (one parameter) nor ssm:/PATH/ (all parameters directly under a path)"
            ));
        }
        let path = name.ends_with('/');
        Ok(Some(if path { Self::Path(name.to_owned()) } else { Self::Parameter(name.to_owned()) }))
    }
}

/// Returns all valid references of the settings.
pub fn references(variable: impl Fn(&str) -> Option<String>) -> BTreeSet<Reference> {
    let texts = STORABLE.into_iter().filter_map(variable);
    texts.filter_map(|text| Reference::parse(&text).ok().flatten()).collect()
}

/// Returns the texts of a setting: its own text, or the texts of the parameters that it references.
pub(super) fn texts<'a>(
    own: Option<&'a str>,
    parameters: &'a Parameters,
) -> Result<Vec<Text<'a>>, String> {
    let Some(text) = own else { return Ok(Vec::new()) };
    let Some(reference) = Reference::parse(text)? else {
        return Ok(vec![Text { parameter: None, text }]);
    };
    let found = parameters.get(&reference).map(Vec::as_slice).unwrap_or_default();
    if found.is_empty() {
        return Err(format!("Parameter Store does not have {reference}"));
    }
    let text = |parameter: &'a Parameter| Text {
        parameter: Some(&parameter.name),
        text: parameter.value.trim(),
    };
    Ok(found.iter().map(text).collect())
}

impl Text<'_> {
    /// Adds the name of the parameter, if any, to a problem of the text.
    pub fn problem(&self, problem: &str) -> String {
        match self.parameter {
            Some(name) => format!("parameter {name}: {problem}"),
            None => problem.to_owned(),
        }
    }

    /// Returns an entry of the text, with the name of its parameter, if any.
    pub fn describe_entry(&self, entry: &str) -> String {
        match self.parameter {
            Some(name) => format!("{entry:?} in the parameter {name}"),
            None => format!("{entry:?}"),
        }
    }
}

/// The error of settings that could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Mistakes(#[from] Mistakes),
    #[error("cannot read {reference} from Parameter Store: {message}")]
    Unreadable {
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

impl LoadError {
    /// Returns the stable name of the error, for Lambda and alarms.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Mistakes(_) => "InvalidSettings",
            Self::Unreadable { .. } | Self::Timeout(_) => "UnreadableSettings",
        }
    }
}

/// Loads the settings. `variable` reads an environment variable, `function_arn` is the ARN by which the function was
/// invoked, and `config` is the configuration of the Parameter Store client.
///
/// # Errors
/// Returns an error if a setting cannot be read or is invalid.
pub async fn load(
    variable: impl Fn(&str) -> Option<String>,
    function_arn: Option<&str>,
    config: &SdkConfig,
) -> Result<Settings, LoadError> {
    let references = references(&variable);
    let parameters = read(config, references).await?;
    let settings = Settings::read(variable, &parameters, function_arn)?;
    for warning in settings.warnings() {
        tracing::warn!("{warning}");
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::sdk_config;
    use aws_config::Region;
    use aws_credential_types::Credentials;
    use tokio::net::TcpListener;

    #[tokio::test(start_paused = true)]
    async fn parameter_store_that_does_not_answer_is_an_error_within_ten_seconds() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let address = listener.local_addr().expect("bound");
        let config = sdk_config()
            .region(Region::new("eu-central-1"))
            .endpoint_url(format!("http://{address}"))
            .credentials_provider(Credentials::new("id", "secret", None, None, "test"))
            .load()
            .await;
        let references = ["/a", "/b"].map(|name| Reference::Parameter(name.to_owned()));

        let before = Instant::now();
        let found = read(&config, references).await;

        let error = found.expect_err("no answer").to_string();
        assert!(error.contains("/a") && error.contains("endpoint for ssm"), "{error}");
        assert!(before.elapsed() < Duration::from_secs(10), "{:?}", before.elapsed());
    }

    #[test]
    fn a_setting_points_at_a_parameter_or_a_path() {
        let parameter = |name: &str| Ok(Some(Reference::Parameter(name.into())));
        let cases = [
            ("blue,green", Ok(None)),
            ("ssm:/clusters", parameter("/clusters")),
            (" ssm:/a/b.c_d-1 ", parameter("/a/b.c_d-1")),
            ("ssm:/a/clusters/", Ok(Some(Reference::Path("/a/clusters/".into())))),
        ];
        for (text, expected) in cases {
            assert_eq!(Reference::parse(text), expected, "{text}");
        }
        for text in ["ssm:", "ssm:/", "ssm:clusters", "ssm://a", "ssm:/a b", "ssm:/a,ssm:/b"] {
            let problem = Reference::parse(text).expect_err(text);
            assert!(problem.contains("ssm:/PATH/"), "{problem}");
        }
    }

    #[test]
    fn only_settings_that_may_be_long_are_looked_for_in_parameter_store() {
        let variable = |name: &str| match name {
            "CLUSTERS" => Some("ssm:/p/".to_owned()),
            "NAME_POLICY" => Some("[]".to_owned()),
            _ => Some("ssm:/never".to_owned()),
        };
        assert_eq!(references(variable), BTreeSet::from([Reference::Path("/p/".into())]));
    }
}
