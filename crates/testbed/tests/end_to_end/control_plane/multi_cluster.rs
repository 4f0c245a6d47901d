//! The Multi-Cluster Services API with the schemas that its project publishes, and `ClusterProperty`.

use std::path::PathBuf;

use super::ControlPlane;

impl ControlPlane {
    /// Creates the `CustomResourceDefinitions`, and waits until the API server serves what they define.
    pub async fn install_multi_cluster_api(&self) {
        for file in self.binaries.multi_cluster_crds() {
            self.create_from(file).await;
        }
        let served = async || {
            self.serves("/apis/multicluster.x-k8s.io/v1beta1/serviceexports", "items").await
                && self.serves("/apis/multicluster.x-k8s.io/v1beta1/serviceimports", "items").await
                && self.serves("/apis/about.k8s.io/v1alpha1/clusterproperties", "items").await
                // The schemas are published last.
                && self.serves(SCHEMAS, "endpointSliceObjects").await
        };
        self.processes.wait_until("for the Multi-Cluster Services API", served).await;
    }

    /// The folder of the definitions that their project publishes.
    pub fn multi_cluster_definitions(&self) -> PathBuf {
        let [exports, ..] = self.binaries.multi_cluster_crds();
        exports.parent().expect("a folder").to_owned()
    }

    async fn serves(&self, path: &str, word: &str) -> bool {
        let request = http::Request::get(path).body(Vec::new()).expect("a valid request");
        self.admin.request_text(request).await.is_ok_and(|text| text.contains(word))
    }
}

const SCHEMAS: &str = "/openapi/v3/apis/multicluster.x-k8s.io/v1beta1";
