//! Registers and deregisters an instance; creates, updates and deletes a service: one call each, whose result is returned.
//! The plan has decided whether the call may be made.

use std::fmt::Debug;

use aws_sdk_servicediscovery::error::{BuildError, ProvideErrorMetadata, SdkError};
use aws_sdk_servicediscovery::operation::create_service::CreateServiceError;
use aws_sdk_servicediscovery::operation::deregister_instance::DeregisterInstanceError;
use aws_sdk_servicediscovery::operation::register_instance::RegisterInstanceError;
use aws_sdk_servicediscovery::operation::update_service::UpdateServiceError;
use aws_sdk_servicediscovery::types::{
    DnsConfig, DnsConfigChange, DnsRecord, HealthCheckConfig, HealthCheckCustomConfig,
    HealthCheckType, RecordType, RoutingPolicy as ApiPolicy, ServiceChange, ServiceTypeOption,
};

use super::{CloudMap, Error, Permit};
use crate::model::{
    Attributes, HealthCheck, NamespaceKind, NewService, Place, Records, ServiceKind, ServiceUpdate,
    description,
};

/// The id of the operation that a call returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The operation of this call.
    Operation(String),
    /// Another operation on the same object is under way.
    Busy(String),
}

impl CloudMap {
    /// Registers an instance, or replaces all attributes of an existing one with this id.
    ///
    /// # Errors
    /// Returns an error if Cloud Map refuses the call; an operation that is under way is no error.
    pub async fn register(
        &self,
        _permit: Permit<'_>,
        service: &str,
        place: &Place,
        instance: &str,
        attributes: &Attributes,
    ) -> Result<Accepted, Error> {
        let request = self.client.register_instance().service_id(service).instance_id(instance);
        self.reported.forget(service, instance);
        let owned = attributes.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        let answer = request.set_attributes(Some(owned.collect())).send().await;
        let duplicate = |error: &RegisterInstanceError| match error {
            RegisterInstanceError::DuplicateRequest(it) => it.duplicate_operation_id.clone(),
            _ => None,
        };
        let action = || format!("register {instance} in {place}");
        accepted(answer.map(|it| it.operation_id), duplicate, action)
    }

    /// # Errors
    /// Returns an error if Cloud Map refuses the call; an operation that is under way is no error.
    pub async fn deregister(
        &self,
        _permit: Permit<'_>,
        service: &str,
        place: &Place,
        instance: &str,
    ) -> Result<Accepted, Error> {
        let request = self.client.deregister_instance().service_id(service).instance_id(instance);
        let answer = request.send().await;
        let duplicate = |error: &DeregisterInstanceError| match error {
            DeregisterInstanceError::DuplicateRequest(it) => it.duplicate_operation_id.clone(),
            _ => None,
        };
        let action = || format!("deregister {instance} from {place}");
        accepted(answer.map(|it| it.operation_id), duplicate, action)
    }

    /// Creates a service in the namespace with the ARN `namespace`.
    ///
    /// # Errors
    /// Returns an error if Cloud Map refuses it for another reason than that it exists.
    pub async fn create_service(
        &self,
        _permit: Permit<'_>,
        place: &Place,
        service: &NewService,
        namespace: &str,
        owner: &str,
    ) -> Result<NewServiceId, Error> {
        let failed = || format!("create the Cloud Map service {place}");
        let tags = self.new_tags(owner).map_err(|error| Error::input(failed(), &error))?;
        let request = self
            .client
            .create_service()
            .name(service.name.as_str())
            .namespace_id(namespace)
            .description(description(owner))
            .set_tags(Some(tags));
        let request = match (service.kind, service.namespace.kind) {
            (ServiceKind::Dns(records), _) => request.dns_config(
                dns_config(records, service).map_err(|error| Error::input(failed(), &error))?,
            ),
            (ServiceKind::Http, NamespaceKind::Dns) => request.r#type(ServiceTypeOption::Http),
            (ServiceKind::Http, NamespaceKind::Http) => request,
        };
        let check = service.custom_health.then(|| HealthCheckCustomConfig::builder().build());
        let request = request.set_health_check_custom_config(check);
        match request.send().await {
            Ok(created) => {
                let arn = created.service.and_then(|service| service.arn);
                let arn = arn.ok_or_else(|| Error::input(failed(), &"Cloud Map returned no ARN"));
                arn.map(NewServiceId::Created)
            }
            Err(error) => match error.as_service_error() {
                Some(CreateServiceError::ServiceAlreadyExists(exists)) => {
                    Ok(NewServiceId::Exists(exists.service_id.clone()))
                }
                _ => Err(Error::new(failed(), &error)),
            },
        }
    }

