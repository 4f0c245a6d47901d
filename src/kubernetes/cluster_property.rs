//! Reads the `ClusterProperty` objects of a cluster (KEP-2149), which state its id and its clusterset.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::api::GetParams;
use kube::core::Request;
use serde::Deserialize;
use tokio::time::Instant;

use super::object::FromObject;
use super::{Error, Kubernetes};

/// The versions of the API, the newest first.
const VERSIONS: [&str; 3] = ["about.k8s.io/v1", "about.k8s.io/v1beta1", "about.k8s.io/v1alpha1"];

#[derive(Deserialize)]
struct Property {
    spec: PropertySpec,
}

#[derive(Deserialize)]
struct PropertySpec {
    value: String,
}

/// The values of properties by name, each with the time of its read.
pub(super) type Properties = Mutex<BTreeMap<String, (Instant, Option<String>)>>;

/// A cluster keeps its id for life, so a sync of single Services does not read it again for this time.
const STANDS: Duration = Duration::from_mins(1);

impl Kubernetes {
    /// The value of a `ClusterProperty`; `None` if there is none of this name, or no such API. The server must have been
    /// asked for the Multi-Cluster Services API before ([`Self::serves_multi_cluster`]).
    ///
    /// # Errors
    /// Returns an error on any other answer.
    pub async fn cluster_property(&self, name: &str) -> Result<Option<String>, Error> {
        let read = Instant::now();
        let mut versions = VERSIONS.into_iter();
        let value = match versions.find(|version| self.serves_beside(version)) {
            Some(version) => self.property(version, name).await?,
            None => None,
        };
        self.properties().insert(name.to_owned(), (read, value.clone()));
        Ok(value)
    }

    /// The same, as it was a moment ago if it was read then.
    ///
    /// # Errors
    /// As [`Self::cluster_property`].
    pub async fn recent_cluster_property(&self, name: &str) -> Result<Option<String>, Error> {
        let known = self.properties().get(name).cloned();
        match known.filter(|(read, _)| read.elapsed() < STANDS) {
            Some((_, value)) => Ok(value),
            None => self.cluster_property(name).await,
        }
    }

    fn properties(&self) -> MutexGuard<'_, BTreeMap<String, (Instant, Option<String>)>> {
        self.properties.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn property(&self, version: &str, name: &str) -> Result<Option<String>, Error> {
        let failed =
            |source| Error::new(format!("get ClusterProperty {name}"), source).of_multi_cluster();
        let path = format!("/apis/{version}/clusterproperties");
        let request = Request::new(path).get(name, &GetParams::default());
        let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
        match self.client.request::<FromObject<Property>>(request).await {
            Ok(FromObject(found)) => Ok(Some(found.spec.value)),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(source) => Err(failed(source)),
        }
    }
}
