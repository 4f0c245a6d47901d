//! Reads the `ClusterProperty` objects of a cluster (KEP-2149), which state its id and its clusterset.

use kube::api::GetParams;
use kube::core::Request;
use serde::Deserialize;

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

impl Kubernetes {
    /// The value of a `ClusterProperty`; `None` if there is none of this name, or no such API. The server must have been
    /// asked for the Multi-Cluster Services API before ([`Self::serves_multi_cluster`]).
    ///
    /// # Errors
    /// Returns an error on any other answer.
    pub async fn cluster_property(&self, name: &str) -> Result<Option<String>, Error> {
        let mut versions = VERSIONS.into_iter();
        match versions.find(|version| self.serves_beside(version)) {
            Some(version) => self.property(version, name).await,
            None => Ok(None),
        }
    }

    async fn property(&self, version: &str, name: &str) -> Result<Option<String>, Error> {
        let failed = |source| Error::new(format!("get ClusterProperty {name}"), source);
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
