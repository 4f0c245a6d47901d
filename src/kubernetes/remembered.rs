//! The answers of an API server that a client remembers:
//!
//! - for some minutes, the APIs that the server serves, and the `ClusterProperty` objects (KEP-2149) with which a
//!   cluster states its id and its clusterset;
//! - the refusals that each import would otherwise repeat in each run: the namespaces in which the cluster's admission
//!   policy lets the function only delete, since the function cannot read policies, and the IP families that the
//!   cluster lacks for its Services, which an API server reports only in a refusal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::core::Status;
use serde::Deserialize;
use tokio::time::Instant;

use super::{Error, Kubernetes};
use crate::model::{Family, Kind, SignedDuration, Timestamp};

/// How long an exclusion is remembered. The first import after that finds out whether the namespace is still excluded.
const EXCLUSION_TTL: SignedDuration = SignedDuration::from_mins(10);
/// How long the answer of a server about the APIs that it serves is cached.
const SERVED_TTL: Duration = Duration::from_mins(5);
/// How long a targeted sync uses the cached value of a `ClusterProperty`. The value hardly ever changes, but a new one
/// must take effect soon.
const PROPERTY_TTL: Duration = Duration::from_mins(1);

/// Keys with the time of the last refusal or write of each.
pub(super) type Times<K> = Mutex<BTreeMap<K, Timestamp>>;
/// Cached answers with the time of each.
type Answers<K, V> = Mutex<BTreeMap<K, (Instant, V)>>;

/// The answers of an API server that a client remembers.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    /// Whether the server serves `EndpointSlices`. It is requested once for a connection, and only after a list of
    /// slices has failed.
    pub slices: tokio::sync::OnceCell<bool>,
    /// All group versions of a server with the Multi-Cluster Services API. Nothing is cached for a server without it,
    /// since its definitions may be installed at any time.
    multi_cluster: Answers<(), BTreeSet<String>>,
    /// Set if the CRD of ServiceImports has `status.endpointSliceObjects`.
    slice_objects: Answers<(), ()>,
    properties: Answers<String, Option<String>>,
    excluded_namespaces: Times<String>,
    missing_families: Mutex<BTreeSet<Family>>,
    /// The Events that this process created or that the server refused. A lost entry costs one refused call.
    pub events: Times<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the keys that are younger than `ttl`, and forgets all others.
pub(super) fn recent<K: Ord>(
    times: &Times<K>,
    now: Timestamp,
    ttl: SignedDuration,
) -> MutexGuard<'_, BTreeMap<K, Timestamp>> {
    let mut times = lock(times);
    times.retain(|_, at| now.duration_since(*at) < ttl);
    times
}

/// Returns the cached answer for a key, if it is younger than `ttl`.
fn cached_answer<K: Ord, V: Clone>(answers: &Answers<K, V>, key: &K, ttl: Duration) -> Option<V> {
    let cached = lock(answers).get(key).cloned();
    cached.filter(|(at, _)| at.elapsed() < ttl).map(|(_, value)| value)
}

/// Caches an answer, or removes the cached one if `value` is `None`.
fn cache_answer<K: Ord, V>(answers: &Answers<K, V>, key: K, value: Option<V>) {
    let mut answers = lock(answers);
    match value {
        Some(value) => _ = answers.insert(key, (Instant::now(), value)),
        None => _ = answers.remove(&key),
    }
}

impl Kubernetes {
    /// Returns the version of the server, such as `1.33`.
    ///
    /// # Errors
    /// Returns an error if the server does not answer.
    pub async fn version(&self) -> Result<String, Error> {
        let action = || "read the version of the server".to_owned();
        let version = self.in_time(action, self.client.apiserver_version()).await?;
        Ok(format!("{}.{}", version.major, version.minor))
    }

    /// Whether the admission policy excludes a namespace: it refused a write there within `EXCLUSION_TTL`.
    pub fn excludes_namespace(&self, namespace: &str, now: Timestamp) -> bool {
        recent(&self.remembered.excluded_namespaces, now, EXCLUSION_TTL).contains_key(namespace)
    }

    /// Remembers that the admission policy excludes a namespace.
    pub fn remember_excluded(&self, namespace: &str, now: Timestamp) {
        lock(&self.remembered.excluded_namespaces).insert(namespace.to_owned(), now);
    }

    /// Returns the IP families to request for a Service: all except those that the cluster has refused.
    pub fn service_families(&self) -> Vec<Family> {
        let missing = lock(&self.remembered.missing_families);
        Family::ALL.into_iter().filter(|family| !missing.contains(family)).collect()
    }

    /// Remembers that the cluster does not have an IP family.
    pub fn remember_missing_family(&self, family: Family) {
        lock(&self.remembered.missing_families).insert(family);
    }
}

/// The versions of the API of ClusterProperties, the newest first.
const PROPERTIES: [&str; 3] = ["about.k8s.io/v1", "about.k8s.io/v1beta1", "about.k8s.io/v1alpha1"];

