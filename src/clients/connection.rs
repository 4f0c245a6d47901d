//! The connection to a cluster: where EKS says that it is, with a client for its API server.

use crate::eks;
use crate::eks::token::TokenSource;
use crate::kubernetes::{self, Kubernetes};
use crate::model::{ClusterArn, EksCluster};
use crate::settings::Cluster;

use super::{Clients, lock};

/// A described cluster with a client for its API server.
pub struct Connection {
    /// What EKS says of it.
    pub cluster: EksCluster,
    /// Its Kubernetes API.
    pub kubernetes: Kubernetes,
    /// Whether it was there before this invocation, and so may be out of date.
    pub reused: bool,
}

/// Why a cluster could not be connected to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// EKS did not tell where it is.
    #[error(transparent)]
    Describe(#[from] eks::Error),
    /// The ARN in the settings is another cluster's than the one that EKS told of.
    #[error(
        "EKS returned the cluster {described}, but CLUSTERS names {configured}: is the role right?"
    )]
    OtherCluster {
        /// As configured.
        configured: ClusterArn,
        /// As described.
        described: ClusterArn,
    },
    /// There is nobody to sign tokens as.
    #[error("no AWS credentials are configured to sign a token for the cluster {0:?}")]
    NoCredentials(String),
    /// No client could be made of what EKS told.
    #[error(transparent)]
    Connect(#[from] kubernetes::connect::Error),
}

impl Clients {
    /// The connection to a cluster: the one that is known, or a new one.
    ///
    /// # Errors
    /// Where EKS does not tell where the cluster is.
    pub async fn connect(&self, cluster: &Cluster) -> Result<Connection, Error> {
        let known = lock(&self.clusters).get(cluster.label()).cloned();
        if let Some((cluster, kubernetes)) = known {
            return Ok(Connection { cluster, kubernetes, reused: true });
        }
        self.reconnect(cluster).await
    }

    /// A new connection to a cluster, made from a new description of it.
    ///
    /// # Errors
    /// As [`Clients::connect`].
    pub async fn reconnect(&self, cluster: &Cluster) -> Result<Connection, Error> {
        let config = self.config(cluster.role.as_ref(), Some(&cluster.region)).await;
        let described = eks::describe(&aws_sdk_eks::Client::new(&config), &cluster.name).await?;
        if let Some(configured) = cluster.arn.as_ref().filter(|arn| **arn != described.arn) {
            let (configured, described) = (configured.clone(), described.arn);
            return Err(Error::OtherCluster { configured, described });
        }
        let credentials = config.credentials_provider();
        let credentials = credentials.ok_or_else(|| Error::NoCredentials(cluster.name.clone()))?;
        let tokens = TokenSource::new(&cluster.name, &cluster.region, credentials);
        let client = kubernetes::connect(&described, tokens.into_tokens())?;
        let kubernetes = Kubernetes::new(client);
        let entry = (described.clone(), kubernetes.clone());
        lock(&self.clusters).insert(cluster.label().to_owned(), entry);
        Ok(Connection { cluster: described, kubernetes, reused: false })
    }
}
