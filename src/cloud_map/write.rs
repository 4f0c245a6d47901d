//! Registers or deregisters an instance, and creates or updates a service: one call each, whose result is returned.
//! Creates a missing HTTP namespace and waits for it; Services that need the same namespace share the result. The plan
//! has already decided whether the call may be made.

use std::error::Error as StdError;
use std::fmt::Debug;
use std::sync::Arc;

use aws_sdk_servicediscovery::error::{BuildError, ProvideErrorMetadata, SdkError};
use aws_sdk_servicediscovery::types as api;
use aws_sdk_servicediscovery::types::error::{
    DuplicateRequest, NamespaceAlreadyExists, ServiceAlreadyExists,
};
use tokio::time::Instant;

use super::{Call, CallSlot, CloudMap, EnsuredNamespaces, Error, WaitResult};
use crate::model::{
    Attributes, HealthCheck, NamespaceKind, NewService, Place, Records, ServiceKind, ServiceUpdate,
    description,
};

/// The operation that a call started, or that blocks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The id of the operation that this call started.
    Operation(String),
    /// The id of another operation on the same object, which is under way.
    Busy(String),
}

impl CloudMap {
    /// Registers an instance, or replaces all attributes of an existing one with this id.
    ///
    /// # Errors
    /// Returns an error if Cloud Map refuses the call; an operation that is under way is no error.
    pub async fn register(
        &self,
        _slot: CallSlot<'_>,
        service: &str,
        place: &Place,
        instance: &str,
        attributes: &Attributes,
    ) -> Result<Accepted, Error> {
        let request = self.client.register_instance().service_id(service).instance_id(instance);
        let owned = attributes.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        let answer = request.set_attributes(Some(owned.collect())).send().await;
        let action = || format!("register {instance} in {place}");
        accepted(answer.map(|output| output.operation_id), action)
    }

    /// # Errors
    /// Returns an error if Cloud Map refuses the call; an operation that is under way is no error.
    pub async fn deregister(
        &self,
        _slot: CallSlot<'_>,
        service: &str,
        place: &Place,
        instance: &str,
    ) -> Result<Accepted, Error> {
        let request = self.client.deregister_instance().service_id(service).instance_id(instance);
        let answer = request.send().await;
        let action = || format!("deregister {instance} from {place}");
        accepted(answer.map(|output| output.operation_id), action)
    }

    /// Creates a service in the namespace with the ARN `namespace`.
    ///
    /// # Errors
    /// Returns an error if the call fails, unless the service already exists.
    pub async fn create_service(
        &self,
        _slot: CallSlot<'_>,
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
            (ServiceKind::Http, NamespaceKind::Dns) => request.r#type(api::ServiceTypeOption::Http),
            (ServiceKind::Http, NamespaceKind::Http) => request,
        };
        match request.send().await {
            Ok(created) => {
                let arn = created.service.and_then(|service| service.arn);
                let arn = arn.ok_or_else(|| Error::input(failed(), &"Cloud Map returned no ARN"));
                arn.map(NewServiceId::Created)
            }
            Err(error) => match refusal(&error) {
                Some(ServiceAlreadyExists { service_id, .. }) => {
                    Ok(NewServiceId::Exists(service_id.clone()))
                }
                None => Err(Error::new(failed(), &error)),
            },
        }
    }

    /// Changes the TTL of a service's records. Cloud Map deletes every setting that the call omits, so all settings are
    /// sent again. Only `HealthCheckCustomConfig` is not part of the call and stays.
    ///
    /// # Errors
    /// Returns an error if Cloud Map refuses the call; an operation that is under way is no error.
    pub async fn update_service(
        &self,
        _slot: CallSlot<'_>,
        arn: &str,
        place: &Place,
        update: &ServiceUpdate,
    ) -> Result<Accepted, Error> {
        let action = || format!("update the Cloud Map service {place}");
        let change = service_change(update).map_err(|error| Error::input(action(), &error))?;
        let answer = self.client.update_service().id(arn).service(change).send().await;
        accepted(answer.map(|output| output.operation_id), action)
    }

    /// Returns the id of the HTTP namespace `name`. Creates the namespace if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the namespace could not be created or found before `until`. The error's class is
    /// [`super::Class::NotFound`] if the namespace is being deleted.
    pub async fn ensure_namespace(
        &self,
        created: &EnsuredNamespaces,
        name: &str,
        owner: &str,
        until: Instant,
    ) -> Result<String, Arc<Error>> {
        let cell = created.cell(name);
        let create = || async { self.create_namespace(name, owner, until).await.map_err(Arc::new) };
        cell.get_or_init(create).await.clone()
    }

    /// Creates the namespace. Its id comes from the operation or from the refusal, since a list may not show it yet. A
    /// refusal has the id of another client's operation, which may have ended, or the id of the namespace with this
    /// name, which may be in deletion. A namespace of another client is read, since it may be of another type or
    /// deleted.
    async fn create_namespace(
        &self,
        name: &str,
        owner: &str,
        until: Instant,
    ) -> Result<String, Error> {
        let slot = self.acquire(Call::CreateHttpNamespace).await;
        let tags = self.new_tags(owner).map_err(|error| Error::input(creation_of(name), &error))?;
        let request = self.client.create_http_namespace().name(name).set_tags(Some(tags));
        let answer = request.description(description(owner)).send().await;
        drop(slot);
        let error = match answer {
            Ok(accepted) => {
                let missing = || Error::missing_member(creation_of(name), "OperationId");
                let operation = accepted.operation_id.ok_or_else(missing)?;
                return self.created_by(&operation, name, until).await;
            }
            Err(error) => error,
        };
        let other_id = match (duplicate_of(&error), refusal(&error)) {
            (Some(operation), _) => self.created_by(operation, name, until).await?,
            (None, Some(NamespaceAlreadyExists { namespace_id: Some(id), .. })) => id.clone(),
            _ => return Err(Error::new(creation_of(name), &error)),
        };
        self.http_namespace(other_id, name).await
    }

    /// Waits for an operation and returns the id of the namespace that it created.
    async fn created_by(
        &self,
        operation: &str,
        name: &str,
        until: Instant,
    ) -> Result<String, Error> {
        let kind = (Call::CreateHttpNamespace, NamespaceKind::Http);
        let problem = match self.wait(operation, kind, None, until).await? {
            WaitResult::Success { namespace: Some(id) } => return Ok(id),
            WaitResult::Success { namespace: None } => {
                return Err(Error::missing_member(creation_of(name), "Targets"));
            }
            WaitResult::Fail { code, message } => format!("{code}: {message}"),
            WaitResult::Pending => "the operation has not ended in time".to_owned(),
        };
        Err(Error::input(creation_of(name), &problem))
    }

    /// Returns the id of a namespace that another client created, if its type is HTTP.
    async fn http_namespace(&self, id: String, name: &str) -> Result<String, Error> {
        let _slot = self.acquire(Call::GetNamespace).await;
        let read = self.client.get_namespace().id(&id).send().await;
        let action_of_read = || format!("read the Cloud Map namespace {name} ({id})");
        let read = read.map_err(|error| Error::new(action_of_read(), &error))?;
        match read.namespace.and_then(|namespace| namespace.r#type) {
            Some(api::NamespaceType::Http) => Ok(id),
            Some(_) => Err(Error::input(
                creation_of(name),
                &format!(
                    "{id} is a DNS namespace of that name since a moment ago, which the next run uses"
                ),
            )),
            None => Err(Error::missing_member(action_of_read(), "Namespace")),
        }
    }
}

