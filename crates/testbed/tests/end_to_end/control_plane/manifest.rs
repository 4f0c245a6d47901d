//! Creates what a file of YAML documents says, as an administrator would: kube-apiserver reads YAML
//! itself, so a document goes out as it is written, and a field that no schema knows is refused.
//!
//! What the function's role may do on the control plane: nothing, until the project's own RBAC file
//! is applied, and nothing again once its binding is deleted.
//!
//! The Multi-Cluster Services API with the schemas that its project publishes, and `ClusterProperty`.
//!
//! How a program in a pod gets at the API server: by a token of its ServiceAccount.

use std::path::{Path, PathBuf};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Resource as _;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, PostParams};
use serde_json::Value;

use super::{ControlPlane, GROUP, programs};

impl ControlPlane {
    /// Creates every object in a file; they come back as the server completed them.
    pub async fn create_from(&self, path: impl AsRef<Path>) -> Vec<Value> {
        let path = path.as_ref();
        let documents = std::fs::read_to_string(path)
            .unwrap_or_else(|error| panic!("reading {}: {error}", path.display()));
        let mut created = Vec::new();
        for document in documents.split("\n---\n") {
            created.push(self.create_from_yaml(document).await);
        }
        created
    }

    async fn create_from_yaml(&self, document: &str) -> Value {
        let object: DynamicObject = serde_saphyr::from_str(document).expect("an object");
        let kind = object.types.as_ref().expect("a kind");
        let kind = ApiResource::from_gvk(&kind.try_into().expect("an apiVersion"));
        let collection = DynamicObject::url_path(&kind, object.metadata.namespace.as_deref());
        let request = http::Request::post(format!("{collection}?fieldValidation=Strict"))
            .header(http::header::CONTENT_TYPE, "application/yaml")
            .body(document.as_bytes().to_vec())
            .expect("a valid request");
        let created = self.admin.request(request).await;
        created.unwrap_or_else(|error| panic!("creating in {collection}: {error}\n{document}"))
    }
}

/// Verb, API group, resource.
pub type Right = (&'static str, &'static str, &'static str);

/// A right of the role for annotated Services.
pub const LIST_SERVICES: Right = ("list", "", "services");
/// A right of the role that exports.
pub const EXPORT: Right = ("list", "multicluster.x-k8s.io", "serviceexports");
/// A right of the role that imports.
pub const IMPORT: Right = ("create", "", "services");

impl ControlPlane {
    /// Creates the `ClusterRoles` and `ClusterRoleBindings` in a file of YAML documents and waits until [`GROUP`] has
    /// these rights: the authorizer learns of roles through its own watch, a moment after they are created.
    pub async fn apply_rbac(&self, path: impl AsRef<Path>, rights: &[Right]) {
        self.create_from(path).await;
        for right in rights {
            let allowed = async || self.group_may(*right).await;
            self.processes.wait_until(&format!("for RBAC to allow {right:?}"), allowed).await;
        }
    }

    /// Deletes a `ClusterRoleBinding` and waits until [`GROUP`] has a right of it no more.
    pub async fn take_right(&self, name: &str, right: Right) {
        let bindings: Api<ClusterRoleBinding> = Api::all(self.admin());
        let deleted = bindings.delete(name, &DeleteParams::default()).await;
        deleted.unwrap_or_else(|error| panic!("deleting the ClusterRoleBinding {name}: {error}"));
        let denied = async || !self.group_may(right).await;
        self.processes.wait_until("for RBAC to refuse the group", denied).await;
    }

    async fn group_may(&self, (verb, group, resource): Right) -> bool {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(GROUP.into()),
                groups: Some(vec![GROUP.into()]),
                resource_attributes: Some(ResourceAttributes {
                    group: Some(group.into()),
                    resource: Some(resource.into()),
                    verb: Some(verb.into()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let answer = Api::all(self.admin())
            .create(&PostParams::default(), &review)
            .await
            .expect("an administrator may review access");
        answer.status.is_some_and(|status| status.allowed)
    }
}

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

    /// Whether it answers at a path, with this word.
    pub async fn serves(&self, path: &str, word: &str) -> bool {
        let request = http::Request::get(path).body(Vec::new()).expect("a valid request");
        self.admin.request_text(request).await.is_ok_and(|text| text.contains(word))
    }
}

const SCHEMAS: &str = "/openapi/v3/apis/multicluster.x-k8s.io/v1beta1";

impl ControlPlane {
    /// A token as kubelet asks for it on behalf of a pod.
    pub async fn service_account_token(&self, namespace: &str, name: &str) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin(), namespace);
        let spec =
            TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let answer = accounts.create_token_request(name, &PostParams::default(), &request).await;
        let answer =
            answer.unwrap_or_else(|error| panic!("a token for {namespace}/{name}: {error}"));
        answer.status.expect("a token").token
    }

    /// Writes a kubeconfig for `token`, which reaches the API server at `endpoint`.
    pub fn write_kubeconfig(&self, file: &str, endpoint: &str, token: &str) -> PathBuf {
        let kubeconfig = programs::user_kubeconfig(endpoint, &self.certificate_authority, token);
        programs::write(self.processes.folder(), file, &kubeconfig.to_string())
    }
}
