//! Creates what a file of YAML documents says, as an administrator would: kube-apiserver reads YAML
//! itself, so a document goes out as it is written, and a field that no schema knows is refused.

use std::path::Path;

use serde_json::Value;

use super::ControlPlane;

impl ControlPlane {
    /// Creates every object in a file; they come back as the server completed them.
    ///
    /// # Panics
    /// The file holds a kind that is not known here, or the API server refuses it.
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
        let collection = collection(document);
        let request = http::Request::post(format!("{collection}?fieldValidation=Strict"))
            .header(http::header::CONTENT_TYPE, "application/yaml")
            .body(document.as_bytes().to_vec())
            .expect("a valid request");
        let created = self.admin.request(request).await;
        created.unwrap_or_else(|error| panic!("creating in {collection}: {error}\n{document}"))
    }
}

/// Where objects of the document's kind and namespace are created.
fn collection(document: &str) -> String {
    let field = |name: &str| {
        let value = document.lines().find_map(|line| line.strip_prefix(name));
        value.map(str::trim).unwrap_or_default()
    };
    let namespace = field("  namespace: ");
    match field("kind: ") {
        "Namespace" => "/api/v1/namespaces".to_owned(),
        "ServiceAccount" => format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
        "Deployment" => format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
        "ClusterRole" => "/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned(),
        "ClusterRoleBinding" => "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings".to_owned(),
        "CustomResourceDefinition" => {
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned()
        }
        "ValidatingAdmissionPolicy" => {
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies".to_owned()
        }
        "ValidatingAdmissionPolicyBinding" => {
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings".to_owned()
        }
        "Application" => format!("/apis/argoproj.io/v1alpha1/namespaces/{namespace}/applications"),
        "GitRepository" => {
            format!("/apis/source.toolkit.fluxcd.io/v1/namespaces/{namespace}/gitrepositories")
        }
        "Kustomization" => {
            format!("/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{namespace}/kustomizations")
        }
        other => panic!("{other:?} is no kind that is created here:\n{document}"),
    }
}
