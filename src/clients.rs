//! The clients of the outside systems. Those of Cloud Map, by role and Region, and the [`Connection`] to each cluster
//! are kept for the life of the process; those of EKS and STS are made for each call. All are built from the SDK
//! configuration that is passed in, which sets the endpoints and the defaults of the credentials and the Region.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, ConfigLoader, Region, SdkConfig, sts};
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_servicediscovery::config::retry::{RetryPartition, TokenBucket};
use aws_sdk_sts::operation::get_caller_identity::GetCallerIdentityOutput;
use tokio::time::timeout;

use crate::cloud_map::{CloudMap, CustomTags, QuotaShare, Quotas};
use crate::connections::{aws_client, system_resolver};
use crate::eks::{self, TokenSource};
use crate::error::chain;
use crate::kubernetes::{self, Kubernetes, Transport, transport::over_network};
use crate::model::{ClusterArn, EksCluster, Existence, RegistryName, Traffic, join_or};
use crate::settings::{Cluster, Role};

/// The longest wait for EKS to answer whether a cluster exists.
const EXISTENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// One account's Cloud Map in one Region.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegistryKey {
    /// The role that accesses the account. `None` for the function's own credentials.
    role: Option<Role>,
    /// `None` for the function's own Region.
    region: Option<String>,
}

impl fmt::Display for RegistryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = self.role.as_ref().map(|role| format!("of {}", role.arn));
        let region = self.region.as_ref().map(|region| format!("in {region}"));
        f.write_str(&join_or(role.into_iter().chain(region), " ", "of the function"))
    }
}

/// The account and Region of a rate limit. `None` for the function's own account or Region.
type QuotaKey = (Option<String>, Option<String>);

pub struct Clients {
    base: SdkConfig,
    /// The account of the credentials in `base`, if it is known.
    account: Option<String>,
    /// Carries the requests to API servers.
    transport: Transport,
    quota_share: QuotaShare,
    custom_tags: Arc<CustomTags>,
    quotas: Mutex<BTreeMap<QuotaKey, Arc<Quotas>>>,
    registries: Mutex<BTreeMap<RegistryKey, CloudMap>>,
    clusters: Mutex<BTreeMap<ClusterArn, Connection>>,
    /// A lock for each cluster, held while a connection to the cluster is made.
    connecting: Mutex<BTreeMap<ClusterArn, Arc<tokio::sync::Mutex<()>>>>,
}

impl Clients {
    /// Creates clients with the configuration `base`. They use `quota_share` of each account's rate limits, and add
    /// `custom_tags` to all that they create in Cloud Map.
    pub fn new(base: SdkConfig, quota_share: QuotaShare, custom_tags: CustomTags) -> Self {
        let clock = base.time_source().unwrap_or_default();
        Self {
            base,
            account: None,
            transport: over_network(clock),
            quota_share,
            custom_tags: Arc::new(custom_tags),
            quotas: Mutex::default(),
            registries: Mutex::default(),
            clusters: Mutex::default(),
            connecting: Mutex::default(),
        }
    }

    /// Sets the account of the function's own credentials.
    #[must_use]
    pub fn of_account(self, account: Option<String>) -> Self {
        Self { account, ..self }
    }

    /// Replaces the transport to API servers.
    #[must_use]
    pub fn with_transport(self, transport: Transport) -> Self {
        Self { transport, ..self }
    }

    /// Returns the Cloud Map of a cluster. Settings with the function's own Region and settings without a Region have
    /// the same key.
    pub fn registry_of(&self, cluster: &Cluster) -> RegistryKey {
        let own = self.base.region().map(Region::as_ref);
        let other = cluster.registry_region.clone().filter(|region| Some(region.as_str()) != own);
        RegistryKey { role: cluster.registry_role.clone(), region: other }
    }

    /// Returns the account and Region of a Cloud Map as `ACCOUNT/REGION`, the form that a purge accepts. `account` is
    /// the account of a Cloud Map without a role.
    pub fn account_and_region_of(&self, key: &RegistryKey, account: Option<&str>) -> String {
        let account = key.role.as_ref().and_then(Role::account).or(account).unwrap_or("ACCOUNT");
        let own = self.base.region().map(Region::as_ref);
        let region = key.region.as_deref().or(own).unwrap_or("REGION");
        format!("{account}/{region}")
    }

