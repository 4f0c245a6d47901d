//! The calls that change a Cloud Map service itself, and what their answers mean for the change.

use super::change::{Effect, failed, held_back};
use super::turn::Turn;
use crate::cloud_map::write::Accepted;
use crate::cloud_map::{Class, Permit};
use crate::plan::{NewService, Place, Reason, ServiceUpdate};

impl Turn<'_> {
    pub(super) async fn create(
        &self,
        permit: Permit<'_>,
        place: &Place,
        service: &NewService,
    ) -> Effect {
        let owner = &self.observation.owner.id;
        match self.cloud_map.create_service(permit, place, service, owner).await {
            Ok(arn) => Effect::Created(arn),
            Err(error) if error.class == Class::Exists => Effect::Again,
            Err(error) => failed(&error),
        }
    }

    pub(super) async fn update(
        &self,
        permit: Permit<'_>,
        arn: &str,
        place: &Place,
        update: &ServiceUpdate,
    ) -> Result<Accepted, Effect> {
        let accepted = self.cloud_map.update_service(permit, arn, place, update).await;
        accepted.map_err(|error| match error.class {
            // In a namespace shared from another account: somebody else has instances there.
            Class::Invalid => held_back(Reason::UpdateRefused(error.source.to_string())),
            _ => failed(&error),
        })
    }
}
