//! A stand-in Kubernetes API server for one cluster, over real TLS with its own certificate authority. Tests change its
//! state with `verbs`; clients read it by HTTP only: `answer` serves the objects of `world`, which `store` keeps.
//! Tokens are checked as in an EKS cluster, and RBAC grants the rules of `deploy/rbac.yaml`. `writes` takes what
//! clients send and checks of it what the function reacts to; `recorded` records it, for a real server to check the
//! rest. The API of services across clusters is there once `multi_cluster` serves it.

mod access;
mod admission;
mod allocation;
mod answer;
mod controllers;
mod discovery;
mod fault;
mod list;
mod managers;
mod multi_cluster;
mod patch;
mod pod;
mod ready;
mod recorded;
mod resource;
mod rules;
mod server;
mod service;
mod status;
pub mod store;
#[cfg(test)]
mod tests;
mod token;
mod validation;
mod verbs;
mod world;
mod writes;

use crate::{ACCOUNT, REGION};

pub use access::{BOUND_GROUP, Right};
pub use admission::Policy;
pub use fault::{Fault, FaultKind};
pub use multi_cluster::Export;
pub use pod::{ClusterIp, Pod};
pub use server::KubernetesServer;
pub use service::Headless;

/// Which cluster a server stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterIdentity {
    /// The cluster's name.
    pub name: String,
    /// The id of a local cluster on Outposts, which its tokens are bound to in place of the name.
    pub local_id: Option<String>,
    /// The cluster's Region, whose STS host its tokens are signed for.
    pub region: String,
    /// The account that DescribeCluster finds it in.
    pub account: String,
}

impl ClusterIdentity {
    /// A cluster in the function's account and Region.
    pub fn own(name: &str) -> Self {
        let [name, region, account] = [name, REGION, ACCOUNT].map(str::to_owned);
        Self { name, local_id: None, region, account }
    }

    /// A local cluster on Outposts in the function's account and Region.
    pub fn on_outposts(name: &str, id: &str) -> Self {
        Self { local_id: Some(id.to_owned()), ..Self::own(name) }
    }

    /// What the tokens of the cluster are bound to.
    pub fn token_audience(&self) -> &str {
        self.local_id.as_deref().unwrap_or(&self.name)
    }

    /// The cluster's ARN.
    pub fn arn(&self) -> String {
        let partition = if self.region.starts_with("cn-") { "aws-cn" } else { "aws" };
        format!("arn:{partition}:eks:{}:{}:cluster/{}", self.region, self.account, self.name)
    }
}

/// One request that the server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLine {
    /// `GET`, `POST`
    pub method: String,
    /// Path without query.
    pub path: String,
    /// Query as sent.
    pub query: String,
    /// Status of the answer.
    pub status: u16,
    /// For a refused token, the reason: the client gets only 401.
    pub refusal: Option<String>,
}
