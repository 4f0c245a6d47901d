//! The scope of a command line: a cluster by kubectl's context or by name, a namespace and a Service. `request` puts it
//! into the payload.
//!
//! `aws eks update-kubeconfig` names the cluster and the context by the cluster's ARN. In a kubeconfig of eksctl, and
//! if a context was renamed, the cluster's name is in the arguments of the credential command. For a local cluster on
//! Outposts this command has only the cluster's id, from which no name follows, so the name that eksctl gives the
//! cluster is used. Clusters in different Regions may have the same name, so the kubeconfig is also searched for the
//! Region.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, ErrorKind::NotFound};
use std::path::PathBuf;

use kube::config::{ExecConfig, Kubeconfig, KubeconfigError};
use serde::Serialize;

use super::arguments;
use cloud_map_sync::model::{ClusterArn, is_region};

#[cfg(test)]
mod tests;

/// The scope of a command. A field that is `None` does not limit the scope.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestedScope {
    pub cluster: Option<String>,
    /// The Region of a cluster that is given by name. `None` if the kubeconfig does not have the Region.
    pub region: Option<String>,
    pub namespace: Option<String>,
    pub service: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file of the kubeconfig cannot be read.
    #[error("cannot read the kubeconfig; --cluster NAME needs none: {}", .1.display())]
    KubeconfigFile(#[source] io::Error, PathBuf),
    /// The kubeconfig cannot be read.
    #[error("cannot read the kubeconfig; --cluster NAME needs none")]
    Kubeconfig(#[source] Box<KubeconfigError>),
    #[error("the kubeconfig has no context {0:?}")]
    NoContext(String),
    #[error("the kubeconfig has no current context: set --context or --cluster")]
    NoCurrentContext,
    #[error("the context {0:?} does not name an EKS cluster: set --cluster")]
    NotEks(String),
    /// The function knows a local cluster on Outposts only by its name and its ARN.
    #[error(
        "the context {0:?} names a local cluster on Outposts by its id alone: set --cluster NAME, or the cluster's ARN"
    )]
    LocalClusterById(String),
    /// A cluster in another Region may have the same name.
    #[error(
        "the context {0:?} does not name the Region of its cluster, and a cluster of the same name may be in another \
         Region: set --cluster to the ARN of the cluster"
    )]
    NoRegion(String),
    #[error("the Service to explain is missing: add service/NAME")]
    NoService,
    #[error("the namespace of the Service is missing: add -n NAMESPACE")]
    NoNamespace,
}

pub fn resolve(arguments: &arguments::ScopeArguments) -> Result<RequestedScope, Error> {
    if arguments.all_clusters {
        return Ok(RequestedScope::default());
    }
    let service = arguments.service.clone();
    if let Some(cluster) = arguments.cluster.clone() {
        let namespace = arguments.namespace.clone();
        if service.is_some() && namespace.is_none() {
            return Err(Error::NoNamespace);
        }
        return Ok(RequestedScope { cluster: Some(cluster), region: None, namespace, service });
    }
    let Context { name, cluster, region, namespace } = read_context(arguments)?;
    let cluster = match cluster {
        ContextCluster::Named(cluster) => cluster,
        ContextCluster::LocalById => return Err(Error::LocalClusterById(name)),
        ContextCluster::NotEks => return Err(Error::NotEks(name)),
    };
    let namespace = arguments.namespace.clone().unwrap_or(namespace);
    let namespace = Some(namespace).filter(|_| !arguments.all_namespaces);
    Ok(RequestedScope { cluster: Some(cluster), region, namespace, service })
}

fn read_context(arguments: &arguments::ScopeArguments) -> Result<Context, Error> {
    let read = match (&arguments.kubeconfig, env::var_os(KUBECONFIG)) {
        (Some(file), _) => Kubeconfig::read_from(file)?,
        (None, Some(list)) if !list.is_empty() => read_list(&list)?,
        (None, _) => Kubeconfig::read()?,
    };
    let name = arguments.context.as_deref();
    find_context(&read, name).ok_or_else(|| match name {
        Some(name) => Error::NoContext(name.to_owned()),
        None => Error::NoCurrentContext,
    })
}

/// kubectl's environment variable with a list of kubeconfig files.
const KUBECONFIG: &str = "KUBECONFIG";

