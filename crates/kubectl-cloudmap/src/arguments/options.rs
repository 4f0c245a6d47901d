//! The options that several verbs share, named as in kubectl and the AWS CLI: the scope, the function with its
//! credentials, and the output format. The doc comments are the help texts.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// The approval of a change.
#[derive(Clone, Debug, Default, Args)]
pub struct Approval {
    /// Approve at once: skip the plan and the question
    #[arg(short, long)]
    pub yes: bool,
}

/// The scope: clusters, namespace, Service.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Scope")]
pub struct Place {
    /// A Service of the namespace; default: all of them
    #[arg(value_name = "service/NAME", value_parser = parse_service)]
    pub service: Option<String>,
    /// The Kubernetes namespace; default: that of the context
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// All namespaces of the cluster
    #[arg(short = 'A', long, conflicts_with_all = ["namespace", "service"])]
    pub all_namespaces: bool,
    /// The kubectl context of the cluster; default: the current one
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// The kubeconfig file; default: $KUBECONFIG, then ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The EKS cluster by name or ARN; the kubeconfig is not read then
    #[arg(long, value_name = "NAME", conflicts_with_all = ["context", "kubeconfig"])]
    pub cluster: Option<String>,
    /// All configured clusters of the function
    #[arg(
        long,
        conflicts_with_all = ["cluster", "context", "kubeconfig", "namespace", "service"]
    )]
    pub all_clusters: bool,
}

/// The function, and the credentials to invoke it.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Function and credentials")]
pub struct Aws {
    /// The Lambda function to invoke; with --local, the function to read the settings from
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
    /// Run the same code in this process, with the credentials of this terminal
    #[arg(long)]
    pub local: bool,
    /// The AWS profile
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,
    /// The AWS Region of the function
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,
}

/// The output.
#[derive(Clone, Debug, Default, Args)]
pub struct Output {
    /// The output format
    #[arg(short = 'o', long = "output", value_name = "FORMAT", default_value = "table")]
    pub format: Format,
}

/// The output formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table
    #[default]
    Table,
    /// The table with more columns: the Kubernetes Service, or each owner
    Wide,
    /// The function's response
    Json,
    /// The function's response as YAML
    Yaml,
    /// Markdown, for a pull request
    Md,
    /// The names in Cloud Map, one a line: of a plan or sync those with changes
    Name,
}

/// A whole cluster.
#[derive(Clone, Debug, Default, Args)]
pub struct WholeCluster {
    /// The EKS cluster by name or ARN; an ARN if it is no longer configured
    #[arg(long, value_name = "NAME", conflicts_with_all = ["context", "kubeconfig"])]
    pub cluster: Option<String>,
    /// The kubectl context of the cluster; default: the current one, except for purge
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// The kubeconfig file; default: $KUBECONFIG, then ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

impl From<WholeCluster> for Place {
    fn from(whole: WholeCluster) -> Self {
        let WholeCluster { cluster, context, kubeconfig } = whole;
        Self { cluster, context, kubeconfig, all_namespaces: true, ..Self::default() }
    }
}

/// One whole cluster, or all clusters.
#[derive(Clone, Debug, Default, Args)]
pub struct Clusters {
    /// The cluster.
    #[command(flatten)]
    pub whole: WholeCluster,
    /// All configured clusters of the function
    #[arg(long, conflicts_with_all = ["cluster", "context", "kubeconfig"])]
    pub all_clusters: bool,
}

impl From<Clusters> for Place {
    fn from(Clusters { whole, all_clusters }: Clusters) -> Self {
        Self { all_clusters, ..whole.into() }
    }
}

/// Parses `service/web`, in kubectl's spellings, or the bare name.
fn parse_service(text: &str) -> Result<String, String> {
    match text.split_once('/') {
        None => Ok(text.to_owned()),
        Some(("service" | "services" | "svc", name)) if !name.is_empty() => Ok(name.to_owned()),
        Some(_) => Err("expected service/NAME".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_named_as_kubectl_names_it() {
        for text in ["web", "svc/web", "service/web", "services/web"] {
            assert_eq!(parse_service(text), Ok("web".to_owned()), "{text}");
        }
        for text in ["pod/web", "service/"] {
            assert!(parse_service(text).is_err(), "{text}");
        }
    }
}
