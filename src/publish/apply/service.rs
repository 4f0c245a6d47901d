//! The calls that create a Cloud Map service and the namespace that it needs, or delete a service, and the effects of their
//! answers.

use std::cell::Cell;

use super::change::failed;
use super::{Calls, TurnCalls};
use crate::cloud_map::{Call, Class, CloudMap, Created, NewServiceId};
use crate::model::{NewService, Outcome, Place};
use crate::publish::passes::Effect;
use crate::publish::plan::Reason;
use crate::time::Deadline;

impl TurnCalls<'_> {
    /// The reference of a namespace that was missing. All Services that need it share the result of its creation.
    pub(super) async fn namespace(&self, name: &str) -> Result<String, Effect> {
        let deadline = self.calls.deadline;
        if !deadline.is_open() {
            return Err(Effect::Is(Outcome::out_of_time()));
        }
        let (created, owner) = (&self.calls.results.namespaces, &self.turn.observation.owner.id);
        let arn = self.calls.cloud_map.ensure_namespace(created, name, owner, deadline.stop).await;
        arn.map_err(|error| match error.class {
            Class::LimitExceeded => Effect::HeldBack(Reason::QuotaExceeded(error.in_full())),
            Class::NotFound => Effect::HeldBack(Reason::NamespaceInDeletion(name.to_owned())),
            _ => failed(&error),
        })
    }

    /// Creates a service, unless another turn of this invocation has created it since the read that the change rests on.
    pub(super) async fn create(&self, place: &Place, service: &NewService) -> Effect {
        let Calls { results, observed, .. } = self.calls;
        let owner = &self.turn.observation.owner.id;
        let NewService { namespace, name, .. } = service;
        let created = || results.namespaces.reference(&namespace.name);
        let Some(arn) = namespace.arn.clone().or_else(created) else {
            return Effect::Is(Outcome::undone(
                "its Cloud Map namespace does not exist".to_owned(),
            ));
        };
        let is_own = Cell::new(false);
        let creation = results.services.creation(&arn, name, owner, observed);
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
        let Calls { cloud_map, results, deadline, .. } = self.calls;
        let permit = match deadline.until_stop(cloud_map.permit(Call::CreateService)).await {
            Ok(permit) if deadline.is_open() => permit,
            _ => return Err(Effect::Is(Outcome::out_of_time())),
        };
        let owner = &self.turn.observation.owner.id;
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
                    results.services.note_existing(&place.key, id);
                }
                Err(Effect::Contested)
            }
        }
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
    let permit = match deadline.until_stop(cloud_map.permit(Call::DeleteService)).await {
        Ok(permit) if deadline.is_open() => permit,
        _ => return Ok(Outcome::out_of_time()),
    };
    let deleted = deadline.until_end(cloud_map.delete_service(permit, arn, place)).await;
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
