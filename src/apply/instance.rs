//! The calls that change an instance, and what their answers mean for the change.

use std::sync::PoisonError;

use super::Outcome;
use super::change::{Effect, failed, held_back};
use super::turn::Turn;
use crate::cloud_map::write::Accepted;
use crate::cloud_map::{Class, Permit};
use crate::model::{Attributes, Health};
use crate::plan::{Change, NotAdopted, Place, Reason};

impl Turn<'_> {
    /// Where Cloud Map has said that it takes no more, it is not asked again in this turn: the calls count
    /// against the same rate as those of ECS.
    pub(super) fn refused_before(&self, change: &Change) -> Option<Effect> {
        let Change::Register { place, instance, .. } = change else { return None };
        let full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        let (instance, message) = (instance.clone(), full.get(&place.key)?.clone());
        Some(held_back(Reason::LimitExceeded { instance, message }))
    }

    pub(super) async fn register(
        &self,
        permit: Permit<'_>,
        arn: &str,
        place: &Place,
        instance: &str,
        attributes: &Attributes,
    ) -> Result<Accepted, Effect> {
        let accepted = self.cloud_map.register(permit, arn, place, instance, attributes).await;
        accepted.map_err(|error| {
            let message = error.source.to_string();
            match error.class {
                Class::LimitExceeded => {
                    let mut full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
                    full.insert(place.key.clone(), message.clone());
                    let instance = instance.to_owned();
                    held_back(Reason::LimitExceeded { instance, message })
                }
                Class::Invalid => match self.mismatch(place, attributes) {
                    Some(reason) => held_back(reason),
                    None => failed(&error),
                },
                _ => failed(&error),
            }
        })
    }

    /// Registers over an instance that is not ours, where it still is what the plan saw. From that
    /// answer to the registration nobody sees who else writes to it: Cloud Map has no compare-and-swap.
    pub(super) async fn adopt(
        &self,
        permit: Permit<'_>,
        arn: &str,
        place: &Place,
        instance: &str,
        (present, attributes): (&Attributes, &Attributes),
    ) -> Result<Accepted, Effect> {
        match self.cloud_map.instance(&permit, arn, place, instance).await {
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

    /// The one refusal of an input that is expected: an endpoint of one family, tried in a service
    /// whose records are of both.
    fn mismatch(&self, place: &Place, attributes: &Attributes) -> Option<Reason> {
        let service = self.observation.registry.services.get(&place.key)?;
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
        match self.cloud_map.report_health(permit, arn, place, instance, health).await {
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
        let accepted = self.cloud_map.deregister(permit, arn, place, instance).await;
        accepted.map_err(|error| match error.class {
            // Gone is what was wanted. An instance that this run registered is never deregistered in
            // it, so "not found" cannot mean "not to be seen yet".
            Class::NotFound => Effect::Is(Outcome::Applied),
            _ => failed(&error),
        })
    }
}
