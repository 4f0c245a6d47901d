//! Converts the summaries of Cloud Map's lists into the namespaces and services of the model. A summary without the
//! fields that identify it is dropped.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_servicediscovery::types::{
    DnsConfig, DnsRecord, HealthCheckConfig, NamespaceSummary, NamespaceType, RecordType,
    RoutingPolicy as ApiPolicy, ServiceSummary,
};

use super::read::{ListedNamespace, ListedService};
use crate::model::{
    CloudMapService, HealthCheck, KnownHealth, Namespace, NamespaceKind, Records, RoutingPolicy,
    ServiceAttributes, ServiceKind, Tags,
};

/// Returns `None` if the summary has no id, ARN or name.
pub(super) fn namespace(summary: NamespaceSummary) -> Option<ListedNamespace> {
    let services = summary.service_count.and_then(|count| count.try_into().ok());
    let kind = match summary.r#type {
        Some(NamespaceType::Http) => NamespaceKind::Http,
        _ => NamespaceKind::Dns,
    };
    let http = summary.properties.and_then(|properties| properties.http_properties);
    let namespace = Namespace {
        http_name: http.and_then(|http| http.http_name),
        id: summary.id?,
        arn: Some(summary.arn?),
        name: summary.name?,
        kind,
        owner: summary.resource_owner,
    };
    Some(ListedNamespace { namespace, services })
}

/// A service with the account of its namespace; `None` if the summary has no ARN or name.
pub(super) fn owned_service(mut summary: ServiceSummary) -> Option<ListedService> {
    let owner = summary.resource_owner.take();
    service(summary).map(|service| ListedService { owner, service })
}

/// A service whose instances, health and tags are unread; `None` if the summary has no ARN or name.
pub(super) fn service(summary: ServiceSummary) -> Option<CloudMapService> {
    let listed = || summary.dns_config.iter().flat_map(DnsConfig::dns_records);
    let records = listed().map(DnsRecord::r#type).fold(Records::default(), with_record);
    let is_http = records == Records::default();
    let ttls = listed().filter_map(|record| record.ttl().try_into().ok());
    let policy = summary.dns_config.as_ref().and_then(DnsConfig::routing_policy);
    Some(CloudMapService {
        kind: if is_http { ServiceKind::Http } else { ServiceKind::Dns(records) },
        ttls: ttls.collect(),
        ttls_asked: BTreeMap::new(),
        routing_policy: policy.and_then(routing_policy),
        health_check: summary.health_check_config.map(health_check),
        arn: summary.arn?,
        name: summary.name?,
        description: summary.description,
        instance_count: summary.instance_count.and_then(|count| count.try_into().ok()).unwrap_or(0),
        instances: None,
        created_by: summary.created_by_account,
        registered_by: BTreeSet::new(),
        unreadable: None,
        is_denied: false,
        was_ours: false,
        custom_health: summary.health_check_custom_config.is_some(),
        health: KnownHealth::Unread,
        tags: Tags::Unread,
        attributes: ServiceAttributes::Unread,
    })
}

fn with_record(mut records: Records, kind: &RecordType) -> Records {
    match kind {
        RecordType::A => records.a = true,
        RecordType::Aaaa => records.aaaa = true,
        RecordType::Srv => records.srv = true,
        RecordType::Cname => records.cname = true,
        _ => {}
    }
    records
}

fn routing_policy(policy: &ApiPolicy) -> Option<RoutingPolicy> {
    match policy {
        ApiPolicy::Multivalue => Some(RoutingPolicy::Multivalue),
        ApiPolicy::Weighted => Some(RoutingPolicy::Weighted),
        _ => None,
    }
}

fn health_check(config: HealthCheckConfig) -> HealthCheck {
    HealthCheck {
        kind: config.r#type.as_str().to_owned(),
        path: config.resource_path,
        threshold: config.failure_threshold,
    }
}
