//! The connection to a cluster: its description by EKS, and a client for its API server. Connections are cached for the
//! life of the process; a run that fails on a stale one makes a new connection. An ARN identifies a cluster: that of a
//! name is known once EKS has described it, and if another entry of the settings has this ARN, the name is not served.

use tokio::time::timeout;

use crate::eks;
use crate::eks::token::TokenSource;
use crate::kubernetes::{self, Kubernetes};
use crate::model::{ClusterArn, EksCluster};
use crate::settings::Cluster;

use super::{BRIEF, Clients, lock};

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
    #[error(
        "EKS did not return the ARN of the cluster {0:?} within {seconds} s: the run goes on without it",
        seconds = BRIEF.as_secs()
    )]
    Unresolved(String),
    /// The cluster is that of another entry, which is served.
    #[error(
        "CLUSTERS names this cluster twice, as {name} and as {arn}: only the entry with the ARN is served; remove the \
         one with the name"
    )]
    NamedTwice { name: String, arn: ClusterArn },
    #[error("no AWS credentials are configured to sign a token for the cluster {0:?}")]
    NoCredentials(String),
    #[error(transparent)]
    Connect(#[from] kubernetes::connect::Error),
}

impl Clients {
    /// The ARN of a cluster, if it is known: that of a name never changes after EKS has returned it once.
    pub fn arn_of(&self, cluster: &Cluster) -> Option<ClusterArn> {
        cluster.arn.clone().or_else(|| lock(&self.arns).get(&cluster.name).cloned())
    }

    /// The cached connection to a cluster, or a new one, which is made once for all who ask for it meanwhile.
    ///
    /// # Errors
    /// Returns an error if EKS cannot describe the cluster, or if another entry of the settings has its ARN.
    pub async fn connect(&self, cluster: &Cluster) -> Result<Connection, Error> {
        let connecting = async {
            self.check_only_entry(cluster)?;
            if let Some(cached) = self.cached(cluster) {
                return Ok(cached);
            }
            let connecting =
                lock(&self.connecting).entry(cluster.label().to_owned()).or_default().clone();
            let _connecting = connecting.lock().await;
            match self.cached(cluster) {
                Some(made_meanwhile) => Ok(Connection { reused: false, ..made_meanwhile }),
                None => Box::pin(self.describe(cluster)).await,
            }
        };
        self.resolve_in_time(cluster, connecting).await
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
        self.resolve_in_time(cluster, Box::pin(self.describe(cluster))).await
    }

    /// Limits the first connection to a cluster that has a name only. Its messages may also be those of another cluster,
    /// so a batch ends with it.
    async fn resolve_in_time(
        &self,
        cluster: &Cluster,
        connecting: impl Future<Output = Result<Connection, Error>>,
    ) -> Result<Connection, Error> {
        if self.arn_of(cluster).is_some() {
            return connecting.await;
        }
        let unresolved = || Error::Unresolved(cluster.name.clone());
        timeout(BRIEF, connecting).await.unwrap_or_else(|_| Err(unresolved()))
    }

    async fn describe(&self, cluster: &Cluster) -> Result<Connection, Error> {
        let config = self.config(cluster.role.as_ref(), Some(&cluster.region)).await;
        let described = eks::describe(&aws_sdk_eks::Client::new(&config), &cluster.name).await?;
        match &cluster.arn {
            Some(configured) if *configured != described.arn => {
                let (configured, described) = (configured.clone(), described.arn);
                return Err(Error::OtherCluster { configured, described });
            }
            Some(_) => {}
            None => {
                lock(&self.arns).insert(cluster.name.clone(), described.arn.clone());
                self.check_only_entry(cluster)?;
            }
        }
        let credentials = config.credentials_provider();
        let credentials = credentials.ok_or_else(|| Error::NoCredentials(cluster.name.clone()))?;
        let clock = config.time_source().unwrap_or_default();
        let tokens = TokenSource::new(&cluster.name, &cluster.region, credentials, clock);
        let client = kubernetes::connect(&described, tokens.into_tokens(), &self.transport)?;
        let kubernetes = Kubernetes::new(client);
        let entry = (described.clone(), kubernetes.clone());
        lock(&self.clusters).insert(cluster.label().to_owned(), entry);
        Ok(Connection { cluster: described, kubernetes, reused: false })
    }

    fn check_only_entry(&self, cluster: &Cluster) -> Result<(), Error> {
        match self.arn_of(cluster).filter(|arn| cluster.namesakes.contains(arn)) {
            Some(arn) => Err(Error::NamedTwice { name: cluster.name.clone(), arn }),
            None => Ok(()),
        }
    }
}
