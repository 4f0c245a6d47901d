//! SelfSubjectAccessReview: checks the permissions of the caller. Every authenticated user may create one, by the
//! ClusterRole `system:basic-user` of every cluster.

use serde_json::{Value, json};

use super::access::User;
use super::resource::Target;
use super::status::Failure;

/// Where it is created.
pub const PATH: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Answers a review.
pub fn answer(user: &User, body: &[u8]) -> Result<Value, Failure> {
    let review: Value =
        serde_json::from_slice(body).map_err(|_| Failure::bad_request("the body is no JSON"))?;
    let attributes = &review["spec"]["resourceAttributes"];
    let text = |key: &str| attributes[key].as_str().unwrap_or_default().to_owned();
    let target = Target {
        group: text("group"),
        version: text("version"),
        namespace: text("namespace"),
        plural: text("resource"),
        name: text("name"),
        subresource: text("subresource"),
    };
    if user.is_anonymous() {
        let group = Some(("authorization.k8s.io", "selfsubjectaccessreviews"));
        return Err(Failure::forbidden(group, "", "an anonymous user asks for nothing"));
    }
    let allowed = user.check_resource(&text("verb"), &target).is_ok();
    let mut answer = review;
    answer["status"] = json!({"allowed": allowed});
    Ok(answer)
}
