//! An EKS cluster: its ARN, which alone identifies the cluster of an instance, the address and tokens of its API server,
//! and whether it exists. `eks` returns these values and `kubernetes` uses them, so that neither imports the other.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;

use super::words::display;

/// The ARN of an EKS cluster, `arn:aws:eks:REGION:ACCOUNT:cluster/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ClusterArn(String);

impl ClusterArn {
    /// Returns `None` if the text is not the ARN of an EKS cluster.
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.splitn(6, ':').collect();
        let [arn, partition, service, region, account, resource] = parts.as_slice() else {
            return None;
        };
        let name = resource.strip_prefix("cluster/")?;
        let well_formed = *arn == "arn"
            && partition.starts_with("aws")
            && is_region(partition)
            && *service == "eks"
            && is_region(region)
            && is_account(account)
            && is_cluster_name(name);
        well_formed.then(|| Self(text.to_owned()))
    }

    /// Unique in its account and Region.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(_, name)| name)
    }

    pub fn region(&self) -> &str {
        self.0.split(':').nth(3).unwrap_or("")
    }

    pub fn account(&self) -> &str {
        self.0.split(':').nth(4).unwrap_or("")
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

display!(ClusterArn(arn) => "{arn}");

/// Whether a text can be the name of a Region, or of a partition: it becomes a part of a host name, and anybody who may
/// register an instance writes ARNs.
pub fn is_region(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=32).contains(&text.len()) && text.bytes().all(is_part)
}

/// Whether a text is the number of an account.
pub(crate) fn is_account(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// EKS's pattern: `^[0-9A-Za-z][A-Za-z0-9\-_]*$`, at most 100 characters.
pub(crate) fn is_cluster_name(text: &str) -> bool {
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let rest =
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    first && rest && text.len() <= 100
}

/// A cluster as EKS describes it. Endpoint and certificate authority come from EKS alone, never from an event or a
/// setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EksCluster {
    /// Tokens are bound to this name.
    pub name: String,
    /// The identity of the cluster in the marks.
    pub arn: ClusterArn,
    /// Always https.
    pub endpoint: http::Uri,
    /// PEM.
    pub certificate_authority: Vec<u8>,
}

/// The error of a token that could not be made.
pub type TokenError = Box<dyn std::error::Error + Send + Sync>;
type SignedToken = BoxFuture<'static, Result<String, TokenError>>;

/// Returns a bearer token for each request; each is fresh for some minutes.
#[derive(Clone)]
pub struct BearerTokens(Arc<dyn Fn() -> SignedToken + Send + Sync>);

impl BearerTokens {
    pub fn new(source: impl Fn() -> SignedToken + Send + Sync + 'static) -> Self {
        Self(Arc::new(source))
    }

    /// # Errors
    /// Returns an error if it could not be signed.
    pub async fn token(&self) -> Result<String, TokenError> {
        (self.0)().await
    }
}

/// The existence of a cluster in EKS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Existence {
    Exists,
    /// Not found in the cluster's own account and Region.
    Gone,
    /// Unknown, for this reason.
    Unknown(String),
    /// Not requested, since no decision depends on it.
    NotAsked,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_arn_gives_name_region_and_account() {
        let arn = ClusterArn::parse("arn:aws:eks:eu-central-1:111122223333:cluster/blue");
        let arn = arn.expect("well formed");
        assert_eq!((arn.name(), arn.region()), ("blue", "eu-central-1"));
        assert_eq!(arn.account(), "111122223333");
    }

    #[test]
    fn other_texts_are_no_cluster_arn() {
        for bad in [
            "blue",
            "arn:aws:eks:eu-central-1:111122223333:nodegroup/blue",
            "arn:aws:ecs:eu-central-1:111122223333:cluster/blue",
            "arn:aws:eks:eu-central-1:1:cluster/blue",
            "arn:aws:eks:eu-central-1:111122223333:cluster/-blue",
            "arn:aws:eks:eu-central-1:111122223333:cluster/a/b",
            "arn:aws:eks::111122223333:cluster/blue",
            "arn:aws:eks:eu-cent\u{feff}ral-1:111122223333:cluster/blue",
            "arn:aws:eks:eks.example.com/:111122223333:cluster/blue",
            "arn:aws:eks:EU-CENTRAL-1:111122223333:cluster/blue",
            "arn:aws#:eks:eu-central-1:111122223333:cluster/blue",
            "arn:gcp:eks:eu-central-1:111122223333:cluster/blue",
        ] {
            assert_eq!(ClusterArn::parse(bad), None, "{bad}");
        }
    }
}
