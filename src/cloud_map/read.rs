//! Reads namespaces, the services of one or of all namespaces, and single services, by `ListNamespaces`, `ListServices`
//! and `GetService`. A read returns all pages or an error: with a partial list the missing services would count as
//! deleted. For the same reason a summary without a field that identifies its namespace or service is an error.
//!
//! Clients of Cloud Map call `DiscoverInstances`, and `explain` calls it to show what they see. The result is
//! eventually consistent, so no change is based on it.

use std::collections::BTreeMap;
use std::future::ready;

use aws_sdk_servicediscovery::config::{ConfigBag, Intercept, RuntimeComponents, interceptors};
use aws_sdk_servicediscovery::error::{BoxError, SdkError};
use aws_sdk_servicediscovery::operation::{list_namespaces, list_services};
use aws_sdk_servicediscovery::types as api;
use aws_smithy_async::future::pagination_stream::PaginationStream;
use futures_util::{Stream, TryStreamExt, stream};

use super::{Call, Class, CloudMap, Error};
use crate::model::{
    CloudMapService, HealthCheck, Namespace, NamespaceKind, Records, RoutingPolicy, ServiceKind,
};

/// A namespace as `ListNamespaces` returns it.
#[derive(Debug)]
pub struct ListedNamespace {
    pub namespace: Namespace,
    /// The number of its services, which may lag behind changes; `None` if Cloud Map did not return it.
    pub service_count: Option<usize>,
}

/// A service as `ListServices` returns it. The response does not contain the namespace.
#[derive(Debug)]
pub struct ListedService {
    /// The account that owns the namespace.
    pub namespace_account: Option<String>,
    pub service: CloudMapService,
}

impl CloudMap {
    /// Lists the namespaces that the client's role can see.
    ///
    /// # Errors
    /// Returns an error if a page could not be read.
    pub async fn namespaces(&self) -> Result<Vec<ListedNamespace>, Error> {
        let failed = |error: &SdkError<_, _>| Error::new("list the namespaces of Cloud Map", error);
        let pages = self.client.list_namespaces().into_paginator().send();
        let token = list_namespaces::ListNamespacesOutput::next_token;
        let pages = self.pages(Call::ListNamespaces, pages, token, failed);
        let pages: Vec<list_namespaces::ListNamespacesOutput> = pages.try_collect().await?;
        let missing =
            |member: &str| Error::missing_member("list the namespaces of Cloud Map", member);
        let mut namespaces = Vec::new();
        for page in pages {
            for summary in page.namespaces.ok_or_else(|| missing("Namespaces"))? {
                namespaces.push(namespace(summary).map_err(missing)?);
            }
        }
        Ok(namespaces)
    }

