//! The permanent refusals of Cloud Map that a process remembers: the same request would get the same answer. The
//! process sends the request again only after [`RETRY_AFTER`], or if a person starts the run. Until then the report
//! repeats the remembered answer. A different request is sent at once.
//!
//! Another writer may end a refusal: it deregisters the instance that has the same address, or raises the quota. The
//! function does not see that, so it retries.

use std::collections::BTreeMap;

use super::change::Change;
use super::observation::Observation;
use super::reason::Reason;
use crate::model::{SignedDuration, Timestamp, fingerprint};

/// The time after which a refused request is sent again.
const RETRY_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// The answers to the refused requests of a process, by the hash of each request.
#[derive(Debug, Default)]
pub struct Refusals(BTreeMap<String, Refusal>);

#[derive(Debug)]
struct Refusal {
    /// The answer of Cloud Map.
    answer: Reason,
    /// The start of the run that sent the request.
    at: Timestamp,
}

impl Refusals {
    /// Returns the remembered answer to each change, in the order of the changes. `None` means that the change is sent.
    /// An answer of the present run does not count: the run itself decides when to try a change again.
    pub fn remembered_answers<'a>(
        &self,
        changes: impl Iterator<Item = &'a Change>,
        observation: &Observation,
    ) -> Vec<Option<Reason>> {
        let answer = |change: &Change| {
            // In a namespace that is known to be full, an endpoint's registration is planned only if its Service has
            // freed capacity there in this run. The remembered answer may then be outdated, so the registration is
            // sent.
            let is_full = observation.registry.capacity.refusal(&change.place().key).is_some();
            if matches!(change, Change::Register { .. }) && is_full {
                return None;
            }
            let refusal = self.0.get(&request(change, observation)?)?;
            let age = observation.now.duration_since(refusal.at);
            (SignedDuration::ZERO < age && age < RETRY_AFTER).then(|| refusal.answer.clone())
        };
        changes.map(answer).collect()
    }

    /// Records the answers to changes that were sent; `None` means that Cloud Map did not refuse the change.
    pub fn record<'a>(
        &mut self,
        answers: impl Iterator<Item = (&'a Change, Option<Reason>)>,
        observation: &Observation,
    ) {
        let at = observation.now;
        self.0.retain(|_, refusal| at.duration_since(refusal.at) < RETRY_AFTER);
        for (change, answer) in answers {
            let Some(request) = request(change, observation) else { continue };
            match answer {
                Some(answer) => _ = self.0.insert(request, Refusal { answer, at }),
                None => _ = self.0.remove(&request),
            }
        }
    }
}

/// The hash of the request that a change leads to; `None` if Cloud Map refuses no change of this kind permanently, or
/// if the request cannot be sent.
fn request(change: &Change, observation: &Observation) -> Option<String> {
    match change {
        // Without an ARN the namespace could not be created, so no request is sent.
        Change::CreateService { service, .. } if service.namespace.arn.is_some() => {
            Some(fingerprint::<16>(&["CreateService", &format!("{service:?}")]))
        }
        // Without the Cloud Map service, which could not be created, no request is sent.
        Change::Register { place, instance, attributes }
        | Change::Rewrite { place, instance, attributes, .. } => {
            let service = observation.registry.services.get(&place.key)?;
            // A service that was created again may have its former ARN.
            let settings = format!("{} {:?}", service.kind, service.health_check);
            let mut parts = vec!["RegisterInstance", &service.arn, &settings, instance];
            for (key, value) in attributes {
                parts.extend([key, value]);
            }
            Some(fingerprint::<16>(&parts))
        }
        _ => None,
    }
}
