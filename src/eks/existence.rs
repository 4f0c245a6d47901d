//! Finds out if a cluster still exists. "Not found" is the one reply that can lead to a deregistration.
//! `DescribeCluster` finds a cluster by name in the account of its caller, so the reply counts only if that account is
//! the cluster's own.

use aws_sdk_eks::Client;

use super::{Error, describe};
use crate::error::chain;
use crate::model::{ClusterArn, Existence};

/// Calls EKS, and if the cluster is not found, STS for the account of the call. Both clients are of the cluster's
/// Region.
pub async fn existence(eks: &Client, sts: &aws_sdk_sts::Client, cluster: &ClusterArn) -> Existence {
    match describe(eks, cluster.name()).await {
        Ok(found) if found.arn != *cluster => {
            Existence::Unknown(format!("EKS was called in the account of {}", found.arn))
        }
        Ok(_) | Err(Error::Incomplete { .. }) => Existence::Exists,
        Err(error @ Error::Describe { .. }) => Existence::Unknown(error.to_string()),
        Err(Error::NotFound { .. }) => match caller_account(sts).await {
            Ok(account) if account == cluster.account() => Existence::Gone,
            Ok(account) => Existence::Unknown(format!(
                "EKS was called in the account {account}, not in its own"
            )),
            Err(problem) => Existence::Unknown(problem),
        },
    }
}

async fn caller_account(sts: &aws_sdk_sts::Client) -> Result<String, String> {
    let answer = sts.get_caller_identity().send().await;
    let identity = answer.map_err(|error| {
        format!("STS did not return the account that called EKS: {}", chain(&error))
    })?;
    Ok(identity.account.unwrap_or_default())
}