    /// Streams the services of `namespace`, or of all namespaces for `None`, page by page. Does not read instances.
    ///
    /// # Errors
    /// Returns an error if the request cannot be built. Each item of the stream is an error if its page could not be
    /// read.
    pub fn services<'a>(
        &'a self,
        namespace: Option<&Namespace>,
    ) -> Result<impl Stream<Item = Result<Vec<ListedService>, Error>> + use<'a>, Error> {
        let action = match namespace {
            Some(namespace) => {
                format!("list the services of the Cloud Map namespace {}", namespace.name)
            }
            None => "list the services of Cloud Map".to_owned(),
        };
        let filter = namespace.map(|namespace| {
            let id = namespace.arn.clone().unwrap_or_else(|| namespace.id.clone());
            let name = api::ServiceFilterName::NamespaceId;
            api::ServiceFilter::builder().name(name).values(id).build()
        });
        let filter = filter.transpose().map_err(|error| Error::input(action.clone(), &error))?;
        let request = self.client.list_services().set_filters(filter.map(|filter| vec![filter]));
        let pages = request.into_paginator().send();
        let token = list_services::ListServicesOutput::next_token;
        let failed_action = action.clone();
        let failed = move |error: &SdkError<_, _>| Error::new(failed_action.clone(), error);
        let pages = self.pages(Call::ListServices, pages, token, failed);
        Ok(pages.and_then(move |page| {
            let missing = |member: &str| Error::missing_member(action.clone(), member);
            let listed = page.services.ok_or_else(|| missing("Services"));
            let services: Result<Vec<ListedService>, Error> = listed.and_then(|summaries| {
                let services = summaries.into_iter().map(listed_service);
                services.map(|service| service.map_err(missing)).collect()
            });
            ready(services)
        }))
    }

    /// Reads the id of a service's namespace. Returns `None` if the service does not exist.
    ///
    /// # Errors
    /// Returns an error if the service could not be read.
    pub async fn namespace_of(&self, service: &CloudMapService) -> Result<Option<String>, Error> {
        let action = || format!("read the namespace of the Cloud Map service {}", service.name);
        let Some(service) = self.get_service(&service.arn, action).await? else { return Ok(None) };
        let id = service.namespace_id;
        id.map(Some).ok_or_else(|| Error::missing_member(action(), "NamespaceId"))
    }

    /// Reads a service by its ARN, without instances, and the id of its namespace. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// Returns an error if it could not be read.
    pub async fn service_of_arn(
        &self,
        arn: &str,
    ) -> Result<Option<(String, CloudMapService)>, Error> {
        let action = || format!("read the Cloud Map service {arn}");
        let Some(read) = self.get_service(arn, action).await? else { return Ok(None) };
        let missing = |member: &str| Error::missing_member(action(), member);
        let namespace = read.namespace_id.clone().ok_or_else(|| missing("NamespaceId"))?;
        let service = service(summary(read)).map_err(missing)?;
        Ok(Some((namespace, service)))
    }

    async fn get_service(
        &self,
        id: &str,
        action: impl Fn() -> String,
    ) -> Result<Option<api::Service>, Error> {
        let _slot = self.acquire(Call::GetService).await;
        let answer = self.client.get_service().id(id).send().await;
        let answer = answer.map_err(|error| Error::new(action(), &error));
        match self.recorded(Call::GetService, answer) {
            Err(error) if error.class == Class::NotFound => Ok(None),
            answer => {
                let missing = || Error::missing_member(action(), "Service");
                answer?.service.map(Some).ok_or_else(missing)
            }
        }
    }

    /// Streams the pages of a list. Waits for the rate limit before each page, so that a long list does not block
    /// urgent calls. `token` returns the next token of a page. If a token repeats, the SDK's paginator ends silently;
    /// the list is incomplete, so the stream ends with an error.
    pub(super) fn pages<Page, Problem>(
        &self,
        call: Call,
        pages: PaginationStream<Result<Page, Problem>>,
        token: impl Fn(&Page) -> Option<&str>,
        failed: impl Fn(&Problem) -> Error,
    ) -> impl Stream<Item = Result<Page, Error>> {
        let first = (pages, true, token, failed);
        stream::try_unfold(first, move |(mut pages, has_more, token, failed)| async move {
            if !has_more {
                return Ok(None);
            }
            let _slot = self.acquire(call).await;
            let page = pages.next().await.ok_or_else(|| repeated_token(call))?;
            let page = self.recorded(call, page.map_err(|problem| failed(&problem)))?;
            let has_more = token(&page).is_some_and(|token| !token.is_empty());
            Ok(Some((page, (pages, has_more, token, failed))))
        })
    }

    /// Discovers the instances of a service. Without the health filter `ALL`, Cloud Map may return only healthy
    /// instances.
    ///
    /// # Errors
    /// Returns an error if the call fails.
    pub async fn discover(&self, namespace: &Namespace, name: &str) -> Result<Discovered, Error> {
        let _slot = self.acquire(Call::DiscoverInstances).await;
        let action = format!("discover the instances of {}/{name}", namespace.name);
        let known_as = namespace.http_name.as_ref().unwrap_or(&namespace.name);
        let call = self.client.discover_instances().namespace_name(known_as).service_name(name);
        let call = call.health_status(api::HealthStatusFilter::All).max_results(MAX_RESULTS.into());
        let call = call.set_owner_account(namespace.owner.clone());
        let answer = call.customize().interceptor(StripDataPrefix).send().await;
        let answer = answer.map_err(|error| Error::new(&action, &error));
        let answer = self.recorded(Call::DiscoverInstances, answer)?;
        let found = answer.instances.ok_or_else(|| Error::missing_member(&action, "Instances"))?;
        let health = |status: Option<api::HealthStatus>| {
            status.map_or("unknown".to_owned(), |status| status.to_string())
        };
        let found = found
            .into_iter()
            .filter_map(|instance| Some((instance.instance_id?, health(instance.health_status))));
        Ok(found.collect())
    }
}

fn repeated_token(call: Call) -> Error {
    let problem = "the list repeats itself and does not end";
    Error::input(format!("read all pages of {call:?}"), &problem)
}