#[derive(Deserialize)]
struct Property {
    spec: PropertySpec,
}

#[derive(Deserialize)]
struct PropertySpec {
    value: String,
}

impl Kubernetes {
    /// Whether the server serves `EndpointSlices`.
    ///
    /// # Errors
    /// Returns an error if discovery does not return a list of API groups.
    pub(super) async fn serves_slices(&self) -> Result<bool, Error> {
        let has_slices =
            || async { Ok(self.discover().await?.contains(Kind::EndpointSlice.api_version())) };
        self.remembered.slices.get_or_try_init(has_slices).await.copied()
    }

    /// Whether the server serves the Multi-Cluster Services API in the version that is read and written.
    ///
    /// # Errors
    /// Returns an error if discovery does not return a list of API groups.
    pub async fn serves_multi_cluster(&self) -> Result<bool, Error> {
        let cache = &self.remembered.multi_cluster;
        if cached_answer(cache, &(), SERVED_TTL).is_some() {
            return Ok(true);
        }
        let versions = self.discover().await?;
        let is_served = versions.contains(Kind::ServiceExport.api_version());
        cache_answer(cache, (), is_served.then_some(versions));
        Ok(is_served)
    }

    /// Returns the versions of the Multi-Cluster Services API and of ClusterProperties that the server serves now.
    ///
    /// # Errors
    /// Returns an error if discovery does not return a list of API groups.
    pub async fn multi_cluster_versions(&self) -> Result<Vec<String>, Error> {
        let groups = ["multicluster.x-k8s.io/", "about.k8s.io/"];
        let mut versions = self.discover().await?;
        versions.retain(|version| groups.iter().any(|group| version.starts_with(group)));
        Ok(versions.into_iter().collect())
    }

    async fn discover(&self) -> Result<BTreeSet<String>, Error> {
        let action = || "list the API groups".to_owned();
        let groups = self.in_time(action, self.client.list_api_groups()).await?.groups;
        // Every server has groups, so a document without groups is an error.
        if groups.is_empty() {
            let status = Status::failure("API discovery lists no group", "NoGroups");
            return Err(Error::new(action(), kube::Error::Api(status.boxed())));
        }
        let versions = groups.into_iter().flat_map(|group| group.versions);
        Ok(versions.map(|version| version.group_version).collect())
    }

    /// Whether the installed CRD of ServiceImports declares `status.endpointSliceObjects`: the server drops an
    /// undeclared field from a patch. A positive answer is cached for five minutes, since another CRD may replace this
    /// one; a negative answer is not cached.
    ///
    /// # Errors
    /// Returns an error if the document cannot be read.
    pub async fn crd_has_slice_objects(&self) -> Result<bool, Error> {
        let cache = &self.remembered.slice_objects;
        if cached_answer(cache, &(), SERVED_TTL).is_some() {
            return Ok(true);
        }
        let action = || "read the schema of ServiceImports".to_owned();
        let path = format!("/openapi/v3/apis/{}", Kind::ServiceImport.api_version());
        let request = http::Request::get(path).body(Vec::new());
        let request =
            request.map_err(|error| Error::new(action(), kube::Error::HttpError(error)))?;
        let text = self.in_time(action, self.client.request_text(request)).await?;
        let declares = text.contains("\"endpointSliceObjects\"");
        cache_answer(cache, (), declares.then_some(()));
        Ok(declares)
    }

    /// Reads the value of a `ClusterProperty`; `None` if the server has no object of this name, or no such API.
    /// [`Self::serves_multi_cluster`] must have been called before, since it reads the versions of the API.
    ///
    /// # Errors
    /// Returns an error on any other answer.
    pub async fn cluster_property(&self, name: &str) -> Result<Option<String>, Error> {
        let served =
            cached_answer(&self.remembered.multi_cluster, &(), Duration::MAX).unwrap_or_default();
        let value = match PROPERTIES.into_iter().find(|version| served.contains(*version)) {
            Some(version) => {
                let path = format!("/apis/{version}/clusterproperties");
                let noun = format!("ClusterProperty {name}");
                let found = self.get::<Property>(&path, name, &noun, Status::is_not_found).await;
                found.map_err(Error::about_multi_cluster)?.map(|found| found.spec.value)
            }
            None => None,
        };
        cache_answer(&self.remembered.properties, name.to_owned(), Some(value.clone()));
        Ok(value)
    }

    /// Returns the value of a `ClusterProperty`, cached for up to a minute.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Self::cluster_property`].
    pub async fn cached_cluster_property(&self, name: &str) -> Result<Option<String>, Error> {
        match cached_answer(&self.remembered.properties, &name.to_owned(), PROPERTY_TTL) {
            Some(value) => Ok(value),
            None => self.cluster_property(name).await,
        }
    }
}
