//! What Amazon EKS tells of a cluster: its ARN, its API server's address and certificate authority
//! ([`describe`]), whether it is still there ([`existence()`]), and how to sign a bearer token that the
//! cluster accepts ([`token`]).

mod existence;
pub mod token;

use aws_sdk_eks::Client;
use aws_sdk_eks::error::{DisplayErrorContext, ProvideErrorMetadata};
use aws_sdk_eks::operation::describe_cluster::DescribeClusterError;
use aws_sdk_eks::types::Cluster as Description;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::model::{ClusterArn, EksCluster};

pub use existence::existence;

/// Why a cluster's address is not known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// EKS knows no such cluster.
    #[error("EKS knows no cluster {cluster:?} in {region}")]
    NotFound {
        /// Its name.
        cluster: String,
        /// The Region asked.
        region: String,
    },
    /// `DescribeCluster` failed.
    #[error("cannot describe the EKS cluster {cluster:?}: {message}")]
    Describe {
        /// Its name.
        cluster: String,
        /// What EKS or the connection said.
        message: String,
    },
    /// The answer lacks what is needed, as while a cluster is being created.
    #[error("the EKS cluster {cluster:?} (status {status}) has no usable {what}")]
    Incomplete {
        /// Its name.
        cluster: String,
        /// Its status.
        status: String,
        /// What is missing or not well formed.
        what: &'static str,
    },
}

/// Asks EKS for a cluster's address.
///
/// # Errors
/// Where EKS does not answer, knows no such cluster, or does not tell all that is needed.
pub async fn describe(client: &Client, name: &str) -> Result<EksCluster, Error> {
    let answer = client.describe_cluster().name(name).send().await;
    let answer = answer.map_err(|error| match error.as_service_error() {
        Some(DescribeClusterError::ResourceNotFoundException(_)) => Error::NotFound {
            cluster: name.to_owned(),
            region: client.config().region().map(ToString::to_string).unwrap_or_default(),
        },
        Some(service) => {
            let code = service.code().unwrap_or("unknown error");
            let message = format!("{code}: {}", service.message().unwrap_or("no message"));
            Error::Describe { cluster: name.to_owned(), message }
        }
        None => {
            let message = DisplayErrorContext(&error).to_string();
            Error::Describe { cluster: name.to_owned(), message }
        }
    })?;
    let description = answer.cluster.unwrap_or_else(|| Description::builder().build());
    let status = description.status.as_ref().map_or("unknown", |status| status.as_str()).to_owned();
    usable(name, &description).map_err(|what| Error::Incomplete {
        cluster: name.to_owned(),
        status,
        what,
    })
}

fn usable(name: &str, description: &Description) -> Result<EksCluster, &'static str> {
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
