//! Every client of an outside system, built once and kept for the life of the process: Cloud Map by account and Region,
//! and the connection to each cluster (`connection`). `identity` reads the AWS identity of the function. The SDK
//! configuration (`config`) is passed in: its endpoints, credentials and Region are used unchanged.

mod config;
mod connection;
mod identity;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_config::{Region, SdkConfig};
use aws_sdk_servicediscovery::config::retry::{RetryPartition, TokenBucket};

use crate::cloud_map::{CloudMap, CustomTags, QuotaShare, Quotas};
use crate::kubernetes::Kubernetes;
use crate::kubernetes::connect::{Transport, over_tls};
use crate::model::{ClusterArn, EksCluster, Traffic};
use crate::settings::{Cluster, Role};

pub use config::sdk_config;
pub use connection::{Connection, Error};

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
        let parts: Vec<String> = role.into_iter().chain(region).collect();
        f.write_str(if parts.is_empty() { "of the function" } else { "" })?;
        f.write_str(&parts.join(" "))
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