/// Merges the files of a list. The first file that names a cluster, a user or a context wins. As in kubectl, missing
/// files are skipped. If all files are missing, the error is that of the first one.
fn read_list(list: &OsStr) -> Result<Kubeconfig, KubeconfigError> {
    let mut merged: Option<Kubeconfig> = None;
    let mut missing = None;
    for file in env::split_paths(list).filter(|file| !file.as_os_str().is_empty()) {
        match Kubeconfig::read_from(file) {
            Ok(read) => {
                merged = Some(match merged {
                    Some(merged) => merged.merge(read)?,
                    None => read,
                });
            }
            Err(KubeconfigError::ReadConfig(cause, file)) if cause.kind() == NotFound => {
                missing.get_or_insert(KubeconfigError::ReadConfig(cause, file));
            }
            Err(error) => return Err(error),
        }
    }
    match (merged, missing) {
        (Some(merged), _) => Ok(merged),
        (None, Some(missing)) => Err(missing),
        (None, None) => Kubeconfig::read(),
    }
}

impl From<KubeconfigError> for Error {
    /// Replaces kube's error about a file, which has the path twice, and repeats the cause that the chain also has.
    fn from(error: KubeconfigError) -> Self {
        match error {
            KubeconfigError::ReadConfig(cause, file) => Self::KubeconfigFile(cause, file),
            other => Self::Kubeconfig(Box::new(other)),
        }
    }
}

impl RequestedScope {
    /// Whether the scope identifies one cluster, by ARN or by name and Region.
    pub fn is_one_cluster(&self) -> bool {
        let is_arn =
            self.cluster.as_deref().is_some_and(|cluster| ClusterArn::parse(cluster).is_some());
        is_arn || self.region.is_some()
    }

    /// Whether a cluster of a report, given by its ARN, is in the scope. The plan of one cluster also reports other
    /// clusters: those with imports that the plan changes, holds back, or could not read.
    pub fn includes(&self, arn: &str) -> bool {
        let Some(cluster) = &self.cluster else { return true };
        let parsed = ClusterArn::parse(arn);
        cluster == arn || parsed.is_some_and(|parsed| parsed.name() == cluster)
    }
}

impl fmt::Display for RequestedScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.cluster.as_deref().unwrap_or("every cluster"))?;
        let inside = [&self.namespace, &self.service];
        inside.into_iter().flatten().try_for_each(|name| write!(f, " {name}"))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    pub name: String,
    pub cluster: ContextCluster,
    /// The Region of a cluster that is given by name. `None` if the kubeconfig does not have the Region.
    pub region: Option<String>,
    /// The namespace that kubectl uses by default with this context.
    pub namespace: String,
}

/// The cluster of a context, as far as the kubeconfig identifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContextCluster {
    /// An EKS cluster's ARN, or its name.
    Named(String),
    /// A local cluster on Outposts. The kubeconfig has only its id.
    LocalById,
    NotEks,
}

/// Finds the context `name`, or else the current context. Returns `None` if it does not exist.
pub fn find_context(kubeconfig: &Kubeconfig, name: Option<&str>) -> Option<Context> {
    let name = name.or(kubeconfig.current_context.as_deref()).filter(|name| !name.is_empty())?;
    let found = kubeconfig.contexts.iter().find(|context| context.name == name)?;
    let context = found.context.as_ref()?;
    let user = kubeconfig.auth_infos.iter().find(|user| Some(&user.name) == context.user.as_ref());
    let exec = user.and_then(|user| user.auth_info.as_ref()?.exec.as_ref());
    let in_command = exec.and_then(cluster_in_command);
    // A person may have renamed the context, so an ARN as its name must agree with the credential command.
    let is_fitting = |arn: &ClusterArn| match &in_command {
        None => true,
        Some(CommandCluster::Name(name)) => name == arn.name(),
        // The id of the command cannot confirm the ARN.
        Some(CommandCluster::LocalId) => false,
    };
    let arn = ClusterArn::parse(&context.cluster)
        .or_else(|| ClusterArn::parse(name).filter(is_fitting))
        .map(|arn| arn.as_str().to_owned());
    let region = match arn {
        Some(_) => None,
        None => region_of_server(kubeconfig, &context.cluster)
            .or_else(|| region_of_eksctl(&context.cluster))
            .or_else(|| exec.and_then(region_in_command)),
    };
    let cluster = match (arn, in_command) {
        (Some(arn), _) => ContextCluster::Named(arn),
        (None, Some(CommandCluster::Name(name))) => ContextCluster::Named(name),
        (None, Some(CommandCluster::LocalId)) => name_of_eksctl(&context.cluster)
            .map_or(ContextCluster::LocalById, ContextCluster::Named),
        (None, None) => ContextCluster::NotEks,
    };
    Some(Context {
        name: name.to_owned(),
        cluster,
        region: region.filter(|region| is_region(region)),
        namespace: context.namespace.clone().unwrap_or_else(|| "default".to_owned()),
    })
}

