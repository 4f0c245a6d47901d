//! Every client of an outside system, built once and kept for the life of the process: Cloud Map by account and Region,
//! and the connection to each cluster (`connection`). `identity` asks who the function is there. The SDK configuration
//! that comes in (`config`) is the one seam: its endpoints, credentials and Region are used as they are.

mod config;
mod connection;
mod identity;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_config::{Region, SdkConfig};
use aws_sdk_servicediscovery::config::retry::{RetryPartition, TokenBucket};

use crate::cloud_map::{CloudMap, QuotaShare, Quotas};
use crate::kubernetes::Kubernetes;
use crate::model::{EksCluster, Traffic};
use crate::settings::{Cluster, Role};

pub use config::sdk_config;
pub use connection::{Connection, Error};

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
}

/// The maps are whole after every step, so a panic elsewhere leaves nothing half done in them.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