    pub async fn cloud_map(&self, key: &RegistryKey) -> CloudMap {
        if let Some(known) = lock(&self.registries).get(key) {
            return known.clone();
        }
        let config = self.config(key.role.as_ref(), key.region.as_deref()).await;
        // The SDK limits retries by partition. In a shared partition an account that is throttled would use up the
        // retries of all other accounts in the Region. The quotas limit the calls instead.
        let config = aws_sdk_servicediscovery::config::Builder::from(&config).retry_partition(
            RetryPartition::custom("cloud-map").token_bucket(TokenBucket::unlimited()).build(),
        );
        let cloud_map = CloudMap::new(config, self.quotas(key), self.custom_tags.clone());
        lock(&self.registries).entry(key.clone()).or_insert(cloud_map).clone()
    }

    /// Returns the quotas of a Cloud Map, which all roles of one account and the function's own credentials share.
    fn quotas(&self, key: &RegistryKey) -> Arc<Quotas> {
        let account = key.role.as_ref().and_then(Role::account);
        let account = account.filter(|account| Some(*account) != self.account.as_deref());
        let account = account.map(str::to_owned);
        let mut quotas = lock(&self.quotas);
        let quota_key = (account, key.region.clone());
        quotas.entry(quota_key).or_insert_with(|| Arc::new(Quotas::new(self.quota_share))).clone()
    }

    /// Returns the number of calls to Cloud Map since the process started, in all accounts and Regions.
    pub fn traffic(&self) -> Traffic {
        lock(&self.quotas).values().map(|quotas| quotas.traffic()).sum()
    }
}

/// Locks a map. Ignores poisoning: each map is changed in one step, so a panic cannot leave it inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The attempts of one AWS call, with a backoff between them. The SDK's adaptive mode is not used: after one throttle
/// it limits all calls to about one per second.
const MAX_ATTEMPTS: u32 = 8;
const MAX_BACKOFF: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);

/// Returns the loader of the SDK configuration, with the function's retries and timeouts.
pub fn sdk_config() -> ConfigLoader {
    let retries =
        RetryConfig::standard().with_max_attempts(MAX_ATTEMPTS).with_max_backoff(MAX_BACKOFF);
    let timeouts = aws_config::timeout::TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .build();
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(aws_client(system_resolver()))
        .retry_config(retries)
        .timeout_config(timeouts)
}

impl Clients {
    pub(super) async fn config(&self, role: Option<&Role>, region: Option<&str>) -> SdkConfig {
        let mut config = self.base.to_builder();
        if let Some(region) = region {
            config = config.region(Region::new(region.to_owned()));
        }
        if let Some(role) = role {
            let mut provider = sts::AssumeRoleProvider::builder(role.arn.clone())
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

    /// Returns the ARN of the identity that calls EKS for a cluster.
    ///
    /// # Errors
    /// Returns the error message of STS or of the connection.
    pub async fn identity(&self, cluster: &Cluster) -> Result<String, String> {
        let caller = self.caller(cluster.role.as_ref(), cluster.arn.region()).await?;
        Ok(caller.arn.unwrap_or_default())
    }

    async fn caller(
        &self,
        role: Option<&Role>,
        region: &str,
    ) -> Result<GetCallerIdentityOutput, String> {
        let sts = aws_sdk_sts::Client::new(&self.config(role, Some(region)).await);
        sts.get_caller_identity().send().await.map_err(|error| chain(&error))
    }

    /// Returns the account and Region of a Cloud Map. Without a role the account is read from STS.
    ///
    /// # Errors
    /// Returns the error message of STS or of the connection.
    pub async fn registry_name(&self, key: &RegistryKey) -> Result<RegistryName, String> {
        let own = || self.base.region().map(|region| region.as_ref().to_owned());
        let region = key.region.clone().or_else(own).unwrap_or_default();
        if let Some(account) = key.role.as_ref().and_then(Role::account) {
            return Ok(RegistryName { account: account.to_owned(), region });
        }
        let caller = self.caller(None, &region).await?;
        Ok(RegistryName { account: caller.account.unwrap_or_default(), region })
    }

    /// Returns whether a cluster exists, with the credentials of `role` or of the function. Makes only one short
    /// attempt, since anyone who may register instances can cause this call.
    pub async fn existence(&self, cluster: &ClusterArn, role: Option<&Role>) -> Existence {
        let check = async {
            let config = self.config(role, Some(cluster.region())).await;
            let config = config.to_builder().retry_config(RetryConfig::disabled()).build();
            let eks = aws_sdk_eks::Client::new(&config);
            let sts = aws_sdk_sts::Client::new(&config);
            eks::existence(&eks, &sts, cluster).await
        };
        let late = || format!("EKS did not answer within {} s", EXISTENCE_TIMEOUT.as_secs());
        timeout(EXISTENCE_TIMEOUT, check).await.unwrap_or_else(|_| Existence::Unknown(late()))
    }
}

// The connection to a cluster: its description by EKS, and a client for its API server. Connections are cached for the
// life of the process. A run that fails on a stale connection makes a new one.

/// A described cluster with a client for its API server.
#[derive(Clone)]
pub struct Connection {
    pub cluster: EksCluster,
    pub kubernetes: Kubernetes,
    /// Whether the connection is from the cache, and so may be stale.
    pub reused: bool,
}

/// The error of a connection that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Describe(#[from] eks::Error),
    /// EKS returned another ARN than the settings have.
    #[error(
        "EKS returned the cluster {described}, but CLUSTERS names {configured}: is the role right?"
    )]
    OtherCluster { configured: ClusterArn, described: ClusterArn },
    #[error("cannot describe the cluster {0}: EKS did not answer in time")]
    Late(ClusterArn),
    #[error("no AWS credentials are configured to sign a token for the cluster {0}")]
    NoCredentials(ClusterArn),
    #[error(transparent)]
    Connect(#[from] kubernetes::ConnectError),
}

