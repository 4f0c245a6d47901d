//! The APIs that a server has, from its API discovery. v1 Endpoints have neither zones nor
//! terminating pods, so they are read only from a server whose discovery document lists no `EndpointSlices`. A 404 on a
//! list of slices is otherwise an error.

use std::collections::BTreeSet;

use kube::core::Status;
use tokio::sync::OnceCell;

use super::{Error, Kubernetes};

/// The group of `EndpointSlices` with its version.
const SLICES: &str = "discovery.k8s.io/v1";

/// The group versions of API discovery, which is requested once for a connection: after a list of slices has failed, or
/// for the APIs of clustersets.
#[derive(Debug, Default)]
pub(super) struct Serves(OnceCell<BTreeSet<String>>);

impl Serves {
    /// Whether discovery has shown that there are no slices.
    pub(super) fn lacks_slices(&self) -> bool {
        self.0.get().is_some_and(|versions| !versions.contains(SLICES))
    }
}

impl Kubernetes {
    /// Whether the server serves `EndpointSlices`.
    ///
    /// # Errors
    /// Returns an error if discovery does not return a list of API groups.
    pub(super) async fn serves_slices(&self) -> Result<bool, Error> {
        self.serves_version(SLICES).await
    }

    /// Whether the server serves a group in a version, such as `discovery.k8s.io/v1`.
    ///
    /// # Errors
    /// Returns an error if discovery does not return a list of API groups.
    pub(super) async fn serves_version(&self, version: &str) -> Result<bool, Error> {
        Ok(self.serves.0.get_or_try_init(|| self.discover()).await?.contains(version))
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