    /// Changes the TTL of a service's records. Cloud Map deletes every setting that such a call leaves out, so all
    /// settings are sent again. Only `HealthCheckCustomConfig` is no part of the call, and stays.
    ///
    /// # Errors
    /// Returns an error if Cloud Map refuses the call; an operation that is under way is no error.
    pub async fn update_service(
        &self,
        _permit: Permit<'_>,
        arn: &str,
        place: &Place,
        update: &ServiceUpdate,
    ) -> Result<Accepted, Error> {
        let action = || format!("update the Cloud Map service {place}");
        let change = service_change(update).map_err(|error| Error::input(action(), &error))?;
        let answer = self.client.update_service().id(arn).service(change).send().await;
        let duplicate = |error: &UpdateServiceError| match error {
            UpdateServiceError::DuplicateRequest(it) => it.duplicate_operation_id.clone(),
            _ => None,
        };
        accepted(answer.map(|it| it.operation_id), duplicate, action)
    }

    /// # Errors
    /// Returns an error of class [`super::Class::InUse`] if another client has registered an instance meanwhile.
    pub async fn delete_service(
        &self,
        _permit: Permit<'_>,
        arn: &str,
        place: &Place,
    ) -> Result<(), Error> {
        let deleted = self.client.delete_service().id(arn).send().await;
        let action = || format!("delete the Cloud Map service {place}");
        deleted.map(|_| ()).map_err(|error| Error::new(action(), &error))
    }
}

/// The operation that Cloud Map began, or the one that is in its way.
fn accepted<E, R>(
    answer: Result<Option<String>, SdkError<E, R>>,
    duplicate: impl Fn(&E) -> Option<String>,
    action: impl Fn() -> String,
) -> Result<Accepted, Error>
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
    R: Debug + Send + Sync + 'static,
{
    match answer {
        Ok(Some(operation)) => Ok(Accepted::Operation(operation)),
        Ok(None) => Err(Error::input(action(), &"Cloud Map returned no operation")),
        Err(error) => match error.as_service_error().and_then(duplicate) {
            Some(operation) => Ok(Accepted::Busy(operation)),
            None => Err(Error::new(action(), &error)),
        },
    }
}

/// The answer to the creation of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewServiceId {
    /// Its ARN.
    Created(String),
    /// Another client created it first; its id, if Cloud Map names it.
    Exists(Option<String>),
}

fn service_change(update: &ServiceUpdate) -> Result<ServiceChange, BuildError> {
    let records = dns_records(update.records, update.ttl)?;
    let dns = DnsConfigChange::builder().set_dns_records(Some(records)).build()?;
    let check = update.health_check.as_ref().map(health_check).transpose()?;
    let change = ServiceChange::builder().set_description(update.description.clone());
    Ok(change.dns_config(dns).set_health_check_config(check).build())
}

fn health_check(check: &HealthCheck) -> Result<HealthCheckConfig, BuildError> {
    HealthCheckConfig::builder()
        .r#type(HealthCheckType::from(check.kind.as_str()))
        .set_resource_path(check.path.clone())
        .set_failure_threshold(check.threshold)
        .build()
}

fn dns_config(records: Records, service: &NewService) -> Result<DnsConfig, BuildError> {
    DnsConfig::builder()
        .routing_policy(ApiPolicy::from(service.routing_policy.as_str()))
        .set_dns_records(Some(dns_records(records, service.ttl)?))
        .build()
}

fn dns_records(records: Records, ttl: u32) -> Result<Vec<DnsRecord>, BuildError> {
    let types = [
        (records.a, RecordType::A),
        (records.aaaa, RecordType::Aaaa),
        (records.srv, RecordType::Srv),
        (records.cname, RecordType::Cname),
    ];
    let types = types.into_iter().filter_map(|(set, record)| set.then_some(record));
    types.map(|record| DnsRecord::builder().r#type(record).ttl(i64::from(ttl)).build()).collect()
}
