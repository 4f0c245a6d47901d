//! Which endpoints are found, by the conditions that the cluster tells of them.

use crate::model::{Claims, Endpoint};

/// Whether an endpoint becomes an instance: a ready one; of those on their way out one that still
/// serves, where the Service asks for that.
pub fn is_found(endpoint: &Endpoint, claims: &Claims) -> bool {
    if endpoint.terminating { claims.keeps_serving && endpoint.serving } else { endpoint.ready }
}
