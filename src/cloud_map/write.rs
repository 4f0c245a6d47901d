//! One change, one call. What is returned is what Cloud Map said; whether a call may be made was
//! decided in the plan.

use aws_sdk_servicediscovery::error::SdkError;
use aws_sdk_servicediscovery::operation::deregister_instance::DeregisterInstanceError;
use aws_sdk_servicediscovery::operation::register_instance::RegisterInstanceError;
use aws_sdk_servicediscovery::types::{
    DnsConfig, DnsRecord, RecordType, RoutingPolicy, ServiceTypeOption, Tag,
};

use super::{CloudMap, Error, Permit};
use crate::model::{Attributes, NamespaceKind, Records, ServiceKind};
use crate::plan::{NewService, Place};

/// The tag on services that we create; its value is the owner's id.
pub const OWNER_TAG: &str = "cloud-map-sync/owner";

/// What Cloud Map does with a registration or deregistration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It carries it out as this operation.
    Operation(String),
    /// Another operation on the same instance is under way.
    Busy(String),
}

impl CloudMap {
    /// Creates a service and returns its ARN.
    ///
    /// # Errors
    /// Of class [`super::Class::Exists`] where somebody else was faster.
    pub async fn create_service(
        &self,
        _permit: Permit<'_>,
        place: &Place,
        service: &NewService,
        owner: &str,
    ) -> Result<String, Error> {
        let failed = || format!("create the Cloud Map service {place}");
        let tag = Tag::builder().key(OWNER_TAG).value(owner).build();
        let tag = tag.map_err(|error| Error::input(failed(), &error))?;
        let request = self
            .client
            .create_service()
            .name(service.name.as_str())
            .namespace_id(&service.namespace.arn)
            .description(format!("cloud-map-sync: created for {owner}"))
            .tags(tag);
        let request = match (service.kind, service.namespace.kind) {
            (ServiceKind::Dns(records), _) => request.dns_config(
                dns_config(records, service.ttl).map_err(|error| Error::input(failed(), &error))?,
            ),
            (ServiceKind::Http, NamespaceKind::Dns) => request.r#type(ServiceTypeOption::Http),
            (ServiceKind::Http, NamespaceKind::Http) => request,
        };
        let created = request.send().await.map_err(|error| Error::new(failed(), &error))?;
        let arn = created.service.and_then(|service| service.arn);
        arn.ok_or_else(|| Error::input(failed(), &"Cloud Map returned no ARN"))
    }

    /// Registers an instance, or replaces all attributes of the one that has the id.
    ///
    /// # Errors
    /// What Cloud Map refuses; an operation under way is none.
    pub async fn register(
        &self,
        _permit: Permit<'_>,
        service: &str,
        place: &Place,
        instance: &str,
        attributes: &Attributes,
    ) -> Result<Accepted, Error> {
        let request = self.client.register_instance().service_id(service).instance_id(instance);
        let attributes = attributes.clone().into_iter().collect();
        let answer = request.set_attributes(Some(attributes)).send().await;
        let action = || format!("register {instance} in {place}");
        match answer {
            Ok(accepted) => operation(accepted.operation_id, action),
            Err(error) => match duplicate_register(&error) {
                Some(operation) => Ok(Accepted::Busy(operation)),
                None => Err(Error::new(action(), &error)),
            },
        }
    }

    /// Takes an instance out.
    ///
    /// # Errors
    /// What Cloud Map refuses; an operation under way is none.
    pub async fn deregister(
        &self,
        _permit: Permit<'_>,
        service: &str,
        place: &Place,
        instance: &str,
    ) -> Result<Accepted, Error> {
        let request = self.client.deregister_instance().service_id(service).instance_id(instance);
        let answer = request.send().await;
        let action = || format!("deregister {instance} from {place}");
        match answer {
            Ok(accepted) => operation(accepted.operation_id, action),
            Err(error) => match duplicate_deregister(&error) {
                Some(operation) => Ok(Accepted::Busy(operation)),
                None => Err(Error::new(action(), &error)),
            },
        }
    }
}

fn operation(id: Option<String>, action: impl Fn() -> String) -> Result<Accepted, Error> {
    let id = id.ok_or_else(|| Error::input(action(), &"Cloud Map returned no operation"))?;
    Ok(Accepted::Operation(id))
}

fn duplicate_register<R>(error: &SdkError<RegisterInstanceError, R>) -> Option<String> {
    match error.as_service_error()? {
        RegisterInstanceError::DuplicateRequest(duplicate) => {
            duplicate.duplicate_operation_id().map(str::to_owned)
        }
        _ => None,
    }
}

fn duplicate_deregister<R>(error: &SdkError<DeregisterInstanceError, R>) -> Option<String> {
    match error.as_service_error()? {
        DeregisterInstanceError::DuplicateRequest(duplicate) => {
            duplicate.duplicate_operation_id().map(str::to_owned)
        }
        _ => None,
    }
}

fn dns_config(
    records: Records,
    ttl: u32,
) -> Result<DnsConfig, aws_sdk_servicediscovery::error::BuildError> {
    let types = [
        (records.a, RecordType::A),
        (records.aaaa, RecordType::Aaaa),
        (records.srv, RecordType::Srv),
        (records.cname, RecordType::Cname),
    ];
    let types = types.into_iter().filter_map(|(set, record)| set.then_some(record));
    let records =
        types.map(|record| DnsRecord::builder().r#type(record).ttl(i64::from(ttl)).build());
    let records = records.collect::<Result<Vec<_>, _>>()?;
    DnsConfig::builder()
        .routing_policy(RoutingPolicy::Multivalue)
        .set_dns_records(Some(records))
        .build()
}
