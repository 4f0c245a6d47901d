//! Checks the permissions of the function in a cluster, by a review that the cluster's API server makes.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::{Api, PostParams};

use super::{Error, Kubernetes};

/// A verb on a resource of an API group.
pub type Right = (&'static str, &'static str, &'static str);

/// The permissions that a sync requires: verb, API group, resource.
pub const NEEDED: [Right; 4] = [
    ("list", "", "services"),
    ("get", "", "services"),
    ("list", "discovery.k8s.io", "endpointslices"),
    ("get", "", "endpoints"),
];

/// The optional permission to create Events on Services.
pub const EVENTS: Right = ("create", "events.k8s.io", "events");

impl Kubernetes {
    /// Whether the function has a permission in all namespaces. Every authenticated identity may create this review.
    ///
    /// # Errors
    /// Returns an error if the server cannot be reached or does not accept the token.
    pub async fn may(&self, (verb, group, resource): Right) -> Result<bool, Error> {
        let api: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let attributes = ResourceAttributes {
            verb: Some(verb.to_owned()),
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        };
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let answer = api.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(|error| Error::new("review the permissions", error))?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}