impl Clients {
    /// Returns the cached connection to a cluster, or a new one. Concurrent callers share one new connection.
    ///
    /// # Errors
    /// Returns an error if EKS cannot describe the cluster or describes another one, if there are no credentials, or if
    /// no client can be built from the description.
    pub async fn connect(&self, cluster: &Cluster) -> Result<Connection, Error> {
        if let Some(cached) = self.cached(cluster) {
            return Ok(cached);
        }
        let connecting = lock(&self.connecting).entry(cluster.arn.clone()).or_default().clone();
        let _connecting = connecting.lock().await;
        match self.cached(cluster) {
            Some(made_meanwhile) => Ok(Connection { reused: false, ..made_meanwhile }),
            None => Box::pin(self.reconnect(cluster)).await,
        }
    }

    fn cached(&self, cluster: &Cluster) -> Option<Connection> {
        let cached = lock(&self.clusters).get(&cluster.arn).cloned();
        cached.map(|connection| Connection { reused: true, ..connection })
    }

    /// Makes a new connection from a new description of the cluster, and caches it.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Clients::connect`].
    pub async fn reconnect(&self, cluster: &Cluster) -> Result<Connection, Error> {
        let arn = &cluster.arn;
        let config = self.config(cluster.role.as_ref(), Some(arn.region())).await;
        let described = eks::describe(&aws_sdk_eks::Client::new(&config), arn.name()).await?;
        if described.arn != *arn {
            return Err(Error::OtherCluster { configured: arn.clone(), described: described.arn });
        }
        let credentials = config.credentials_provider();
        let credentials = credentials.ok_or_else(|| Error::NoCredentials(arn.clone()))?;
        let clock = config.time_source().unwrap_or_default();
        let tokens = TokenSource::new(described.token_audience(), arn.region(), credentials, clock);
        let client = kubernetes::connect(&described, tokens.into_tokens(), &self.transport)?;
        let kubernetes = Kubernetes::new(client);
        let connection = Connection { cluster: described, kubernetes, reused: false };
        lock(&self.clusters).insert(arn.clone(), connection.clone());
        Ok(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_roles_of_an_account_share_its_rates() {
        let config = SdkConfig::builder().build();
        let clients = Clients::new(config, QuotaShare::default(), CustomTags::new());
        let clients = clients.of_account(Some("111122223333".to_owned()));
        let quotas = |role: Option<&str>| {
            let role = role.map(|arn| Role { arn: arn.to_owned(), external_id: None });
            clients.quotas(&RegistryKey { role, region: None })
        };
        let own = quotas(None);
        assert!(Arc::ptr_eq(&own, &quotas(Some("arn:aws:iam::111122223333:role/registry"))));
        let other = quotas(Some("arn:aws:iam::444455556666:role/registry"));
        assert!(!Arc::ptr_eq(&own, &other));
        assert!(Arc::ptr_eq(&other, &quotas(Some("arn:aws:iam::444455556666:role/other"))));
    }
}
