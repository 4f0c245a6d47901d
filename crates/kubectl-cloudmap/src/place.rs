//! The scope of a command line: a cluster by kubectl's context, or by name, with a namespace and a Service. `command`
//! puts it into the payload.

use std::fmt;
use std::io;
use std::path::PathBuf;

use kube::config::{Kubeconfig, KubeconfigError};

use super::arguments;
use super::kubeconfig::{self, Context};
use cloud_map_sync::model::ClusterArn;

/// The scope of a command. Without a name it covers everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub cluster: Option<String>,
    /// The Region of a cluster by name, if its context has it.
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
    /// A cluster's name without its Region may be that of another cluster.
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

pub fn resolve(arguments: &arguments::Place) -> Result<Place, Error> {
    if arguments.all_clusters {
        return Ok(Place::default());
    }
    let service = arguments.service.clone();
    if let Some(cluster) = arguments.cluster.clone() {
        let namespace = arguments.namespace.clone();
        if service.is_some() && namespace.is_none() {
            return Err(Error::NoNamespace);
        }
        return Ok(Place { cluster: Some(cluster), region: None, namespace, service });
    }
    let Context { name, cluster, region, namespace } = read_context(arguments)?;
    let cluster = cluster.ok_or(Error::NotEks(name))?;
    let namespace = arguments.namespace.clone().unwrap_or(namespace);
    let namespace = Some(namespace).filter(|_| !arguments.all_namespaces);
    Ok(Place { cluster: Some(cluster), region, namespace, service })
}

fn read_context(arguments: &arguments::Place) -> Result<Context, Error> {
    let read = match &arguments.kubeconfig {
        Some(file) => Kubeconfig::read_from(file),
        None => Kubeconfig::read(),
    };
    let kubeconfig = read.map_err(Error::from)?;
    let name = arguments.context.as_deref();
    let found = kubeconfig::find_context(&kubeconfig, name);
    found.ok_or_else(|| match name {
        Some(name) => Error::NoContext(name.to_owned()),
        None => Error::NoCurrentContext,
    })
}

impl From<KubeconfigError> for Error {
    /// The client's own sentence about a file quotes its path twice, and says the cause once more than the chain does.
    fn from(error: KubeconfigError) -> Self {
        match error {
            KubeconfigError::ReadConfig(cause, file) => Self::KubeconfigFile(cause, file),
            other => Self::Kubeconfig(Box::new(other)),
        }
    }
}

impl Place {
    /// Whether it means one cluster: by ARN, or by name and Region.
    pub fn is_one_cluster(&self) -> bool {
        let is_arn = self.cluster.as_deref().is_some_and(|it| ClusterArn::parse(it).is_some());
        is_arn || self.region.is_some()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.cluster.as_deref().unwrap_or("every cluster"))?;
        let inside = [&self.namespace, &self.service];
        inside.into_iter().flatten().try_for_each(|name| write!(f, " {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_map_sync::error::chain;

    #[test]
    fn a_missing_kubeconfig_is_named_once_with_its_cause() {
        let missing = PathBuf::from("/missing/config");
        let arguments =
            arguments::Place { kubeconfig: Some(missing), ..arguments::Place::default() };
        let error = resolve(&arguments).expect_err("there is no such file");
        assert_eq!(
            chain(&error),
            "cannot read the kubeconfig; --cluster NAME needs none: /missing/config: No such file or directory (os error 2)"
        );
    }

    #[test]
    fn a_cluster_by_name_is_whole_unless_a_namespace_is_named() {
        let named = |namespace: Option<&str>, service: Option<&str>| {
            resolve(&arguments::Place {
                cluster: Some("blue".to_owned()),
                namespace: namespace.map(str::to_owned),
                service: service.map(str::to_owned),
                ..arguments::Place::default()
            })
        };
        let shown = |place: Result<Place, Error>| place.map(|place| place.to_string());
        assert_eq!(shown(named(None, None)).expect("whole"), "blue");
        assert_eq!(shown(named(Some("shop"), Some("web"))).expect("one"), "blue shop web");
        assert!(matches!(named(None, Some("web")), Err(Error::NoNamespace)));
    }
}
