//! The calls that create, change or delete a Cloud Map service, create the namespace that it needs, or change an instance,
//! and the effects of their answers on the change.

use std::cell::Cell;

use tokio::time::timeout_at;

use super::change::failed;
use super::{Calls, TurnCalls};
use crate::cloud_map::new_service::Created;
use crate::cloud_map::service::NewServiceId;
use crate::cloud_map::write::Accepted;
use crate::cloud_map::{Call, Class, CloudMap, Permit};
use crate::model::{Attributes, Health, NewService, Outcome, Place, ServiceUpdate};
use crate::publish::passes::{Effect, NO_TIME};
use crate::publish::plan::{NotAdopted, Reason};
use crate::time::Deadline;

impl TurnCalls<'_> {
    /// The reference of a namespace that was missing. All Services that need it share the result of its creation.
    pub(super) async fn namespace(&self, name: &str) -> Result<String, Effect> {
        let deadline = self.calls.deadline;
        if !deadline.is_open() {
            return Err(Effect::Is(Outcome::undone(NO_TIME)));
        }
        let (created, owner) = (self.calls.new_namespaces, &self.turn.observation().owner.id);
        let arn =
            self.calls.cloud_map.ensure_namespace(created, name, owner, deadline.stop()).await;
        arn.map_err(|error| match error.class {
            Class::LimitExceeded => Effect::HeldBack(Reason::QuotaExceeded(error.in_full())),
            Class::NotFound => Effect::HeldBack(Reason::NamespaceInDeletion(name.to_owned())),
            _ => failed(&error),
        })
    }

    /// Creates a service, unless another turn of this invocation has created it since the read that the change rests on.
    pub(super) async fn create(&self, place: &Place, service: &NewService) -> Effect {
        let Calls { new_namespaces, new_services, observed, .. } = self.calls;
        let owner = &self.turn.observation().owner.id;
        let NewService { namespace, name, .. } = service;
        let created = || new_namespaces.reference(&namespace.name);
        let Some(arn) = namespace.arn.clone().or_else(created) else {
            return Effect::Is(Outcome::undone(
                "its Cloud Map namespace does not exist".to_owned(),
            ));
        };
        let is_own = Cell::new(false);
        let creation = new_services.creation(&arn, name, owner, observed);
        let created = creation.get_or_try_init(|| async {
            is_own.set(true);
            self.call_create(place, service, &arn).await.map(|arn| Created::now(arn, service))
        });
        match created.await {
            Ok(created) if is_own.get() => Effect::Created(created.arn.clone()),
            Ok(created) if created.is_as(service) => Effect::Exists(created.arn.clone()),
            Ok(_) => Effect::Contested,
            Err(effect) => effect,
        }
    }

    /// The ARN of the service, or the effect if it was not created.
    async fn call_create(
        &self,
        place: &Place,
        service: &NewService,
        namespace: &str,
    ) -> Result<String, Effect> {
        let Calls { cloud_map, new_services, deadline, .. } = self.calls;
        let permit = match timeout_at(deadline.stop(), cloud_map.permit(Call::CreateService)).await
        {
            Ok(permit) if deadline.is_open() => permit,
            _ => return Err(Effect::Is(Outcome::undone(NO_TIME))),
        };
        let owner = &self.turn.observation().owner.id;
        let created = cloud_map.create_service(permit, place, service, namespace, owner).await;
        let created = created.map_err(|error| match error.class {
            Class::LimitExceeded => Effect::HeldBack(Reason::QuotaExceeded(error.in_full())),
            Class::Invalid => Effect::HeldBack(Reason::InvalidInput(error.in_full())),
            _ => failed(&error),
        });
        match created? {
            NewServiceId::Created(arn) => Ok(arn),
            NewServiceId::Exists(id) => {
                if let Some(id) = id {
                    new_services.note_existing(&place.key, id);
                }
                Err(Effect::Contested)
            }
        }
    }

    pub(super) async fn update(
        &self,
        permit: Permit<'_>,
        arn: &str,
        place: &Place,
        update: &ServiceUpdate,
    ) -> Result<Accepted, Effect> {
        let accepted = self.calls.cloud_map.update_service(permit, arn, place, update).await;
        accepted.map_err(|error| failed(&error))
    }

    pub(super) async fn note(
        &self,
        permit: Permit<'_>,
        service: (&str, &Place),
        attribute: &str,
        text: Option<&str>,
    ) -> Effect {
        let cloud_map = self.calls.cloud_map;
        match cloud_map.write_service_attribute(permit, service, attribute, text).await {
            Ok(()) => Effect::Is(Outcome::Applied),
            Err(error) if text.is_none() && error.class == Class::NotFound => {
                Effect::Is(Outcome::Applied)
            }
            Err(error) => failed(&error),
        }
    }
}

