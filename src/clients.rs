//! Every client of an outside system, built once and kept for the life of the process: Cloud Map by
//! account and Region, and the connection to each cluster. The SDK configuration that comes in is the
//! one seam: its endpoints, credentials and Region are used as they are.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::sts::AssumeRoleProvider;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, ConfigLoader, Region, SdkConfig};
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_servicediscovery::config::retry::{RetryPartition, TokenBucket};
use aws_sdk_sts::error::DisplayErrorContext;

use crate::cloud_map::{CloudMap, QuotaShare, Quotas};
use crate::eks;
use crate::eks::token::TokenSource;
use crate::kubernetes::{self, Kubernetes};
use crate::model::{ClusterArn, EksCluster, Existence, RegistryName, Traffic};
use crate::settings::{Cluster, Role};

/// Tries of one AWS call. The SDK backs off between them. Its adaptive mode would besides hold all
/// calls to about one per second after a single throttle of any of them.
const ATTEMPTS: u32 = 8;
/// The longest pause between two tries.
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);

/// One account's Cloud Map in one Region.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegistryKey {
    role: Option<Role>,
    /// None: the function's own.
    region: Option<String>,
}

impl fmt::Display for RegistryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = self.role.as_ref().map(|role| format!("of {}", role.arn));
        let region = self.region.as_ref().map(|region| format!("in {region}"));
        let parts: Vec<String> = role.into_iter().chain(region).collect();
        f.write_str(if parts.is_empty() { "of the function" } else { "" })?;
        f.write_str(&parts.join(" "))
    }
}

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
        "EKS calls the cluster {described}, and CLUSTERS says {configured}: is the role right?"
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

/// An account and a Region, in which the rates of calls hold. None: the function's own.
type Place = (Option<String>, Option<String>);

/// All clients.
pub struct Clients {
    base: SdkConfig,
    quota_share: QuotaShare,
    quotas: Mutex<BTreeMap<Place, Arc<Quotas>>>,
    registries: Mutex<BTreeMap<RegistryKey, CloudMap>>,
    clusters: Mutex<BTreeMap<String, (EksCluster, Kubernetes)>>,
}

/// The SDK's configuration with the function's retries and time limits, to be loaded from the
/// environment.
pub fn sdk_config() -> ConfigLoader {
    let retries =
        RetryConfig::standard().with_max_attempts(ATTEMPTS).with_max_backoff(LONGEST_BACKOFF);
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .build();
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .retry_config(retries)
        .timeout_config(timeouts)
}

impl Clients {
    /// Clients that are configured by `base` and use so much of each account's rates.
    pub fn new(base: SdkConfig, quota_share: QuotaShare) -> Self {
        let (quotas, registries, clusters) = Default::default();
        Self { base, quota_share, quotas, registries, clusters }
    }

    /// Which Cloud Map a cluster's Services are kept in. The function's own Region is the same whether
    /// the settings spell it out or not.
    pub fn registry_of(&self, cluster: &Cluster) -> RegistryKey {
        let own = self.base.region().map(Region::as_ref);
        let other = cluster.registry_region.clone().filter(|region| Some(region.as_str()) != own);
        RegistryKey { role: cluster.registry_role.clone(), region: other }
    }

    /// The client of a Cloud Map.
    pub async fn cloud_map(&self, key: &RegistryKey) -> CloudMap {
        if let Some(known) = lock(&self.registries).get(key) {
            return known.clone();
        }
        let config = self.config(key.role.as_ref(), key.region.as_deref()).await;
        // Retries are budgeted by partition. Without its own, an account that throttles would use up
        // those of every other account in the Region. How many are made the quotas say.
        let config = aws_sdk_servicediscovery::config::Builder::from(&config).retry_partition(
            RetryPartition::custom("cloud-map").token_bucket(TokenBucket::unlimited()).build(),
        );
        let cloud_map = CloudMap::new(config, self.quotas(key));
        lock(&self.registries).entry(key.clone()).or_insert(cloud_map).clone()
    }

    /// The quotas of a Cloud Map. Roles of one account share them.
    fn quotas(&self, key: &RegistryKey) -> Arc<Quotas> {
        let account = key.role.as_ref().and_then(Role::account).map(str::to_owned);
        let mut quotas = lock(&self.quotas);
        let place = (account, key.region.clone());
        quotas.entry(place).or_insert_with(|| Arc::new(Quotas::new(self.quota_share))).clone()
    }

    /// What was asked of Cloud Map since the process began, in all accounts and Regions.
    pub fn traffic(&self) -> Traffic {
        lock(&self.quotas).values().map(|quotas| quotas.traffic()).sum()
    }

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

    /// Who asks EKS for a cluster, as STS tells it.
    ///
    /// # Errors
    /// What STS or the connection said.
    pub async fn identity(&self, cluster: &Cluster) -> Result<String, String> {
        let config = self.config(cluster.role.as_ref(), Some(&cluster.region)).await;
        let asked = aws_sdk_sts::Client::new(&config).get_caller_identity().send().await;
        let answer = asked.map_err(|error| DisplayErrorContext(&error).to_string())?;
        Ok(answer.arn.unwrap_or_default())
    }

    /// The account and Region of a Cloud Map. That of the function itself STS tells.
    ///
    /// # Errors
    /// What STS or the connection said.
    pub async fn name_of(&self, key: &RegistryKey) -> Result<RegistryName, String> {
        let own = || self.base.region().map(|region| region.as_ref().to_owned());
        let region = key.region.clone().or_else(own).unwrap_or_default();
        if let Some(account) = key.role.as_ref().and_then(Role::account) {
            return Ok(RegistryName { account: account.to_owned(), region });
        }
        let config = self.config(None, Some(&region)).await;
        let asked = aws_sdk_sts::Client::new(&config).get_caller_identity().send().await;
        let answer = asked.map_err(|error| DisplayErrorContext(&error).to_string())?;
        Ok(RegistryName { account: answer.account.unwrap_or_default(), region })
    }

    /// Whether a cluster is there, asked as `role`, or as the function itself.
    pub async fn existence(&self, cluster: &ClusterArn, role: Option<&Role>) -> Existence {
        let config = self.config(role, Some(cluster.region())).await;
        let (eks, sts) = (aws_sdk_eks::Client::new(&config), aws_sdk_sts::Client::new(&config));
        eks::existence(&eks, &sts, cluster).await
    }

    async fn config(&self, role: Option<&Role>, region: Option<&str>) -> SdkConfig {
        let mut config = self.base.to_builder();
        if let Some(region) = region {
            config = config.region(Region::new(region.to_owned()));
        }
        if let Some(role) = role {
            let mut provider = AssumeRoleProvider::builder(role.arn.clone())
                .session_name("cloud-map-sync")
                .configure(&self.base);
            if let Some(id) = &role.external_id {
                provider = provider.external_id(id);
            }
            let provider = provider.build().await;
            config = config.credentials_provider(SharedCredentialsProvider::new(provider));
        }
        config.build()
    }
}

/// The maps are whole after every step, so a panic elsewhere leaves nothing half done in them.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
