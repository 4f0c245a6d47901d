//! Authorisation: the cluster's access entries map bearer tokens to users, and the rules are those of the group in
//! `deploy/rbac.yaml`. Every other request is forbidden with RBAC's error message.
//!
//! SelfSubjectAccessReview: checks the permissions of the caller. Every authenticated user may create one, by the
//! ClusterRole `system:basic-user` of every cluster.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, Method};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::resource::Target;
use super::rules::{ALWAYS, Rule};
use super::status::Failure;
use super::{ClusterIdentity, token};
use crate::identity::Identities;

/// The group that `deploy/rbac.yaml` binds its ClusterRole to.
pub const BOUND_GROUP: &str = "cloud-map-sync";

/// A verb on a resource of an API group, with the sub-resource as in `serviceexports/status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// `""` is the core group.
    pub group: String,
    pub resource: String,
    pub verb: String,
}

/// Who sent a request.
#[derive(Clone, Debug)]
pub struct User {
    /// User name, the role session's ARN for IAM principals.
    pub name: String,
    groups: Vec<String>,
    /// What the group may do besides `ALWAYS`.
    rules: Vec<Rule>,
    /// What it may not do after all.
    withdrawn: Vec<Right>,
}

/// Access entries of a cluster, its admin token, and the identities that its tokens are checked
/// with.
#[derive(Default)]
pub struct Access {
    /// Role ARN to Kubernetes groups.
    pub entries: BTreeMap<String, Vec<String>>,
    /// Bearer token of the cluster's administrator.
    pub admin_token: String,
    /// What the group may do besides: the roles of the multi-cluster flow, where they are bound.
    pub rules: Vec<Rule>,
    /// The rights of the group that were withdrawn.
    pub withdrawn: Vec<Right>,
    /// The sandbox's access keys.
    pub identities: Identities,
}

impl Access {
    /// The user of a request, or why there is none.
    pub fn authenticate(
        &self,
        headers: &HeaderMap,
        cluster: &ClusterIdentity,
        now: Timestamp,
    ) -> Result<User, String> {
        let Some(header) = headers.get("authorization") else {
            return Ok(User::in_group("system:anonymous", "system:unauthenticated"));
        };
        let bearer = header.to_str().ok().and_then(|value| value.strip_prefix("Bearer "));
        let bearer = bearer.ok_or("not a bearer token")?;
        if bearer == self.admin_token {
            return Ok(User::in_group("kubernetes-admin", "system:masters"));
        }
        let principal = token::verify(
            bearer,
            cluster.token_audience(),
            &cluster.region,
            &self.identities,
            now,
        )?;
        let groups = self.entries.get(&principal.role_arn);
        let groups = groups.ok_or_else(|| format!("no access entry for {}", principal.role_arn))?;
        Ok(User {
            name: principal.arn(),
            groups: groups.clone(),
            rules: self.rules.clone(),
            withdrawn: self.withdrawn.clone(),
        })
    }
}

impl User {
    /// Whether the rules let the user at a resource.
    pub fn check_resource(&self, verb: &str, target: &Target) -> Result<(), Failure> {
        let resource = target.qualified();
        let is_right = |right: &Right| {
            right.verb == verb && right.group == target.group && right.resource == resource
        };
        let is_withdrawn = || self.withdrawn.iter().any(is_right);
        let granted = || ALWAYS.iter().chain(&self.rules).any(|rule| rule.grants(verb, target));
        let of_group = || self.is_member(BOUND_GROUP) && granted() && !is_withdrawn();
        if self.is_administrator() || of_group() {
            return Ok(());
        }
        let place = match target.namespace.as_str() {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace \"{namespace}\""),
        };
        let what = format!(
            "User \"{}\" cannot {verb} resource \"{resource}\" in API group \"{}\" {place}",
            self.name, target.group
        );
        Err(Failure::forbidden(Some((&target.group, &target.plural)), &target.name, &what))
    }

    /// Health and version are public; discovery is for everyone who has a name.
    pub fn check_path(&self, method: &Method, path: &str) -> Result<(), Failure> {
        let public = ["/version", "/readyz", "/livez", "/healthz"].contains(&path);
        let discovery = ["/api", "/apis", "/openapi"].iter().any(|prefix| path.starts_with(prefix));
        let is_seen = public || discovery && !self.is_anonymous();
        if method == Method::GET && is_seen || self.is_administrator() {
            return Ok(());
        }
        let verb = method.as_str().to_lowercase();
        let what = format!("User \"{}\" cannot {verb} path \"{path}\"", self.name);
        Err(Failure::forbidden(None, "", &what))
    }

    /// A user in one group, without further rules.
    pub fn in_group(name: &str, group: &str) -> Self {
        let name = name.to_owned();
        let groups = vec![group.to_owned()];
        Self { name, groups, rules: Vec::new(), withdrawn: Vec::new() }
    }

    /// The same with further rules.
    #[cfg(test)]
    pub fn with_rules(self, rules: Vec<Rule>) -> Self {
        Self { rules, ..self }
    }

    /// Whether it may do everything.
    pub fn is_administrator(&self) -> bool {
        self.is_member("system:masters")
    }

    /// Whether it has no name.
    pub fn is_anonymous(&self) -> bool {
        self.is_member("system:unauthenticated")
    }

    fn is_member(&self, group: &str) -> bool {
        self.groups.iter().any(|known| known == group)
    }
}

/// Where it is created.
pub const PATH: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Answers a review.
pub fn answer(user: &User, body: &[u8]) -> Result<Value, Failure> {
    let mut review: Value =
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
    review["status"] = json!({"allowed": allowed});
    Ok(review)
}
