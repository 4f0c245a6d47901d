//! The AWS identity of the function in the account of a cluster or of a Cloud Map, and the existence of its clusters.
//! They are read by `doctor`, by `purge` and for dead clusters, not by a sync.

use aws_config::retry::RetryConfig;
use tokio::time::timeout;

use crate::eks;
use crate::error::chain;
use crate::model::{ClusterArn, Existence, RegistryName};
use crate::settings::{Cluster, Role};

use super::{BRIEF, Clients, RegistryKey};

impl Clients {
    /// The ARN of the identity that calls EKS for a cluster.
    ///
    /// # Errors
    /// Returns the error message of STS or of the connection.
    pub async fn identity(&self, cluster: &Cluster) -> Result<String, String> {
        let config = self.config(cluster.role.as_ref(), Some(&cluster.region)).await;
        let reply = aws_sdk_sts::Client::new(&config).get_caller_identity().send().await;
        let answer = reply.map_err(|error| chain(&error))?;
        Ok(answer.arn.unwrap_or_default())
    }

    /// The account and Region of a Cloud Map. The function's own account is read from STS.
    ///
    /// # Errors
    /// Returns the error message of STS or of the connection.
    pub async fn name_of(&self, key: &RegistryKey) -> Result<RegistryName, String> {
        let own = || self.base.region().map(|region| region.as_ref().to_owned());
        let region = key.region.clone().or_else(own).unwrap_or_default();
        if let Some(account) = key.role.as_ref().and_then(Role::account) {
            return Ok(RegistryName { account: account.to_owned(), region });
        }
        let config = self.config(None, Some(&region)).await;
        let reply = aws_sdk_sts::Client::new(&config).get_caller_identity().send().await;
        let answer = reply.map_err(|error| chain(&error))?;
        Ok(RegistryName { account: answer.account.unwrap_or_default(), region })
    }

    /// Finds out if a cluster exists, with `role` or as the function itself: in one short attempt, since whoever may
    /// register instances can make the function ask.
    pub async fn existence(&self, cluster: &ClusterArn, role: Option<&Role>) -> Existence {
        let asked = async {
            let config = self.config(role, Some(cluster.region())).await;
            let config = config.to_builder().retry_config(RetryConfig::disabled()).build();
            let (eks, sts) = (aws_sdk_eks::Client::new(&config), aws_sdk_sts::Client::new(&config));
            eks::existence(&eks, &sts, cluster).await
        };
        let late = || format!("EKS did not answer within {} s", BRIEF.as_secs());
        timeout(BRIEF, asked).await.unwrap_or_else(|_| Existence::Unknown(late()))
    }
}
