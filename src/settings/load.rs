//! Reads the settings at a cold start: from the environment, and from the parameters that it points at.

use aws_config::SdkConfig;

use super::{Mistakes, Settings, parameter_store, stored};

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Settings that cannot be used.
    #[error(transparent)]
    Mistakes(#[from] Mistakes),
    /// Settings that cannot be read.
    #[error(transparent)]
    Unreadable(#[from] parameter_store::Error),
}

impl Error {
    /// The error's stable name, as Lambda and alarms see it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Mistakes(_) => "InvalidSettings",
            Self::Unreadable(_) => "UnreadableSettings",
        }
    }
}

/// The settings as `variable` answers for the environment, with what they point at in the Parameter
/// Store that `config` reaches.
///
/// # Errors
/// Where they cannot be read, or have mistakes.
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
