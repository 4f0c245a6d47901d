//! What clients of Cloud Map are told: shown to a person, and a first look at services that may need nothing. It may be
//! late, so nothing is ever changed because of it.

use std::collections::BTreeMap;

use aws_sdk_servicediscovery::config::interceptors::BeforeTransmitInterceptorContextMut;
use aws_sdk_servicediscovery::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_servicediscovery::error::BoxError;
use aws_sdk_servicediscovery::types::{HealthStatusFilter, HttpInstanceSummary};
use http::Uri;

use super::{Call, CloudMap, Error};
use crate::model::{Attributes, Namespace, NamespaceKind};

/// The most that one answer holds, and the most instances that a service can have. There are no pages.
const MOST: u16 = 1000;

/// An instance as discovery tells it: its health.
pub type Discovered = BTreeMap<String, String>;

impl CloudMap {
    /// The health of the instances of a service, as `DiscoverInstances` tells it.
    ///
    /// # Errors
    /// Where Cloud Map does not tell.
    pub async fn discover(&self, namespace: &Namespace, name: &str) -> Result<Discovered, Error> {
        let found = self.find(namespace, name).await?.into_iter().filter_map(|instance| {
            let health = instance.health_status.map_or("unknown".to_owned(), |it| it.to_string());
            Some((instance.instance_id?, health))
        });
        Ok(found.collect())
    }

    /// The instances of a service, as `DiscoverInstances` tells them; `None` where there may be more.
    ///
    /// # Errors
    /// Where Cloud Map does not tell.
    pub async fn discovered(
        &self,
        namespace: &Namespace,
        name: &str,
    ) -> Result<Option<BTreeMap<String, Attributes>>, Error> {
        let found = self.find(namespace, name).await?;
        let is_all = found.len() < usize::from(MOST);
        let instances = found.into_iter().filter_map(|instance| {
            let attributes = instance.attributes.unwrap_or_default();
            Some((instance.instance_id?, attributes.into_iter().collect()))
        });
        Ok(is_all.then(|| instances.collect()))
    }

    /// Instances in whatever health: without the filter only healthy ones may be told.
    async fn find(
        &self,
        namespace: &Namespace,
        name: &str,
    ) -> Result<Vec<HttpInstanceSummary>, Error> {
        let _permit = self.permit(Call::DiscoverInstances).await;
        let action = format!("discover the instances of {}/{name}", namespace.name);
        let known_as = namespace.http_name.as_ref().unwrap_or(&namespace.name);
        let call = self.client.discover_instances().namespace_name(known_as).service_name(name);
        let call = call.health_status(HealthStatusFilter::All).max_results(MOST.into());
        let call = call.set_owner_account(namespace.owner.clone());
        let answer = call.customize().interceptor(LocalHost).send().await;
        let answer = answer.map_err(|error| Error::new(&action, &error))?;
        answer.instances.ok_or_else(|| Error::lacking(&action, "Instances"))
    }
}

impl Namespace {
    /// The name that DNS queries ask for, where they find anything.
    pub fn dns_name(&self, service: &str) -> Option<String> {
        (self.kind == NamespaceKind::Dns).then(|| format!("{service}.{}", self.name))
    }
}

/// The SDK asks the host `data-…` for discovery. No such name leads to an endpoint that is given by its
/// address or is this machine.
#[derive(Debug)]
struct LocalHost;

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

/// The same address on the host itself, where that is an IP address or this machine.
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
    fn the_prefix_goes_where_no_name_could_have_it() {
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
