//! Changes that Cloud Map has refused for good: the same call has the same answer until something changes. A process that
//! remembers a refusal tries again after two minutes, then after four, eight and so on, and at once if the instance, its
//! Service or the Cloud Map service differ. What is not tried counts as refused again.

use std::collections::BTreeMap;

use super::change::Change;
use super::observation::Observation;
use super::reason::Reason;
use crate::model::{ServiceKey, ServiceRef, SignedDuration, Timestamp, fingerprint};

/// The longest time between two tries, in minutes.
const LONGEST_WAIT: i64 = 60;
/// A refusal that was not met again for this time is forgotten: its endpoint is gone.
const STANDS: SignedDuration = SignedDuration::from_hours(2);

/// The refusals of a process, by Cloud Map service and instance; without an instance, of the service itself.
#[derive(Debug, Default)]
pub struct Refusals(BTreeMap<Refusable, Refusal>);

type Refusable = (ServiceKey, Option<String>);

/// A change, and the Service that it is made for.
pub type MadeFor<'a> = (&'a ServiceRef, &'a Change);

#[derive(Debug)]
struct Refusal {
    /// The answer of Cloud Map.
    refused: Reason,
    /// A hash of all that it rests on.
    grounds: String,
    /// How often it was refused on these grounds, and the start of the last run that tried.
    times: u32,
    at: Timestamp,
}

impl Refusal {
    /// Whether another try would be too early. Within one run, each try has a reason of its own.
    fn stands(&self, now: Timestamp) -> bool {
        let minutes = 2_i64.checked_pow(self.times).unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT);
        let since = now.duration_since(self.at);
        SignedDuration::ZERO < since && since < SignedDuration::from_mins(minutes)
    }
}

impl Refusals {
    /// The answers to those changes that are not tried again yet, in the order of the changes.
    pub fn standing<'a>(
        &self,
        changes: impl Iterator<Item = MadeFor<'a>>,
        observation: &Observation,
    ) -> Vec<Option<Reason>> {
        let mut grounds = Grounds::of(observation);
        // A place that a Service has freed in a full namespace is new.
        let may_have_place = |change: &Change| {
            let full = observation.registry.capacity.refusal(&change.place().key);
            matches!(change, Change::Register { .. }) && full.is_some()
        };
        let answer = |(service, change): MadeFor| {
            if may_have_place(change) {
                return None;
            }
            let known = self.0.get(&refusable(change)).filter(|it| it.stands(observation.now))?;
            (grounds.of_change((service, change))? == known.grounds).then(|| known.refused.clone())
        };
        changes.map(answer).collect()
    }

    /// Records the answers to changes that were tried on an observation; `None` means that a change was not refused.
    pub fn note<'a>(
        &mut self,
        answers: impl Iterator<Item = (MadeFor<'a>, Option<Reason>)>,
        observation: &Observation,
    ) {
        let now = observation.now;
        self.0.retain(|_, known| now.duration_since(known.at) < STANDS);
        let mut grounds = Grounds::of(observation);
        for ((service, change), refused) in answers {
            let refused =
                refused.and_then(|refused| Some((refused, grounds.of_change((service, change))?)));
            let known = self.0.remove(&refusable(change));
            let Some((refused, grounds)) = refused else { continue };
            let known = known.filter(|known| known.grounds == grounds);
            let times = known.map_or(1, |it| it.times + u32::from(it.at != now));
            self.0.insert(refusable(change), Refusal { refused, grounds, times, at: now });
        }
    }
}

fn refusable(change: &Change) -> Refusable {
    (change.place().key.clone(), change.instance().map(str::to_owned))
}

/// All that a refusal rests on, as far as it was read.
struct Grounds<'a> {
    observation: &'a Observation,
    /// The part that the instances of one Service share. A thousand may be refused at a time.
    shared: BTreeMap<(ServiceKey, ServiceRef), String>,
}

impl<'a> Grounds<'a> {
    fn of(observation: &'a Observation) -> Self {
        Self { observation, shared: BTreeMap::new() }
    }

    /// The hash of the grounds of a change; `None` if Cloud Map refuses no change of this kind for good.
    fn of_change(&mut self, (service, change): MadeFor) -> Option<String> {
        let key = &change.place().key;
        let asked = match change {
            // It was not asked to create a service in a namespace that could not be created.
            Change::CreateService { service, .. } if service.namespace.arn.is_some() => {
                format!("{service:?}")
            }
            // If its service could not be created, it was not asked to register it.
            Change::Register { attributes, .. } | Change::Rewrite { attributes, .. } => {
                self.observation.registry.services.get(key)?;
                format!("{attributes:?}")
            }
            _ => return None,
        };
        let observation = self.observation;
        let shared = self.shared.entry((key.clone(), service.clone()));
        let shared = shared.or_insert_with(|| {
            let published = observation.desired.services.get(service);
            let published = published.map(|it| (&it.uid, &it.claims, &it.ports, &it.families));
            let there = observation.registry.services.get(key);
            let there = there.map(|it| (&it.arn, it.kind, it.custom_health, &it.health_check));
            let instances: Vec<_> = observation.registry.instances(key).collect();
            let texts = [format!("{published:?}"), format!("{there:?}"), format!("{instances:?}")];
            fingerprint::<16>(&texts.each_ref().map(String::as_str))
        });
        Some(fingerprint::<16>(&[&asked, shared]))
    }
}
