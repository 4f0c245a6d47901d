//! The second judgement. What makes up for a loss is registered before anything is taken out, and Cloud Map can refuse
//! it; so if the removals of a plan would be past the limits without it, they are judged again when all registrations
//! are done, on what is registered then.

use std::collections::BTreeMap;

use super::loss::{Losses, Offset};
use super::sighting::Sighting;
use super::verdict::Measure;
use super::{Extent, memory};
use crate::model::{Attributes, Owner, ServiceRef};
use crate::publish::plan::{Basis, Plan};

/// What the second judgement measures a loss against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// How much of the cluster the run is about.
    pub(super) extent: Extent,
    /// How many instances each Service had when the run began.
    pub(super) before: BTreeMap<ServiceRef, usize>,
    /// How many instances the limits are measured on.
    pub(super) instances: usize,
    /// What was remembered then.
    pub(super) sighting: Option<Sighting>,
}

impl Judged {
    /// What the removals of a judged plan are judged against again; `None` if they are within the limits whatever
    /// becomes of the registrations.
    pub fn of(basis: Basis<'_>, plan: &Plan) -> Option<Self> {
        let (observation, measure) = (basis.observation, Measure::of(basis));
        let gross = Losses::of(observation, plan, Offset::Nothing);
        if !measure.is_past(observation, &gross) {
            return None;
        }
        let mut before = BTreeMap::new();
        for (_, service) in observation.all_marked_services() {
            *before.entry(service).or_default() += 1;
        }
        let (extent, instances) = (measure.extent, measure.instances);
        let sighting = memory::recall(observation);
        Some(Self { extent, before, instances, sighting })
    }

    /// Records that an instance passed in place from one Service to another: it can still be found.
    pub fn pass_on(&mut self, owner: &Owner, from: &Attributes, to: &Attributes) {
        if let (Some(from), Some(to)) = (owner.service_of(from), owner.service_of(to))
            && from != to
            && let Some(before) = self.before.get_mut(&from)
        {
            *before = before.saturating_sub(1);
        }
    }
}
