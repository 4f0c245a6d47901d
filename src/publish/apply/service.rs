//! The calls that create or change a Cloud Map service and the namespace that it needs, and the effects of their
//! answers on the change.

use super::TurnCalls;
use super::change::{failed, held_back};
use crate::cloud_map::write::Accepted;
use crate::cloud_map::{Class, Permit};
use crate::model::{NewService, Place, ServiceUpdate};
use crate::publish::passes::{Effect, NO_TIME, Outcome};
use crate::publish::plan::Reason;

impl TurnCalls<'_> {
    /// The ARN of a namespace that was missing. All Services that need it share the result of its creation.
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
            _ => failed(&error),
        })
    }

    pub(super) async fn create(
        &self,
        permit: Permit<'_>,
        place: &Place,
        service: &NewService,
    ) -> Effect {
        let owner = &self.turn.observation().owner.id;
        let NewService { namespace, .. } = service;
        let created = || self.calls.new_namespaces.arn(&namespace.name);
        let Some(arn) = namespace.arn.clone().or_else(created) else {
            return Effect::Is(Outcome::Undone(
                "its Cloud Map namespace does not exist".to_owned(),
            ));
        };
        match self.calls.cloud_map.create_service(permit, place, service, &arn, owner).await {
            Ok(arn) => Effect::Created(arn),
            Err(error) => match error.class {
                Class::Exists => Effect::Contested,
                Class::LimitExceeded => held_back(Reason::QuotaExceeded(error.in_full())),
                Class::Invalid => held_back(Reason::InvalidInput(error.in_full())),
                _ => failed(&error),
            },
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
}
