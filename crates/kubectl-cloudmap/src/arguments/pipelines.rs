//! The arguments of the verbs that pipelines use beside a person: what counts as a failure, the state to wait for, two
//! plans, and manifests. The doc comments are the help texts.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{Aws, Place, Targeted};
use cloud_map_sync::model::SignedDuration;
use cloud_map_sync::settings::value::{annotation_prefix, duration};

/// The arguments of `plan` and `sync`.
#[derive(Debug, Args)]
pub struct Run {
    /// End with an error, exit code 1, if something of this kind is in the answer
    #[arg(long, value_name = "KIND")]
    pub fail_on: Vec<FailOn>,
    /// The scope, the function and the output.
    #[command(flatten)]
    pub targeted: Targeted,
}

/// What a pipeline may take for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// A Service, an endpoint, an export or an import is held back
    HeldBack,
}

/// The arguments of `wait`.
#[derive(Debug, Args)]
pub struct Wait {
    /// The state to wait for
    #[arg(long = "for", value_name = "STATE")]
    pub state: State,
    /// The longest time to wait, for instance 90s or 5m
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = timeout)]
    pub timeout: Duration,
    /// The Service.
    #[command(flatten)]
    pub place: Place,
    /// The function and the credentials.
    #[command(flatten)]
    pub aws: Aws,
}

/// A state of a Service in Cloud Map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum State {
    /// Each of its names has all instances that it shall have, and at least one
    Registered,
    /// None of its names has an instance of it
    Empty,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Registered => "registered",
            Self::Empty => "empty",
        })
    }
}

/// The arguments of `diff`.
#[derive(Debug, Args)]
pub struct Diff {
    /// The output of an earlier `plan -o json`; `-` is the standard input
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// The output of a later `plan -o json` of the same scope; `-` is the standard input
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
}

/// The arguments of `validate`.
#[derive(Debug, Args)]
pub struct Validate {
    /// A manifest; `-` is the standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    pub filenames: Vec<PathBuf>,
    /// The function's ANNOTATION_PREFIX
    #[arg(long, value_name = "PREFIX", default_value = "cloudmap.controller/", value_parser = prefix)]
    pub prefix: String,
}

/// The arguments of `admission`.
#[derive(Debug, Args)]
pub struct Admission {
    /// The function's ANNOTATION_PREFIX
    #[arg(long, value_name = "PREFIX", default_value = "cloudmap.controller/", value_parser = prefix)]
    pub prefix: String,
    /// Warn, and refuse nothing
    #[arg(long)]
    pub warn: bool,
}

fn timeout(text: &str) -> Result<Duration, String> {
    let time = duration(Some(text), SignedDuration::ZERO)?;
    Duration::try_from(time).map_err(|error| error.to_string())
}

fn prefix(text: &str) -> Result<String, String> {
    annotation_prefix(Some(text))
}
