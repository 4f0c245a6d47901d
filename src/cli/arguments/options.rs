//! What users of kubectl and of the AWS CLI know: where, who does it, and how the answer is shown.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Whether to do what is else shown first and asked for.
#[derive(Debug, Default, Args)]
pub struct Approval {
    /// Do it without showing the plan and asking first
    #[arg(short, long)]
    pub yes: bool,
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

/// All of one cluster.
#[derive(Debug, Default, Args)]
pub struct WholeCluster {
    /// The EKS cluster by name, or by ARN also where it is not configured any more
    #[arg(long, value_name = "NAME", conflicts_with_all = ["context", "kubeconfig"])]
    pub cluster: Option<String>,
    /// The context of kubectl whose cluster it is; else the current one
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// The kubeconfig file; else $KUBECONFIG, else ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

impl From<WholeCluster> for Place {
    fn from(whole: WholeCluster) -> Self {
        let WholeCluster { cluster, context, kubeconfig } = whole;
        Self { cluster, context, kubeconfig, all_namespaces: true, ..Self::default() }
    }
}

/// All of one cluster, or all of all of them.
#[derive(Debug, Default, Args)]
pub struct Clusters {
    /// The one.
    #[command(flatten)]
    pub whole: WholeCluster,
    /// Every cluster that the function keeps in step
    #[arg(long, conflicts_with_all = ["cluster", "context", "kubeconfig"])]
    pub all_clusters: bool,
}

impl From<Clusters> for Place {
    fn from(Clusters { whole, all_clusters }: Clusters) -> Self {
        Self { all_clusters, ..whole.into() }
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
    use super::*;

    #[test]
    fn a_service_is_named_as_kubectl_names_it() {
        for text in ["web", "svc/web", "service/web", "services/web"] {
            assert_eq!(service(text), Ok("web".to_owned()), "{text}");
        }
        for text in ["pod/web", "service/"] {
            assert!(service(text).is_err(), "{text}");
        }
    }
}
