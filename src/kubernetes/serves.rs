//! The APIs that a server has, from its API discovery. v1 Endpoints have neither zones nor terminating pods, so they are
//! read only from a server whose discovery document lists no `EndpointSlices`. A 404 on a list of slices is otherwise an
//! error.

use std::collections::BTreeSet;

use kube::core::Status;
use tokio::sync::OnceCell;

use super::recent::Recent;
use super::{Error, Kubernetes};

/// The group of `EndpointSlices` with its version.
const SLICES: &str = "discovery.k8s.io/v1";
/// The version of the Multi-Cluster Services API that is read and written.
const MULTI_CLUSTER: &str = "multicluster.x-k8s.io/v1beta1";

/// The results of API discovery.
#[derive(Debug, Default)]
pub(super) struct Serves {
    /// Whether there are slices. Requested once for a connection, and only after a list of slices has failed.
    slices: OnceCell<bool>,
    /// All group versions of a server with the Multi-Cluster Services API. A server without it is asked each time, since
    /// its definitions may be installed at any time.
    multi_cluster: Recent<BTreeSet<String>>,
}

impl Serves {
    /// Whether discovery has shown that there are no slices.
    pub(super) fn lacks_slices(&self) -> bool {
        self.slices.get() == Some(&false)
    }
}

impl Kubernetes {
    /// Whether the server serves `EndpointSlices`.
    ///
    /// # Errors
    /// Returns an error if discovery does not return a list of API groups.
    pub(super) async fn serves_slices(&self) -> Result<bool, Error> {
        let has_slices = || async { Ok(self.discover().await?.contains(SLICES)) };
        self.serves.slices.get_or_try_init(has_slices).await.copied()
    }

    /// Whether the server serves the Multi-Cluster Services API in the version that is read and written.
    ///
    /// # Errors
    /// Returns an error if discovery does not return a list of API groups.
    pub async fn serves_multi_cluster(&self) -> Result<bool, Error> {
        if self.serves.multi_cluster.is_recent() {
            return Ok(true);
        }
        let versions = self.discover().await?;
        let is_served = versions.contains(MULTI_CLUSTER);
        self.serves.multi_cluster.set(is_served.then_some(versions));
        Ok(is_served)
    }

    /// The versions of the Multi-Cluster Services API and of ClusterProperties that the server serves now.
    ///
    /// # Errors
    /// Returns an error if discovery does not return a list of API groups.
    pub async fn multi_cluster_versions(&self) -> Result<Vec<String>, Error> {
        let groups = ["multicluster.x-k8s.io/", "about.k8s.io/"];
        let mut versions = self.discover().await?;
        versions.retain(|version| groups.iter().any(|group| version.starts_with(group)));
        Ok(versions.into_iter().collect())
    }

    /// Whether a server of the Multi-Cluster Services API serves a group in a version, too.
    pub(super) fn serves_beside(&self, version: &str) -> bool {
        self.serves.multi_cluster.latest().is_some_and(|versions| versions.contains(version))
    }

    async fn discover(&self) -> Result<BTreeSet<String>, Error> {
        let failed = |source| Error::new("list the API groups", source);
        let groups = self.client.list_api_groups().await.map_err(failed)?.groups;
        // Every server has groups, so a document without groups is an error.
        if groups.is_empty() {
            let status = Status::failure("API discovery lists no group", "NoGroups");
            return Err(failed(kube::Error::Api(status.boxed())));
        }
        let versions = groups.into_iter().flat_map(|group| group.versions);
        Ok(versions.map(|version| version.group_version).collect())
    }
}