/// The cluster in the arguments of a credential command.
enum CommandCluster {
    Name(String),
    /// The id of a local cluster on Outposts.
    LocalId,
}

/// Returns the cluster in the arguments of `aws eks get-token` or `aws-iam-authenticator token`.
///
/// `--cluster-id` of the AWS CLI is the id of a local cluster. `--cluster-id` of aws-iam-authenticator is the id of a
/// local cluster, or the name of any other cluster.
fn cluster_in_command(exec: &ExecConfig) -> Option<CommandCluster> {
    let command = exec.command.as_deref().unwrap_or_default();
    let program = command.rsplit(['/', '\\']).next().unwrap_or_default();
    let arguments = exec.args.as_deref().unwrap_or_default();
    let value = |option: &str| option_value(arguments, option);
    match program.trim_end_matches(".exe") {
        "aws" => {
            let name = value("--cluster-name").map(CommandCluster::Name);
            name.or_else(|| value("--cluster-id").map(|_| CommandCluster::LocalId))
        }
        "aws-iam-authenticator" => {
            let audience = value("-i").or_else(|| value("--cluster-id"))?;
            let is_id = is_uuid(&audience);
            Some(if is_id { CommandCluster::LocalId } else { CommandCluster::Name(audience) })
        }
        _ => None,
    }
}

/// Whether a text has the form of a UUID, as the ids that EKS gives local clusters.
fn is_uuid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12])
        && text.chars().all(|letter| letter == '-' || letter.is_ascii_hexdigit())
}

/// Returns the Region in the host name of the cluster's endpoint, `HASH.gr7.REGION.eks.amazonaws.com`.
fn region_of_server(kubeconfig: &Kubeconfig, cluster: &str) -> Option<String> {
    let named = kubeconfig.clusters.iter().find(|named| named.name == cluster)?;
    let server = named.cluster.as_ref()?.server.as_deref()?;
    let host = server.strip_prefix("https://")?.split(['/', ':']).next()?;
    let (before, _) = host.split_once(".eks.amazonaws.com")?;
    Some(before.rsplit_once('.')?.1.to_owned())
}

/// Returns the cluster's name in the name that eksctl gives it in a kubeconfig, `NAME.REGION.eksctl.io`.
fn name_of_eksctl(cluster: &str) -> Option<String> {
    let (name, region) = cluster.strip_suffix(".eksctl.io")?.rsplit_once('.')?;
    (!name.is_empty() && is_region(region)).then(|| name.to_owned())
}

/// Returns the Region in the name that eksctl gives a cluster in a kubeconfig, `NAME.REGION.eksctl.io`.
fn region_of_eksctl(cluster: &str) -> Option<String> {
    Some(cluster.strip_suffix(".eksctl.io")?.rsplit_once('.')?.1.to_owned())
}

/// Returns the Region of the credential command, from its option or else its environment, in the order of the AWS CLI.
fn region_in_command(exec: &ExecConfig) -> Option<String> {
    let option = option_value(exec.args.as_deref().unwrap_or_default(), "--region");
    let environment = exec.env.as_deref().unwrap_or_default();
    let variable = |name: &str| {
        let entry =
            environment.iter().find(|entry| entry.get("name").is_some_and(|text| text == name))?;
        entry.get("value").cloned()
    };
    option.or_else(|| variable("AWS_REGION")).or_else(|| variable("AWS_DEFAULT_REGION"))
}

/// Returns the value of an option, in the form `--option value` or `--option=value`.
fn option_value(arguments: &[String], option: &str) -> Option<String> {
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == option {
            return rest.next().cloned();
        }
        let joined = argument.strip_prefix(option).and_then(|rest| rest.strip_prefix('='));
        if let Some(value) = joined {
            return Some(value.to_owned());
        }
    }
    None
}
