//! Amazon EKS: [`describe`] reads a cluster's ARN with the address and certificate authority of its API server,
//! [`existence()`] returns whether a cluster still exists, and [`TokenSource`] signs the bearer tokens that a cluster
//! accepts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sdk_eks::Client;
use aws_sdk_eks::operation::describe_cluster::DescribeClusterError;
use aws_sdk_eks::types::{Cluster as Description, ComputeConfigResponse};
use aws_sdk_sts::config::endpoint::{DefaultResolver, Params, ResolveEndpoint};
use aws_sigv4::http_request::{
    PayloadChecksumKind, SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign,
};
use aws_sigv4::sign::v4;
use aws_smithy_async::time::SharedTimeSource;
use base64::engine::{Engine, general_purpose};

use crate::error::{answer_of, chain};
use crate::model::{BearerTokens, ClusterArn, EksCluster, Existence, TokenError};

/// The error of a cluster that could not be described.
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
    #[error("the EKS cluster {cluster:?} (status {status}) has no usable {field}")]
    Incomplete {
        cluster: String,
        status: String,
        /// The field that is missing or malformed.
        field: &'static str,
    },
}

/// Reads the description of a cluster.
///
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
    parse_description(name, &description).map_err(|field| Error::Incomplete {
        cluster: name.to_owned(),
        status,
        field,
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
    let decoded = encoded.and_then(|text| general_purpose::STANDARD.decode(text).ok());
    let certificate_authority = decoded.ok_or("certificate authority")?;
    let compute = description.compute_config();
    let is_auto_mode = compute.and_then(ComputeConfigResponse::enabled).unwrap_or_default();
    let local_id = description.id().map(str::to_owned);
    Ok(EksCluster {
        name: name.to_owned(),
        local_id,
        arn,
        endpoint,
        certificate_authority,
        is_auto_mode,
    })
}

/// Returns whether the cluster exists. "Not found" counts as gone only if the call was made in the cluster's account,
/// which STS confirms. Both clients must be configured for the cluster's Region.
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

/// The age at which a token is replaced, by the wall clock, since a monotonic clock may stop while Lambda is frozen.
/// Clusters accept a token for 15 minutes from its date, and ignore `X-Amz-Expires`.
const RENEW_AFTER: Duration = Duration::from_mins(10);

/// The value of `X-Amz-Expires`, as in aws-iam-authenticator's own client.
const EXPIRES: Duration = Duration::from_mins(1);

/// The error of a token that could not be signed.
#[derive(Debug, thiserror::Error)]
pub enum SigningError {
    /// The SDK has no STS host for the Region.
    #[error("no STS endpoint is known for the Region {region}")]
    Endpoint {
        region: String,
        #[source]
        source: TokenError,
    },
    #[error("cannot get credentials to sign a token for the cluster {cluster:?}")]
    Credentials {
        cluster: String,
        #[source]
        source: aws_credential_types::provider::error::CredentialsError,
    },
    #[error("cannot sign a token for the cluster {cluster:?}")]
    Sign {
        cluster: String,
        #[source]
        source: TokenError,
    },
}

/// Signs the bearer tokens of one EKS cluster, and caches the last token for ten minutes.
///
/// A bearer token is `k8s-aws-v1.` followed by a base64-encoded presigned URL of STS `GetCallerIdentity`. The cluster
/// calls the URL to identify the caller. Signing needs no call and no IAM permission.
///
/// aws-iam-authenticator accepts only certain query parameters and STS hosts. An SDK operation adds query parameters of
/// its own, so the URL is built here (<https://github.com/kubernetes-sigs/aws-iam-authenticator>,
/// `pkg/token/token.go`).
#[derive(Debug)]
pub struct TokenSource {
    cluster: String,
    region: String,
    credentials: SharedCredentialsProvider,
    clock: SharedTimeSource,
    last: Mutex<Option<(SystemTime, String)>>,
}

impl TokenSource {
    /// Creates a source of tokens for `cluster`, the name (on Outposts, the id) of a cluster in `region`. Tokens are
    /// signed with `credentials`. `clock` is the SDK's time source and dates them.
    pub fn new(
        cluster: &str,
        region: &str,
        credentials: SharedCredentialsProvider,
        clock: SharedTimeSource,
    ) -> Self {
        let cluster = cluster.to_owned();
        let region = region.to_owned();
        Self { cluster, region, credentials, clock, last: Mutex::new(None) }
    }

    /// Returns a token that the cluster accepts for at least five more minutes.
    ///
    /// # Errors
    /// Returns an error if there are no credentials, or if the Region has no STS host.
    pub async fn token(&self) -> Result<String, SigningError> {
        let now = self.clock.now();
        if let Some(token) = self.fresh_token(now) {
            return Ok(token);
        }
        let token = self.sign(now).await?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, token.clone()));
        Ok(token)
    }

    /// Converts the source into the value that a Kubernetes client needs.
    pub fn into_tokens(self) -> BearerTokens {
        let source = Arc::new(self);
        Arc::new(move || {
            let source = Arc::clone(&source);
            Box::pin(async move { Ok(source.token().await?) })
        })
    }

    fn fresh_token(&self, now: SystemTime) -> Option<String> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (signed, token) = last.as_ref()?;
        // If the clock was set back there is no age, and a new token is signed.
        let age = now.duration_since(*signed).ok()?;
        (age < RENEW_AFTER).then(|| token.clone())
    }

    async fn sign(&self, now: SystemTime) -> Result<String, SigningError> {
        let sts_url = sts_url(&self.region).await?;
        let credentials = self.credentials.provide_credentials().await;
        let credentials = credentials.map_err(|source| SigningError::Credentials {
            cluster: self.cluster.clone(),
            source,
        })?;
        let url = presign(&sts_url, &self.region, &self.cluster, credentials, now);
        let url =
            url.map_err(|source| SigningError::Sign { cluster: self.cluster.clone(), source })?;
        Ok(format!("k8s-aws-v1.{}", general_purpose::URL_SAFE_NO_PAD.encode(url)))
    }
}

