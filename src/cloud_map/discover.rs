//! Reads instances by `DiscoverInstances`, the call of Cloud Map's clients: to show them to a user, and to find out
//! which names a new process reads first. Discovery is eventually consistent, so it never justifies a change.

use std::collections::BTreeMap;

use aws_sdk_servicediscovery::config::interceptors::BeforeTransmitInterceptorContextMut;
use aws_sdk_servicediscovery::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_servicediscovery::error::BoxError;
use aws_sdk_servicediscovery::types::{HealthStatus, HealthStatusFilter};
use http::Uri;

use super::{Call, CloudMap, Error};
use crate::model::{Namespace, NamespaceKind};

/// The most instances of a reply, and of a service. There are no pages.
const MAX_RESULTS: u16 = 1000;

/// The health of discovered instances, by instance id.
pub type Discovered = BTreeMap<String, String>;

impl CloudMap {
    /// The instances of a service. Without the health filter `ALL`, Cloud Map may return only healthy ones.
    ///
    /// # Errors
    /// Returns an error if the call fails.
    pub async fn discover(&self, namespace: &Namespace, name: &str) -> Result<Discovered, Error> {
        let _permit = self.permit(Call::DiscoverInstances).await;
        let action = format!("discover the instances of {}/{name}", namespace.name);
        let known_as = namespace.http_name.as_ref().unwrap_or(&namespace.name);
        let call = self.client.discover_instances().namespace_name(known_as).service_name(name);
        let call = call.health_status(HealthStatusFilter::All).max_results(MAX_RESULTS.into());
        let call = call.set_owner_account(namespace.owner.clone());
        let answer = call.customize().interceptor(LocalHost).send().await;
        let answer = answer.map_err(|error| Error::new(&action, &error))?;
        let found = answer.instances.ok_or_else(|| Error::missing_member(&action, "Instances"))?;
        let health =
            |it: Option<HealthStatus>| it.map_or("unknown".to_owned(), |it| it.to_string());
        let found =
            found.into_iter().filter_map(|it| Some((it.instance_id?, health(it.health_status))));
        Ok(found.collect())
    }
}

impl Namespace {
    /// The DNS name of a service; `None` in an HTTP namespace.
    pub fn dns_name(&self, service: &str) -> Option<String> {
        (self.kind == NamespaceKind::Dns).then(|| format!("{service}.{}", self.name))
    }
}

/// The SDK puts `data-` before the host of a discovery request. With an IP address or `localhost` such a host cannot be
/// resolved, so the prefix is removed.
#[derive(Debug)]
pub struct LocalHost;

impl Intercept for LocalHost {
    fn name(&self) -> &'static str {
        "LocalHost"
    }

    fn modify_before_signing(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let request = context.request_mut();
        if let Some(uri) = without_prefix(request.uri()) {
            request.set_uri(uri)?;
        }
        Ok(())
    }
}

/// The URI without the prefix; `None` if the host is neither an IP address nor `localhost`.
fn without_prefix(uri: &str) -> Option<String> {
    let parsed: Uri = uri.parse().ok()?;
    let host = parsed.host()?.strip_prefix("data-")?;
    let is_local = host == "localhost" || host.parse::<std::net::Ipv4Addr>().is_ok();
    is_local.then(|| uri.replacen("//data-", "//", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_is_removed_from_addresses_and_localhost() {
        let rows = [
            ("http://data-127.0.0.1:4566/", Some("http://127.0.0.1:4566/")),
            ("http://data-localhost:4566/", Some("http://localhost:4566/")),
            ("https://data-servicediscovery.eu-central-1.amazonaws.com/", None),
            ("https://data-vpce-0a1b.servicediscovery.eu-central-1.vpce.amazonaws.com/", None),
            ("http://127.0.0.1:4566/", None),
        ];
        for (uri, expected) in rows {
            assert_eq!(without_prefix(uri).as_deref(), expected, "{uri}");
        }
    }
}
