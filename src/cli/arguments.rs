//! The command line: verbs, and the options that users of kubectl and of the AWS CLI know.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

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
    Confirm(Confirm),
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
    /// The EKS cluster by name or ARN; else that of the context
    #[arg(long, value_name = "NAME", conflicts_with_all = ["context", "kubeconfig"])]
    pub cluster: Option<String>,
    /// The context of kubectl whose cluster it is; else the current one
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// The kubeconfig file; else $KUBECONFIG, else ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Every cluster that the function keeps in step
    #[arg(long, conflicts_with_all = ["cluster", "context", "kubeconfig"])]
    pub all_clusters: bool,
    /// Who does it.
    #[command(flatten)]
    pub aws: Aws,
}

/// Whose view of Cloud Map to show.
#[derive(Debug, Args)]
pub struct Status {
    /// The EKS cluster by name or ARN; else that of the context
    #[arg(long, value_name = "NAME", conflicts_with_all = ["context", "kubeconfig"])]
    pub cluster: Option<String>,
    /// The context of kubectl whose cluster it is; else the current one
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// The kubeconfig file; else $KUBECONFIG, else ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Every cluster that the function keeps in step
    #[arg(long, conflicts_with_all = ["cluster", "context", "kubeconfig"])]
    pub all_clusters: bool,
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

/// Whose losses to let pass.
#[derive(Debug, Args)]
pub struct Confirm {
    /// The EKS cluster by name or ARN; else that of the context
    #[arg(long, value_name = "NAME", conflicts_with_all = ["context", "kubeconfig"])]
    pub cluster: Option<String>,
    /// The context of kubectl whose cluster it is; else the current one
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// The kubeconfig file; else $KUBECONFIG, else ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
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
pub struct Purge {
    /// The EKS cluster by name, or by ARN where it is not configured any more
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["context", "kubeconfig"],
        required_unless_present = "context"
    )]
    pub cluster: Option<String>,
    /// The context of kubectl whose cluster it is
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// The kubeconfig file; else $KUBECONFIG, else ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
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

/// Whether to do what is else shown first and asked for.
#[derive(Debug, Default, Args)]
pub struct Approval {
    /// Do it without showing the plan and asking first
    #[arg(short, long)]
    pub yes: bool,
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

/// Which Services.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Where")]
pub struct Place {
    /// A Service of the namespace; all of them without it
    #[arg(value_name = "service/NAME", value_parser = service)]
    pub service: Option<String>,
    /// The Kubernetes namespace; else that of the context
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// All namespaces of the cluster
    #[arg(short = 'A', long, conflicts_with_all = ["namespace", "service"])]
    pub all_namespaces: bool,
    /// The context of kubectl whose cluster it is about; else the current one
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// The kubeconfig file; else $KUBECONFIG, else ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The EKS cluster by name or ARN, without a look into the kubeconfig
    #[arg(long, value_name = "NAME", conflicts_with_all = ["context", "kubeconfig"])]
    pub cluster: Option<String>,
    /// Every cluster that the function keeps in step
    #[arg(
        long,
        conflicts_with_all = ["cluster", "context", "kubeconfig", "namespace", "service"]
    )]
    pub all_clusters: bool,
}

/// Who carries it out.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Who does it")]
pub struct Aws {
    /// The Lambda function to invoke; with --local, the function whose settings are used
    #[arg(
        long,
        env = "CLOUD_MAP_SYNC_FUNCTION",
        value_name = "NAME",
        required_unless_present = "local"
    )]
    pub function: Option<String>,
    /// A version or an alias of the function
    #[arg(long, value_name = "QUALIFIER", requires = "function")]
    pub qualifier: Option<String>,
    /// Run the same code here, with the credentials of this terminal
    #[arg(long)]
    pub local: bool,
    /// The AWS profile
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,
    /// The AWS Region of the function
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,
}

/// How the answer is shown.
#[derive(Debug, Default, Args)]
pub struct Output {
    /// How the answer is shown
    #[arg(short = 'o', long = "output", value_name = "FORMAT", default_value = "table")]
    pub format: Format,
}

/// What the answer is shown as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For a person
    #[default]
    Table,
    /// The same with more of each line: the Kubernetes Service, or who exactly
    Wide,
    /// What the function answered
    Json,
    /// The same as YAML
    Yaml,
    /// Markdown, for a pull request
    Md,
}

impl Place {
    /// All of one cluster, where no cluster is named that of a context.
    pub fn whole(
        cluster: Option<String>,
        context: Option<String>,
        kubeconfig: Option<PathBuf>,
    ) -> Self {
        Self { cluster, context, kubeconfig, all_namespaces: true, ..Self::default() }
    }
}

/// `service/web`, in the spellings that kubectl takes, or the bare name.
fn service(text: &str) -> Result<String, String> {
    match text.split_once('/') {
        None => Ok(text.to_owned()),
        Some(("service" | "services" | "svc", name)) if !name.is_empty() => Ok(name.to_owned()),
        Some(_) => Err("it must be service/NAME".to_owned()),
    }
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
    fn a_service_is_named_as_kubectl_names_it() {
        for text in ["web", "svc/web", "service/web", "services/web"] {
            assert_eq!(service(text), Ok("web".to_owned()), "{text}");
        }
        for text in ["pod/web", "service/"] {
            assert!(service(text).is_err(), "{text}");
        }
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