/// Returns the STS URL of the Region, from the SDK's table of partitions and Regions. Endpoint overrides are ignored,
/// because the cluster calls the URL and accepts only AWS's hosts.
async fn sts_url(region: &str) -> Result<String, SigningError> {
    let failed = |source: TokenError| SigningError::Endpoint { region: region.to_owned(), source };
    let params = Params::builder().region(region).use_global_endpoint(false).build();
    let params = params.map_err(|error| failed(error.into()))?;
    let endpoint = DefaultResolver::new().resolve_endpoint(&params).await;
    Ok(endpoint.map_err(failed)?.url().to_owned())
}

fn presign(
    sts_url: &str,
    region: &str,
    cluster: &str,
    credentials: Credentials,
    now: SystemTime,
) -> Result<String, TokenError> {
    let mut settings = SigningSettings::default();
    settings.signature_location = SignatureLocation::QueryParams;
    settings.payload_checksum_kind = PayloadChecksumKind::NoHeader;
    settings.expires_in = Some(EXPIRES);
    let identity = credentials.into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name("sts")
        .time(now)
        .settings(settings)
        .build()?;
    let sts_url = sts_url.trim_end_matches('/');
    let url = format!("{sts_url}/?Action=GetCallerIdentity&Version=2011-06-15");
    // The signed header binds the token to this cluster.
    let headers = [("x-k8s-aws-id", cluster)];
    let request = SignableRequest::new("GET", &url, headers.into_iter(), SignableBody::Bytes(&[]))?;
    let (instructions, _signature) = sign(request, &params.into())?.into_parts();
    let mut request = http::Request::builder().uri(url).body(())?;
    instructions.apply_to_request_http1x(&mut request);
    Ok(request.uri().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(region: &str) -> TokenSource {
        let credentials =
            Credentials::new("AKIDEXAMPLE", "secret", Some("session".into()), None, "test");
        let credentials = SharedCredentialsProvider::new(credentials);
        TokenSource::new("blue", region, credentials, SharedTimeSource::default())
    }

    fn url(token: &str) -> http::Uri {
        let encoded = token.strip_prefix("k8s-aws-v1.").expect("the prefix");
        let bytes = general_purpose::URL_SAFE_NO_PAD.decode(encoded).expect("unpadded base64url");
        String::from_utf8(bytes).expect("text").parse().expect("a URL")
    }

    #[tokio::test]
    async fn a_token_has_only_the_parameters_that_clusters_accept() {
        let token = source("eu-central-1").token().await.expect("signed");
        let url = url(&token);
        let mut names: Vec<&str> = url
            .query()
            .expect("a query")
            .split('&')
            .map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name))
            .collect();
        names.sort_unstable();
        let expected = [
            "Action",
            "Version",
            "X-Amz-Algorithm",
            "X-Amz-Credential",
            "X-Amz-Date",
            "X-Amz-Expires",
            "X-Amz-Security-Token",
            "X-Amz-Signature",
            "X-Amz-SignedHeaders",
        ];
        assert_eq!(names, expected);
        assert!(url.to_string().contains("X-Amz-SignedHeaders=host%3Bx-k8s-aws-id"), "{url}");
        assert!(token.len() <= 4096);
    }

    #[tokio::test]
    async fn the_host_is_the_regions_own_in_its_partition() {
        let cases = [
            ("eu-central-1", "sts.eu-central-1.amazonaws.com"),
            ("us-east-1", "sts.us-east-1.amazonaws.com"),
            ("cn-north-1", "sts.cn-north-1.amazonaws.com.cn"),
            ("us-gov-west-1", "sts.us-gov-west-1.amazonaws.com"),
        ];
        for (region, host) in cases {
            let token = source(region).token().await.expect("signed");
            assert_eq!(url(&token).host(), Some(host));
        }
    }

    #[tokio::test]
    async fn a_token_is_kept_for_ten_minutes_of_wall_clock() {
        let source = source("eu-central-1");
        let token = source.token().await.expect("signed");
        let signed = SystemTime::now();
        assert_eq!(source.fresh_token(signed), Some(token));
        assert_eq!(source.fresh_token(signed + RENEW_AFTER), None);
        assert_eq!(source.fresh_token(signed - Duration::from_hours(1)), None);
    }
}
