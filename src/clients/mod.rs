//! Every client of an outside system, built once and kept for the life of the process: Cloud Map by account and Region,
//! and the connection to each cluster (`connection`). `identity` reads the AWS identity of the function. The SDK
//! configuration (`config`) is passed in: its endpoints, credentials and Region are used unchanged.

mod connection;

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
pub use connection::{Connection, Error};
use tokio::time::timeout;

use crate::cloud_map::{CloudMap, CustomTags, QuotaShare, Quotas};
use crate::eks;
use crate::error::chain;
use crate::kubernetes::Kubernetes;
use crate::kubernetes::connect::{Transport, over_tls};
use crate::model::{ClusterArn, EksCluster, Existence, RegistryName, Traffic, join_or};
use crate::settings::{Cluster, Role};

/// The longest wait for an answer of EKS on which nothing else may wait: the ARN of a name, or whether a cluster
/// exists.
const BRIEF: Duration = Duration::from_secs(5);

/// One account's Cloud Map in one Region.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegistryKey {
    role: Option<Role>,
    /// `None`: the function's own.
    region: Option<String>,
}

impl fmt::Display for RegistryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = self.role.as_ref().map(|role| format!("of {}", role.arn));
        let region = self.region.as_ref().map(|region| format!("in {region}"));
        f.write_str(&join_or(role.into_iter().chain(region), " ", "of the function"))
    }
}

/// The account and Region of a rate limit. `None`: the function's own.
type QuotaKey = (Option<String>, Option<String>);

pub struct Clients {
    base: SdkConfig,
    /// How requests reach API servers.
    transport: Transport,
    quota_share: QuotaShare,
    custom_tags: Arc<CustomTags>,
    quotas: Mutex<BTreeMap<QuotaKey, Arc<Quotas>>>,
    registries: Mutex<BTreeMap<RegistryKey, CloudMap>>,
    clusters: Mutex<BTreeMap<String, (EksCluster, Kubernetes)>>,
    /// The ARNs of the clusters that the settings name otherwise, by that name.
    arns: Mutex<BTreeMap<String, ClusterArn>>,
    /// By the cluster's label: held while a connection is made.
    connecting: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Clients {
    /// Clients with the configuration `base`, which use this share of each account's rate limits, and give these tags to
    /// what they create in Cloud Map.
    pub fn new(base: SdkConfig, quota_share: QuotaShare, custom_tags: CustomTags) -> Self {
        Self {
            base,
            transport: over_tls(),
            quota_share,
            custom_tags: Arc::new(custom_tags),
            quotas: Mutex::default(),
            registries: Mutex::default(),
            clusters: Mutex::default(),
            arns: Mutex::default(),
            connecting: Mutex::default(),
        }
    }

    /// Replaces the transport to API servers.
    #[must_use]
    pub fn with_transport(self, transport: Transport) -> Self {
        Self { transport, ..self }
    }

    /// The Cloud Map of a cluster. The function's own Region gives the same key whether the settings contain it or not.
    pub fn registry_of(&self, cluster: &Cluster) -> RegistryKey {
        let own = self.base.region().map(Region::as_ref);
        let other = cluster.registry_region.clone().filter(|region| Some(region.as_str()) != own);
        RegistryKey { role: cluster.registry_role.clone(), region: other }
    }

    /// Whether a Cloud Map is in a Region.
    pub fn is_in(&self, key: &RegistryKey, region: &str) -> bool {
        let own = self.base.region().map(Region::as_ref);
        key.region.as_deref().or(own) == Some(region)
    }

    pub async fn cloud_map(&self, key: &RegistryKey) -> CloudMap {
        if let Some(known) = lock(&self.registries).get(key) {
            return known.clone();
        }
        let config = self.config(key.role.as_ref(), key.region.as_deref()).await;
        // The SDK limits retries by partition. In a shared partition an account that throttles would use up the retries
        // of every other account in the Region. The quotas limit the calls instead.
        let config = aws_sdk_servicediscovery::config::Builder::from(&config).retry_partition(
            RetryPartition::custom("cloud-map").token_bucket(TokenBucket::unlimited()).build(),
        );
        let cloud_map = CloudMap::new(config, self.quotas(key), self.custom_tags.clone());
        lock(&self.registries).entry(key.clone()).or_insert(cloud_map).clone()
    }

    /// The quotas of a Cloud Map, which all roles of one account share.
    fn quotas(&self, key: &RegistryKey) -> Arc<Quotas> {
        let account = key.role.as_ref().and_then(Role::account).map(str::to_owned);
        let mut quotas = lock(&self.quotas);
        let quota_key = (account, key.region.clone());
        quotas.entry(quota_key).or_insert_with(|| Arc::new(Quotas::new(self.quota_share))).clone()
    }

    /// The calls to Cloud Map since the process started, in all accounts and Regions.
    pub fn traffic(&self) -> Traffic {
        lock(&self.quotas).values().map(|quotas| quotas.traffic()).sum()
    }
}

/// Ignores poisoning: each map is changed in one step, so a panic cannot leave it inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The attempts of one AWS call, with a backoff between them. The SDK's adaptive mode is not used: after one throttle
/// it limits all calls to about one per second.
const MAX_ATTEMPTS: u32 = 8;
const MAX_BACKOFF: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);

