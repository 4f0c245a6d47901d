//! The calls that change a Cloud Map service itself, and what their answers mean for the change.

use super::change::{Effect, failed};
use super::turn::Turn;
use crate::cloud_map::{Class, Permit};
use crate::plan::{NewService, Place};

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
}