/// Converts a summary.
///
/// # Errors
/// Returns the member that identifies the namespace and is missing: its id, ARN or name.
fn namespace(summary: api::NamespaceSummary) -> Result<ListedNamespace, &'static str> {
    let service_count = summary.service_count.and_then(|count| count.try_into().ok());
    let kind = match summary.r#type {
        Some(api::NamespaceType::Http) => NamespaceKind::Http,
        _ => NamespaceKind::Dns,
    };
    let http = summary.properties.and_then(|properties| properties.http_properties);
    let namespace = Namespace {
        http_name: http.and_then(|http| http.http_name),
        id: summary.id.ok_or("Id")?,
        arn: Some(summary.arn.ok_or("Arn")?),
        name: summary.name.ok_or("Name")?,
        kind,
        owner: summary.resource_owner,
    };
    Ok(ListedNamespace { namespace, service_count })
}

/// Converts a summary, with the account of the namespace.
///
/// # Errors
/// Returns the missing member as [`service`] does.
fn listed_service(mut summary: api::ServiceSummary) -> Result<ListedService, &'static str> {
    let namespace_account = summary.resource_owner.take();
    Ok(ListedService { namespace_account, service: service(summary)? })
}

/// Converts the response of `GetService` into the type that `ListServices` returns.
fn summary(service: api::Service) -> api::ServiceSummary {
    api::ServiceSummary::builder()
        .set_arn(service.arn)
        .set_name(service.name)
        .set_description(service.description)
        .set_instance_count(service.instance_count)
        .set_dns_config(service.dns_config)
        .set_health_check_config(service.health_check_config)
        .set_health_check_custom_config(service.health_check_custom_config)
        .set_created_by_account(service.created_by_account)
        .build()
}

/// Converts a summary into a service without instances and tags.
///
/// # Errors
/// Returns the member that identifies the service and is missing: its ARN or name.
fn service(summary: api::ServiceSummary) -> Result<CloudMapService, &'static str> {
    let listed = || summary.dns_config.iter().flat_map(api::DnsConfig::dns_records);
    let records = listed().map(api::DnsRecord::r#type).fold(Records::default(), with_record);
    let is_http = records == Records::default();
    let ttls = listed().filter_map(|record| record.ttl().try_into().ok());
    let policy = summary.dns_config.as_ref().and_then(api::DnsConfig::routing_policy);
    Ok(CloudMapService {
        kind: if is_http { ServiceKind::Http } else { ServiceKind::Dns(records) },
        ttls: ttls.collect(),
        routing_policy: policy.and_then(|policy| RoutingPolicy::parse(policy.as_str())),
        health_check: summary.health_check_config.map(health_check),
        arn: summary.arn.ok_or("Arn")?,
        name: summary.name.ok_or("Name")?,
        description: summary.description,
        instance_count: summary.instance_count.and_then(|count| count.try_into().ok()).unwrap_or(0),
        created_by: summary.created_by_account,
        ..CloudMapService::default()
    })
}

fn with_record(mut records: Records, kind: &api::RecordType) -> Records {
    match kind {
        api::RecordType::A => records.a = true,
        api::RecordType::Aaaa => records.aaaa = true,
        api::RecordType::Srv => records.srv = true,
        api::RecordType::Cname => records.cname = true,
        _ => {}
    }
    records
}

fn health_check(config: api::HealthCheckConfig) -> HealthCheck {
    HealthCheck {
        kind: config.r#type.as_str().to_owned(),
        path: config.resource_path,
        threshold: config.failure_threshold,
    }
}

/// The largest `MaxResults` of DiscoverInstances, which has no pagination. A service cannot have more instances.
const MAX_RESULTS: u16 = 1000;

/// The health of discovered instances, by instance id.
pub type Discovered = BTreeMap<String, String>;

/// Removes the prefix `data-`, which the SDK adds to the host of a discovery request, from an IP address or
/// `localhost`: a host with the prefix could not be resolved.
#[derive(Debug)]
pub struct StripDataPrefix;

impl Intercept for StripDataPrefix {
    fn name(&self) -> &'static str {
        "StripDataPrefix"
    }

    fn modify_before_signing(
        &self,
        context: &mut interceptors::BeforeTransmitInterceptorContextMut<'_>,
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

/// Returns the URI without the prefix, or `None` unless an IPv4 address or `localhost` follows the prefix.
fn without_prefix(uri: &str) -> Option<String> {
    let parsed: http::Uri = uri.parse().ok()?;
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
