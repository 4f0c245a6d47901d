//! Amazon EKS: [`describe`] reads a cluster's ARN with the address and certificate authority of its API server,
//! [`existence()`] finds out if a cluster still exists, and [`token`] signs the bearer tokens that a cluster accepts.

pub mod token;

use aws_sdk_eks::Client;
use aws_sdk_eks::operation::describe_cluster::DescribeClusterError;
use aws_sdk_eks::types::Cluster as Description;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::error::{answer_of, chain};
use crate::model::{ClusterArn, EksCluster, Existence};

/// A cluster could not be described.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("EKS has no cluster {cluster:?} in {region}")]
    NotFound { cluster: String, region: String },
    #[error("cannot describe the EKS cluster {cluster:?}: {message}")]
    Describe {
        cluster: String,
        /// The error message of EKS or of the connection.
        message: String,
    },
    /// The reply is incomplete, for instance while a cluster is being created.
    #[error("the EKS cluster {cluster:?} (status {status}) has no usable {member}")]
    Incomplete {
        cluster: String,
        status: String,
        /// The member that is missing or malformed.
        member: &'static str,
    },
}

/// # Errors
/// Returns an error if EKS cannot be reached, does not find the cluster, or returns an incomplete description.
pub async fn describe(client: &Client, name: &str) -> Result<EksCluster, Error> {
    let answer = client.describe_cluster().name(name).send().await;
    let answer = answer.map_err(|error| match error.as_service_error() {
        Some(DescribeClusterError::ResourceNotFoundException(_)) => Error::NotFound {
            cluster: name.to_owned(),
            region: client.config().region().map(ToString::to_string).unwrap_or_default(),
        },
        _ => Error::Describe { cluster: name.to_owned(), message: answer_of(&error) },
    })?;
    let description = answer.cluster.unwrap_or_else(|| Description::builder().build());
    let status = description.status.as_ref().map_or("unknown", |status| status.as_str()).to_owned();
    parse_description(name, &description).map_err(|member| Error::Incomplete {
        cluster: name.to_owned(),
        status,
        member,
    })
}

fn parse_description(name: &str, description: &Description) -> Result<EksCluster, &'static str> {
    let arn = description.arn().and_then(ClusterArn::parse).ok_or("ARN")?;
    let endpoint: http::Uri =
        description.endpoint().and_then(|text| text.parse().ok()).ok_or("endpoint")?;
    if endpoint.scheme_str() != Some("https") {
        return Err("endpoint: it is not https");
    }
    let encoded = description.certificate_authority().and_then(|ca| ca.data());
    let decoded = encoded.and_then(|text| STANDARD.decode(text).ok());
    let certificate_authority = decoded.ok_or("certificate authority")?;
    Ok(EksCluster { name: name.to_owned(), arn, endpoint, certificate_authority })
}

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
