//! Changes that Cloud Map has refused permanently: the same request gets the same answer. The process remembers the
//! answer, and sends the request again only after [`STANDS`], or if a person asks for the run. A request that differs
//! is sent at once. A request that is not sent counts as refused again.
//!
//! Others may end a refusal: they deregister the instance with the same address, or raise the quota. The request does
//! not show this, so it is sent again after some time.

use std::collections::BTreeMap;

use super::change::Change;
use super::observation::Observation;
use super::reason::Reason;
use crate::model::{SignedDuration, Timestamp, fingerprint};

/// The time after which a refused request is sent again.
const STANDS: SignedDuration = SignedDuration::from_mins(10);

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
    /// The answer to each change that is not sent again yet, in the order of the changes. Answers from the same run do
    /// not count, since each of its tries has its own reason.
    pub fn standing<'a>(
        &self,
        changes: impl Iterator<Item = &'a Change>,
        observation: &Observation,
    ) -> Vec<Option<Reason>> {
        let answer = |change: &Change| {
            // A Service that is renamed in a full namespace may have freed capacity in this run.
            let may_have_place = observation.registry.capacity.refusal(&change.place().key);
            if matches!(change, Change::Register { .. }) && may_have_place.is_some() {
                return None;
            }
            let refusal = self.0.get(&request(change, observation)?)?;
            let age = observation.now.duration_since(refusal.at);
            (SignedDuration::ZERO < age && age < STANDS).then(|| refusal.answer.clone())
        };
        changes.map(answer).collect()
    }

    /// Records the answers to changes that were sent; `None` means that Cloud Map did not refuse the change.
    pub fn note<'a>(
        &mut self,
        answers: impl Iterator<Item = (&'a Change, Option<Reason>)>,
        observation: &Observation,
    ) {
        let at = observation.now;
        self.0.retain(|_, refusal| at.duration_since(refusal.at) < STANDS);
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
        // In a namespace that could not be created, no service is created.
        Change::CreateService { service, .. } if service.namespace.arn.is_some() => {
            Some(fingerprint::<16>(&["CreateService", &format!("{service:?}")]))
        }
        // In a service that could not be created, no instance is registered.
        Change::Register { place, instance, attributes }
        | Change::Rewrite { place, instance, attributes, .. } => {
            let service = observation.registry.services.get(&place.key)?;
            let mut parts = vec!["RegisterInstance", &service.arn, instance];
            for (key, value) in attributes {
                parts.extend([key, value]);
            }
            Some(fingerprint::<16>(&parts))
        }
        _ => None,
    }
}
