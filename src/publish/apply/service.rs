//! The calls that create or change a Cloud Map service and the namespace that it needs, and the effects of their
//! answers on the change.

use std::cell::Cell;

use tokio::time::timeout_at;

use super::change::{failed, held_back};
use super::{Calls, TurnCalls};
use crate::cloud_map::new_service::Created;
use crate::cloud_map::write::Accepted;
use crate::cloud_map::{Call, Class, Permit};
use crate::model::{NewService, Place, ServiceUpdate};
use crate::publish::passes::{Effect, NO_TIME, Outcome};
use crate::publish::plan::Reason;

impl TurnCalls<'_> {
    /// The reference of a namespace that was missing. All Services that need it share the result of its creation.
    pub(super) async fn namespace(&self, name: &str) -> Result<String, Effect> {
        let deadline = self.calls.deadline;
        if !deadline.is_open() {
            return Err(Effect::Is(Outcome::Undone(NO_TIME.to_owned())));
        }
        let (created, owner) = (self.calls.new_namespaces, &self.turn.observation().owner.id);
        let arn =
            self.calls.cloud_map.ensure_namespace(created, name, owner, deadline.stop()).await;
        arn.map_err(|error| match error.class {
            Class::LimitExceeded => held_back(Reason::QuotaExceeded(error.in_full())),
            Class::NotFound => held_back(Reason::NamespaceInDeletion(name.to_owned())),
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
            return Effect::Is(Outcome::Undone(
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
        let Calls { cloud_map, deadline, .. } = self.calls;
        let permit = match timeout_at(deadline.stop(), cloud_map.permit(Call::CreateService)).await
        {
            Ok(permit) if deadline.is_open() => permit,
            _ => return Err(Effect::Is(Outcome::Undone(NO_TIME.to_owned()))),
        };
        let owner = &self.turn.observation().owner.id;
        let created = cloud_map.create_service(permit, place, service, namespace, owner).await;
        created.map_err(|error| match error.class {
            Class::Exists => Effect::Contested,
            Class::LimitExceeded => held_back(Reason::QuotaExceeded(error.in_full())),
            Class::Invalid => held_back(Reason::InvalidInput(error.in_full())),
            _ => failed(&error),
        })
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
