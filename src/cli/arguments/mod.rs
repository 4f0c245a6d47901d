//! The command line: verbs. The options that several of them take are in `options`.

mod options;

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand};

pub use options::{Approval, Aws, Clusters, Format, Output, Place, WholeCluster};

/// Everything that was typed.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-cloudmap",
    bin_name = "kubectl cloudmap",
    version,
    about = "What cloud-map-sync does with your Services in AWS Cloud Map",
    after_help = "Exit codes: 0 all is in step, 1 an error, 2 there are changes to make."
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show what a sync would do, and write nothing
    Plan(Targeted),
    /// Make Cloud Map say now what the Services say
    Sync(Targeted),
    /// Make instances that others registered this function's, where a Service registers them
    Adopt(Adopt),
    /// Let pass what the guard against mass deletion holds
    Confirm(Approved),
    /// Take out everything that is registered for one cluster
    Purge(Purge),
    /// Show who has instances in each Cloud Map service: this cluster, other clusters, ECS, others
    Status(Status),
    /// Write a page about the move from ECS to EKS: where instances run, conflicts, what changed
    Report(Report),
    /// Check all that the function needs, and show what to do about what fails
    Doctor(Status),
    /// Show of one Service what becomes of each endpoint, and what clients are told
    Explain(Targeted),
}

/// What the page is about.
#[derive(Debug, Args)]
pub struct Report {
    /// Write it as one HTML page to standard output
    #[arg(long, required = true)]
    pub html: bool,
    /// What `status -o json` wrote before: the page shows what has changed since
    #[arg(long, value_name = "FILE")]
    pub since: Option<PathBuf>,
    /// Which clusters.
    #[command(flatten)]
    pub clusters: Clusters,
    /// Who does it.
    #[command(flatten)]
    pub aws: Aws,
}

/// Whose view of Cloud Map to show.
#[derive(Debug, Args)]
pub struct Status {
    /// Which clusters.
    #[command(flatten)]
    pub clusters: Clusters,
    /// Who does it.
    #[command(flatten)]
    pub aws: Aws,
    /// How it is shown.
    #[command(flatten)]
    pub output: Output,
}

/// What to adopt.
#[derive(Debug, Args)]
pub struct Adopt {
    /// The OWNER_ID from before, whose instances are to be taken over
    #[arg(long, value_name = "ID")]
    pub owner: Option<String>,
    /// Whether to do it.
    #[command(flatten)]
    pub approval: Approval,
    /// What every verb takes.
    #[command(flatten)]
    pub targeted: Targeted,
}

/// A verb about all of one cluster that a person approves.
#[derive(Debug, Args)]
pub struct Approved {
    /// Which cluster.
    #[command(flatten)]
    pub whole: WholeCluster,
    /// Whether to do it.
    #[command(flatten)]
    pub approval: Approval,
    /// Who does it.
    #[command(flatten)]
    pub aws: Aws,
    /// How it is shown.
    #[command(flatten)]
    pub output: Output,
}

/// Which cluster to purge: one that is named, never just the current one.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("named").args(["cluster", "context"]).required(true))]
pub struct Purge {
    /// Only the Cloud Map of this account and Region; else every one that the settings lead to
    #[arg(long, value_name = "ACCOUNT/REGION")]
    pub registry: Option<String>,
    /// The cluster, and who does it.
    #[command(flatten)]
    pub approved: Approved,
}

/// A verb about some Services.
#[derive(Debug, Args)]
pub struct Targeted {
    /// Where.
    #[command(flatten)]
    pub place: Place,
    /// Who does it.
    #[command(flatten)]
    pub aws: Aws,
    /// How it is shown.
    #[command(flatten)]
    pub output: Output,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn options_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_contradicts_itself_or_names_no_function_is_refused() {
        let local = ["plan", "--local"].as_slice();
        for more in [
            ["-A", "-n", "shop"].as_slice(),
            &["-A", "svc/web"],
            &["--cluster", "blue", "--context", "blue"],
            &["--all-clusters", "-n", "shop"],
        ] {
            let words = [&["kubectl cloudmap"], local, more].concat();
            assert!(Arguments::try_parse_from(&words).is_err(), "{words:?}");
        }
        let current = Arguments::try_parse_from(["kubectl cloudmap", "purge", "--local"]);
        assert!(current.is_err(), "the current context's cluster is not purged by chance");
        let refusal = Arguments::try_parse_from(["kubectl cloudmap", "plan"]).expect_err("nobody");
        assert!(refusal.to_string().contains("--function <NAME>"), "{refusal}");
    }
}
