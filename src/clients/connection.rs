//! The connection to a cluster: its description by EKS, and a client for its API server. Connections are cached for the
//! life of the process; a run that fails on a stale one makes a new connection.

use crate::eks;
use crate::eks::token::TokenSource;
use crate::kubernetes::{self, Kubernetes};
use crate::model::{ClusterArn, EksCluster};
use crate::settings::Cluster;

use super::{Clients, lock};

/// A described cluster with a client for its API server.
#[derive(Clone)]
pub struct Connection {
    pub cluster: EksCluster,
    pub kubernetes: Kubernetes,
    /// Whether the connection is from the cache, and so may be stale.
    pub reused: bool,
}

/// A connection to a cluster could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Describe(#[from] eks::Error),
    /// The settings have another ARN than EKS returned.
    #[error(
        "EKS returned the cluster {described}, but CLUSTERS names {configured}: is the role right?"
    )]
    OtherCluster { configured: ClusterArn, described: ClusterArn },
    #[error("no AWS credentials are configured to sign a token for the cluster {0:?}")]
    NoCredentials(String),
    #[error(transparent)]
    Connect(#[from] kubernetes::connect::Error),
}

impl Clients {
    /// The cached connection to a cluster, or a new one, which is made once for all who ask for it meanwhile.
    ///
    /// # Errors
    /// Returns an error if EKS cannot describe the cluster.
    pub async fn connect(&self, cluster: &Cluster) -> Result<Connection, Error> {
        if let Some(cached) = self.cached(cluster) {
            return Ok(cached);
        }
        let connecting =
            lock(&self.connecting).entry(cluster.label().to_owned()).or_default().clone();
        let _connecting = connecting.lock().await;
        match self.cached(cluster) {
            Some(made_meanwhile) => Ok(Connection { reused: false, ..made_meanwhile }),
            None => self.reconnect(cluster).await,
        }
    }

    fn cached(&self, cluster: &Cluster) -> Option<Connection> {
        let cached = lock(&self.clusters).get(cluster.label()).cloned();
        cached.map(|(cluster, kubernetes)| Connection { cluster, kubernetes, reused: true })
    }

    /// A new connection, from a new description of the cluster.
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
        let clock = config.time_source().unwrap_or_default();
        let tokens = TokenSource::new(&cluster.name, &cluster.region, credentials, clock);
        let client = kubernetes::connect(&described, tokens.into_tokens())?;
        let kubernetes = Kubernetes::new(client);
        let entry = (described.clone(), kubernetes.clone());
        lock(&self.clusters).insert(cluster.label().to_owned(), entry);
        Ok(Connection { cluster: described, kubernetes, reused: false })
    }
}
