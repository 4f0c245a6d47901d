//! The calls that change an instance, and the effects of their answers on the change.

use super::TurnCalls;
use super::change::{failed, held_back};
use crate::cloud_map::write::Accepted;
use crate::cloud_map::{Class, Permit};
use crate::model::{Attributes, Health, Place};
use crate::publish::passes::{Effect, Outcome};
use crate::publish::plan::{NotAdopted, Reason};

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
                    held_back(self.mismatch(place, attributes).unwrap_or_else(refused))
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
                Err(held_back(Reason::NotAdopted { instance, why }))
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