/// The SDK configuration with the function's retries and timeouts, to be loaded from the environment.
pub fn sdk_config() -> ConfigLoader {
    let retries =
        RetryConfig::standard().with_max_attempts(MAX_ATTEMPTS).with_max_backoff(MAX_BACKOFF);
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .build();
    aws_config::defaults(BehaviorVersion::v2026_01_12())
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

    /// The ARN of the identity that calls EKS for a cluster.
    ///
    /// # Errors
    /// Returns the error message of STS or of the connection.
    pub async fn identity(&self, cluster: &Cluster) -> Result<String, String> {
        let config = self.config(cluster.role.as_ref(), Some(&cluster.region)).await;
        let reply = aws_sdk_sts::Client::new(&config).get_caller_identity().send().await;
        let answer = reply.map_err(|error| chain(&error))?;
        Ok(answer.arn.unwrap_or_default())
    }

    /// The account and Region of a Cloud Map. The function's own account is read from STS.
    ///
    /// # Errors
    /// Returns the error message of STS or of the connection.
    pub async fn name_of(&self, key: &RegistryKey) -> Result<RegistryName, String> {
        let own = || self.base.region().map(|region| region.as_ref().to_owned());
        let region = key.region.clone().or_else(own).unwrap_or_default();
        if let Some(account) = key.role.as_ref().and_then(Role::account) {
            return Ok(RegistryName { account: account.to_owned(), region });
        }
        let config = self.config(None, Some(&region)).await;
        let reply = aws_sdk_sts::Client::new(&config).get_caller_identity().send().await;
        let answer = reply.map_err(|error| chain(&error))?;
        Ok(RegistryName { account: answer.account.unwrap_or_default(), region })
    }

    /// Finds out if a cluster exists, with `role` or as the function itself: in one short attempt, since whoever may
    /// register instances can make the function ask.
    pub async fn existence(&self, cluster: &ClusterArn, role: Option<&Role>) -> Existence {
        let asked = async {
            let config = self.config(role, Some(cluster.region())).await;
            let config = config.to_builder().retry_config(RetryConfig::disabled()).build();
            let (eks, sts) = (aws_sdk_eks::Client::new(&config), aws_sdk_sts::Client::new(&config));
            eks::existence(&eks, &sts, cluster).await
        };
        let late = || format!("EKS did not answer within {} s", BRIEF.as_secs());
        timeout(BRIEF, asked).await.unwrap_or_else(|_| Existence::Unknown(late()))
    }
}
