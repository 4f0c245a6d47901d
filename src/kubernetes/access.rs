//! What the function may do in a cluster, asked of the cluster itself.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::{Api, PostParams};

use super::{Error, Kubernetes};

/// A verb on a resource of an API group.
pub type Right = (&'static str, &'static str, &'static str);

/// What the function cannot do without: verb, API group, resource.
pub const NEEDED: [Right; 4] = [
    ("list", "", "services"),
    ("get", "", "services"),
    ("list", "discovery.k8s.io", "endpointslices"),
    ("get", "", "endpoints"),
];

/// What it tells the owners of Services with.
pub const EVENTS: Right = ("create", "events.k8s.io", "events");

impl Kubernetes {
    /// Whether the cluster allows something, in all namespaces. Everybody who is known there may ask.
    ///
    /// # Errors
    /// Where the server does not answer, or does not know who asks.
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
        let answer = answer.map_err(|error| Error::new("ask for the rights", error))?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}
