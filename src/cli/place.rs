//! Which Services a command line is about: a cluster by its context, as kubectl would choose it, or by
//! name.

use std::fmt;
use std::io;
use std::path::PathBuf;

use kube::config::{Kubeconfig, KubeconfigError};

use super::arguments;
use super::kubeconfig::{self, Context};

/// What a command is about. Nothing named is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The EKS cluster's name or ARN.
    pub cluster: Option<String>,
    /// The Kubernetes namespace.
    pub namespace: Option<String>,
    /// The Service.
    pub service: Option<String>,
}

/// Why that is not known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file of the kubeconfig cannot be read.
    #[error("cannot read the kubeconfig; --cluster NAME does without one: {}", .1.display())]
    KubeconfigFile(#[source] io::Error, PathBuf),
    /// The kubeconfig cannot be read.
    #[error("cannot read the kubeconfig; --cluster NAME does without one")]
    Kubeconfig(#[source] Box<KubeconfigError>),
    /// It has no such context.
    #[error("the kubeconfig has no context {0:?}")]
    NoContext(String),
    /// It has no current context.
    #[error(
        "the kubeconfig has no current context: choose one by --context, or a cluster by --cluster"
    )]
    NoCurrentContext,
    /// The context leads to no EKS cluster.
    #[error("the context {0:?} does not name an EKS cluster: pass --cluster")]
    NotEks(String),
    /// A verb about one Service, without one.
    #[error("name the Service to explain: service/NAME")]
    NoService,
    /// A Service without its namespace.
    #[error("a Service is named and its namespace is not: add -n NAMESPACE")]
    NoNamespace,
}

/// The place that the arguments mean.
pub fn of(arguments: &arguments::Place) -> Result<Place, Error> {
    if arguments.all_clusters {
        return Ok(Place::default());
    }
    let service = arguments.service.clone();
    if let Some(cluster) = arguments.cluster.clone() {
        let namespace = arguments.namespace.clone();
        if service.is_some() && namespace.is_none() {
            return Err(Error::NoNamespace);
        }
        return Ok(Place { cluster: Some(cluster), namespace, service });
    }
    let Context { name, cluster, namespace } = context(arguments)?;
    let cluster = cluster.ok_or(Error::NotEks(name))?;
    let namespace = arguments.namespace.clone().unwrap_or(namespace);
    let namespace = Some(namespace).filter(|_| !arguments.all_namespaces);
    Ok(Place { cluster: Some(cluster), namespace, service })
}

fn context(arguments: &arguments::Place) -> Result<Context, Error> {
    let read = match &arguments.kubeconfig {
        Some(file) => Kubeconfig::read_from(file),
        None => Kubeconfig::read(),
    };
    let kubeconfig = read.map_err(Error::from)?;
    let name = arguments.context.as_deref();
    let found = kubeconfig::context(&kubeconfig, name);
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
    /// What a person types to say that they mean this cluster: its name, also where it is given by ARN.
    pub fn cluster_name(&self) -> &str {
        let cluster = self.cluster.as_deref().unwrap_or_default();
        cluster.rsplit('/').next().unwrap_or_default()
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
    use crate::error::chain;

    #[test]
    fn a_missing_kubeconfig_is_named_once_with_its_cause() {
        let missing = PathBuf::from("/missing/config");
        let arguments =
            arguments::Place { kubeconfig: Some(missing), ..arguments::Place::default() };
        let error = of(&arguments).expect_err("there is no such file");
        assert_eq!(
            chain(&error),
            "cannot read the kubeconfig; --cluster NAME does without one: /missing/config: No such file or directory (os error 2)"
        );
    }

    #[test]
    fn a_cluster_by_name_is_whole_unless_a_namespace_is_named() {
        let named = |namespace: Option<&str>, service: Option<&str>| {
            of(&arguments::Place {
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
