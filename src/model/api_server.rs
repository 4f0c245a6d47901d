//! The address of a cluster's API server, and its bearer tokens. `eks` returns these values and `kubernetes` uses them,
//! so that neither imports the other.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::ClusterArn;

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

type Cause = Box<dyn std::error::Error + Send + Sync>;
type Token = BoxFuture<'static, Result<String, Cause>>;

/// Returns a bearer token for each request; each is fresh for some minutes.
#[derive(Clone)]
pub struct BearerTokens(Arc<dyn Fn() -> Token + Send + Sync>);

impl BearerTokens {
    pub fn new(source: impl Fn() -> Token + Send + Sync + 'static) -> Self {
        Self(Arc::new(source))
    }

    /// # Errors
    /// Returns an error if it could not be signed.
    pub async fn token(&self) -> Result<String, Cause> {
        (self.0)().await
    }
}

impl fmt::Debug for BearerTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerTokens")
    }
}
