//! The verbs of the command line, parsed by clap: the doc comments here are the help texts. Options of several verbs
//! are in `options`, those of pipelines in `pipelines`.

mod options;
mod pipelines;

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand};

pub use options::{Approval, Aws, Clusters, Format, Output, Place, WholeCluster};
pub use pipelines::{Admission, Diff, FailOn, Run, State, Validate, Wait};

/// The parsed command line.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-cloudmap",
    bin_name = "kubectl cloudmap",
    version,
    about = "Syncs Kubernetes Services to AWS Cloud Map through the function cloud-map-sync",
    after_help = "Exit codes: 0 in sync, 1 for an error or an incomplete answer, 2 with changes to make."
)]
pub struct Arguments {
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show the changes that a sync would make; writes nothing
    Plan(Plan),
    /// Sync the Services to Cloud Map now
    Sync(Run),
    /// Adopt instances of other owners that have the address of a Service's endpoint
    Adopt(Adopt),
    /// Carry out the removals that the guard against mass deletion holds
    Confirm(Approved),
    /// Deregister all instances of one cluster
    Purge(Purge),
    /// Delete empty services and purge dead clusters, as the settings allow it, after a look at all clusters
    Cleanup(Cleanup),
    /// Show the owners of the instances in each Cloud Map service: this cluster, other clusters, ECS, others
    Status(Shown),
    /// Write a page about the move from ECS to EKS: instances by platform, conflicts, changes
    Report(Report),
    /// Check everything that the function needs, and show a fix for each failed check
    Doctor(Status),
    /// Show the result for each endpoint of one Service, and the answer that clients get
    Explain(Targeted),
    /// Wait until a Service is registered, or has no instance left; writes nothing
    Wait(Wait),
    /// Compare two plans: a comment in Markdown for a pull request
    Diff(Diff),
    /// Judge the annotations in manifests, without a cluster
    Validate(Validate),
    /// Print the admission policy that refuses a Service with a wrong annotation
    Admission(Admission),
    /// Print the program kubectl_complete-cloudmap, by which kubectl completes this plugin's words
    Completion(Completion),
}

/// The arguments of `completion`.
#[derive(Debug, Args)]
pub struct Completion {
    /// The words to complete, as that program passes them
    #[arg(last = true, hide = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// The arguments of `report`.
#[derive(Debug, Args)]
pub struct Report {
    /// Write one HTML page to standard output
    #[arg(long, required = true)]
    pub html: bool,
    /// The output of an earlier `status -o json`: the page shows the changes since then
    #[arg(long, value_name = "FILE")]
    pub since: Option<PathBuf>,
    /// The clusters.
    #[command(flatten)]
    pub clusters: Clusters,
    /// The function and the credentials.
    #[command(flatten)]
    pub aws: Aws,
}

/// The arguments of `plan`.
#[derive(Debug, Args)]
pub struct Plan {
    /// Plan again and again, and print each plan that differs from the one before
    #[arg(short, long)]
    pub watch: bool,
    /// The scope, the function and the output.
    #[command(flatten)]
    pub run: Run,
}

/// The arguments of `status`.
#[derive(Debug, Args)]
pub struct Shown {
    /// One Cloud Map service, with its Cloud Map namespace or without; default: all of them
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pub name: Option<String>,
    /// The services of one Cloud Map namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Only the services that this installation created and that have no instance, with the commands to delete them
    #[arg(long)]
    pub created: bool,
    /// Read again and again, and print each status that differs from the one before
    #[arg(short, long)]
    pub watch: bool,
    /// The clusters, the function and the output.
    #[command(flatten)]
    pub status: Status,
}

/// The arguments of `doctor`, and of `status` besides.
#[derive(Debug, Args)]
pub struct Status {
    /// The clusters.
    #[command(flatten)]
    pub clusters: Clusters,
    /// The function and the credentials.
    #[command(flatten)]
    pub aws: Aws,
    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// The arguments of `cleanup`, which has no scope.
#[derive(Debug, Args)]
pub struct Cleanup {
    /// The function and the credentials.
    #[command(flatten)]
    pub aws: Aws,
    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// The arguments of `adopt`.
#[derive(Debug, Args)]
pub struct Adopt {
    /// The former OWNER_ID of the instances to adopt
    #[arg(long, value_name = "ID")]
    pub owner: Option<String>,
    /// The approval.
    #[command(flatten)]
    pub approval: Approval,
    /// The scope, the function and the output.
    #[command(flatten)]
    pub targeted: Targeted,
}

/// The arguments of a verb that changes one whole cluster and needs an approval.
#[derive(Debug, Args)]
pub struct Approved {
    /// The cluster.
    #[command(flatten)]
    pub whole: WholeCluster,
    /// The approval.
    #[command(flatten)]
    pub approval: Approval,
    /// The function and the credentials.
    #[command(flatten)]
    pub aws: Aws,
    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// The arguments of `purge`. The cluster must be named: the current context is no default.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("named").args(["cluster", "context"]).required(true))]
pub struct Purge {
    /// Only the Cloud Map of this account and Region; default: every Cloud Map in the settings
    #[arg(long, value_name = "ACCOUNT/REGION")]
    pub registry: Option<String>,
    /// The cluster, the function and the output.
    #[command(flatten)]
    pub approved: Approved,
}

/// The arguments of a verb about Services.
#[derive(Debug, Args)]
pub struct Targeted {
    /// The scope.
    #[command(flatten)]
    pub place: Place,
    /// The function and the credentials.
    #[command(flatten)]
    pub aws: Aws,
    /// The output format.
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
    fn prefix_that_no_key_can_have_is_refused_with_the_form() {
        let parsed = |prefix| {
            Arguments::try_parse_from(["kubectl cloudmap", "admission", "--prefix", prefix])
        };
        let refusal = parsed("Upper/").expect_err("no prefix").to_string();
        let form = "\"Upper/\" is not a lower-case DNS name with a '/' at its end";
        assert!(refusal.contains(form), "{refusal}");
        let Verb::Admission(admission) = parsed("example.com").expect("a prefix").verb else {
            panic!("another verb")
        };
        assert_eq!(admission.prefix, "example.com/");
    }

    #[test]
    fn contradictory_options_and_a_missing_function_are_rejected() {
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
        let refusal =
            Arguments::try_parse_from(["kubectl cloudmap", "plan"]).expect_err("no function");
        assert!(refusal.to_string().contains("--function <NAME>"), "{refusal}");
    }
}
