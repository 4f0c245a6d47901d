//! What the function's role may do on the control plane: nothing, until the project's own RBAC file
//! is applied, and nothing again once its binding is deleted.

use std::path::Path;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Api, DeleteParams, PostParams};

use super::{ControlPlane, GROUP};

impl ControlPlane {
    /// Creates the `ClusterRoles` and `ClusterRoleBindings` in a file of YAML documents and waits
    /// until they let [`GROUP`] list Services.
    ///
    /// # Panics
    /// The file holds anything else, or the API server refuses it.
    pub async fn apply_rbac(&self, path: impl AsRef<Path>) {
        self.create_from(path).await;
        // The authorizer learns of them through its own watch, a moment after they are created.
        let allowed = async || self.group_may_list_services().await;
        self.processes.wait_until("for RBAC to let the group list Services", allowed).await;
    }

    /// Deletes a `ClusterRoleBinding` and waits until [`GROUP`] may not list Services any more.
    ///
    /// # Panics
    /// There is no such binding.
    pub async fn delete_binding(&self, name: &str) {
        let bindings: Api<ClusterRoleBinding> = Api::all(self.admin());
        let deleted = bindings.delete(name, &DeleteParams::default()).await;
        deleted.unwrap_or_else(|error| panic!("deleting the ClusterRoleBinding {name}: {error}"));
        let denied = async || !self.group_may_list_services().await;
        self.processes.wait_until("for RBAC to refuse the group", denied).await;
    }

    async fn group_may_list_services(&self) -> bool {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(GROUP.into()),
                groups: Some(vec![GROUP.into()]),
                resource_attributes: Some(ResourceAttributes {
                    resource: Some("services".into()),
                    verb: Some("list".into()),
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