fn creation_of(namespace: &str) -> String {
    format!("create the Cloud Map namespace {namespace}")
}

/// Returns the operation that Cloud Map started, or the operation that blocks it.
fn accepted<E, R>(
    answer: Result<Option<String>, SdkError<E, R>>,
    action: impl Fn() -> String,
) -> Result<Accepted, Error>
where
    E: StdError + ProvideErrorMetadata + Send + Sync + 'static,
    R: Debug + Send + Sync + 'static,
{
    match answer {
        Ok(Some(operation)) => Ok(Accepted::Operation(operation)),
        Ok(None) => Err(Error::input(action(), &"Cloud Map returned no operation")),
        Err(error) => match duplicate_of(&error) {
            Some(operation) => Ok(Accepted::Busy(operation.to_owned())),
            None => Err(Error::new(action(), &error)),
        },
    }
}

/// Returns the operation on the same object that a refusal names.
fn duplicate_of<E: StdError + 'static, R>(error: &SdkError<E, R>) -> Option<&str> {
    refusal(error).and_then(DuplicateRequest::duplicate_operation_id)
}

/// Returns the refusal of type `T`, which is the source of the call's error.
fn refusal<T: StdError + 'static, E: StdError + 'static, R>(error: &SdkError<E, R>) -> Option<&T> {
    error.as_service_error()?.source()?.downcast_ref()
}

/// The result of the creation of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewServiceId {
    /// The service was created; its ARN.
    Created(String),
    /// Another client created the service first; its id, if Cloud Map returned it.
    Exists(Option<String>),
}

fn service_change(update: &ServiceUpdate) -> Result<api::ServiceChange, BuildError> {
    let records = dns_records(update.records, update.ttl)?;
    let dns = api::DnsConfigChange::builder().set_dns_records(Some(records)).build()?;
    let check = update.health_check.as_ref().map(health_check).transpose()?;
    let change = api::ServiceChange::builder().set_description(update.description.clone());
    Ok(change.dns_config(dns).set_health_check_config(check).build())
}

fn health_check(check: &HealthCheck) -> Result<api::HealthCheckConfig, BuildError> {
    api::HealthCheckConfig::builder()
        .r#type(api::HealthCheckType::from(check.kind.as_str()))
        .set_resource_path(check.path.clone())
        .set_failure_threshold(check.threshold)
        .build()
}

fn dns_config(records: Records, service: &NewService) -> Result<api::DnsConfig, BuildError> {
    api::DnsConfig::builder()
        .routing_policy(api::RoutingPolicy::from(service.routing_policy.as_str()))
        .set_dns_records(Some(dns_records(records, service.ttl)?))
        .build()
}

fn dns_records(records: Records, ttl: u32) -> Result<Vec<api::DnsRecord>, BuildError> {
    let types = [
        (records.a, api::RecordType::A),
        (records.aaaa, api::RecordType::Aaaa),
        (records.srv, api::RecordType::Srv),
        (records.cname, api::RecordType::Cname),
    ];
    let types = types.into_iter().filter_map(|(set, record)| set.then_some(record));
    types
        .map(|record| api::DnsRecord::builder().r#type(record).ttl(i64::from(ttl)).build())
        .collect()
}
