//! What the function's role may do on the control plane: nothing, until the project's own RBAC file
//! is applied, and nothing again once its binding is deleted.

use std::path::Path;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Api, DeleteParams, PostParams};

use super::{ControlPlane, GROUP};

/// Verb, API group, resource.
pub type Right = (&'static str, &'static str, &'static str);

const LIST_SERVICES: Right = ("list", "", "services");
/// A right of the role that exports.
pub const EXPORT: Right = ("list", "multicluster.x-k8s.io", "serviceexports");
/// A right of the role that imports.
pub const IMPORT: Right = ("create", "", "services");

impl ControlPlane {
    /// Creates the `ClusterRoles` and `ClusterRoleBindings` in a file of YAML documents and waits
    /// until they let [`GROUP`] list Services.
    ///
    /// # Panics
    /// The file holds anything else, or the API server refuses it.
    pub async fn apply_rbac(&self, path: impl AsRef<Path>) {
        self.create_from(path).await;
        self.wait_until_group_may(LIST_SERVICES).await;
    }

    /// The same with the roles of the Multi-Cluster Services API, until the last right of each is there.
    ///
    /// # Panics
    /// The file holds anything else, or the API server refuses it.
    pub async fn apply_multi_cluster_rbac(&self, path: impl AsRef<Path>) {
        self.create_from(path).await;
        for right in [EXPORT, IMPORT] {
            self.wait_until_group_may(right).await;
        }
    }

    /// The authorizer learns of roles through its own watch, a moment after they are created.
    async fn wait_until_group_may(&self, right: Right) {
        let (verb, _, resource) = right;
        let allowed = async || self.group_may(right).await;
        let what = format!("for RBAC to let the group {verb} {resource}");
        self.processes.wait_until(&what, allowed).await;
    }

    /// Deletes a `ClusterRoleBinding` and waits until [`GROUP`] may not list Services any more.
    ///
    /// # Panics
    /// There is no such binding.
    pub async fn delete_binding(&self, name: &str) {
        self.take_right(name, LIST_SERVICES).await;
    }

    /// Deletes a `ClusterRoleBinding` and waits until [`GROUP`] has a right of it no more.
    ///
    /// # Panics
    /// There is no such binding.
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
