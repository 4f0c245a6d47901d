//! Reads the settings at a cold start: from the environment, and from the parameters that it references.

use aws_config::SdkConfig;

use super::{Mistakes, Settings, parameter_store, stored};

/// The settings could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Mistakes(#[from] Mistakes),
    #[error(transparent)]
    Unreadable(#[from] parameter_store::Error),
}

impl Error {
    /// The stable name of the error, for Lambda and alarms.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Mistakes(_) => "InvalidSettings",
            Self::Unreadable(_) => "UnreadableSettings",
        }
    }
}

/// Loads the settings. `variable` reads an environment variable; `config` is the configuration of the Parameter Store
/// client.
///
/// # Errors
/// Returns an error if a setting cannot be read or is invalid.
pub async fn load(
    variable: impl Fn(&str) -> Option<String>,
    config: &SdkConfig,
) -> Result<Settings, Error> {
    let references = stored::references(&variable);
    let parameters = parameter_store::read(config, references).await?;
    let region = config.region().map(aws_config::Region::as_ref);
    let settings = Settings::read_with(variable, &parameters, region)?;
    for warning in settings.warnings() {
        tracing::warn!("{warning}");
    }
    Ok(settings)
}