impl TurnCalls<'_> {
    pub(super) async fn register(
        &self,
        permit: Permit<'_>,
        arn: &str,
        place: &Place,
        instance: &str,
        attributes: &Attributes,
    ) -> Result<Accepted, Effect> {
        let accepted =
            self.calls.cloud_map.register(permit, arn, place, instance, attributes).await;
        accepted.map_err(|error| {
            let message = error.source.to_string();
            match error.class {
                Class::LimitExceeded => Effect::Full(message),
                Class::Invalid => {
                    let refused = || Reason::InvalidInput(error.in_full());
                    Effect::HeldBack(self.mismatch(place, attributes).unwrap_or_else(refused))
                }
                _ => failed(&error),
            }
        })
    }

    /// Registers over an instance that is not ours, if it is still as the plan saw it. Another writer is not noticed
    /// between that check and the registration: Cloud Map has no compare-and-swap.
    pub(super) async fn adopt(
        &self,
        permit: Permit<'_>,
        arn: &str,
        place: &Place,
        instance: &str,
        (present, attributes): (&Attributes, &Attributes),
    ) -> Result<Accepted, Effect> {
        match self.calls.cloud_map.instance(&permit, arn, place, instance).await {
            Ok(Some(now)) if now == *present => {
                self.register(permit, arn, place, instance, attributes).await
            }
            Ok(_) => {
                let (instance, why) = (instance.to_owned(), NotAdopted::Changed);
                Err(Effect::HeldBack(Reason::NotAdopted { instance, why }))
            }
            Err(error) => Err(failed(&error)),
        }
    }

    /// The only expected refusal of an input: an endpoint of one family in a service with records of both.
    fn mismatch(&self, place: &Place, attributes: &Attributes) -> Option<Reason> {
        let service = self.turn.observation().registry.services.get(&place.key)?;
        Reason::of_one_family(service.kind, attributes)
    }

    pub(super) async fn report_health(
        &self,
        permit: Permit<'_>,
        arn: &str,
        place: &Place,
        instance: &str,
        health: Health,
    ) -> Effect {
        match self.calls.cloud_map.report_health(permit, arn, place, instance, health).await {
            Ok(()) => Effect::Is(Outcome::Applied),
            Err(error) => failed(&error),
        }
    }

    pub(super) async fn deregister(
        &self,
        permit: Permit<'_>,
        arn: &str,
        place: &Place,
        instance: &str,
    ) -> Result<Accepted, Effect> {
        let accepted = self.calls.cloud_map.deregister(permit, arn, place, instance).await;
        accepted.map_err(|error| match error.class {
            // A missing instance is the wanted result. An instance that this run registered is never deregistered in
            // it, so "not found" cannot mean "not visible yet".
            Class::NotFound => Effect::Is(Outcome::Applied),
            _ => failed(&error),
        })
    }
}

/// Deletes a service, and returns the outcome.
///
/// # Errors
/// Returns the reason if it is held back.
pub async fn delete(
    cloud_map: &CloudMap,
    deadline: Deadline,
    arn: &str,
    place: &Place,
) -> Result<Outcome, Reason> {
    let permit = match timeout_at(deadline.stop(), cloud_map.permit(Call::DeleteService)).await {
        Ok(permit) if deadline.is_open() => permit,
        _ => return Ok(Outcome::undone(NO_TIME)),
    };
    let deleted = timeout_at(deadline.end(), cloud_map.delete_service(permit, arn, place)).await;
    Ok(match deleted {
        Ok(Ok(())) => Outcome::Applied,
        // A missing service is the wanted result.
        Ok(Err(error)) if error.class == Class::NotFound => Outcome::Applied,
        Ok(Err(error)) if error.class == Class::InUse => return Err(Reason::ServiceInUse),
        Ok(Err(error)) => Outcome::failed(error.in_full()),
        Err(_) => {
            Outcome::failed(format!("cannot delete {place}: Cloud Map did not answer in time"))
        }
    })
}
