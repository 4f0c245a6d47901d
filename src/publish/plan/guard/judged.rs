//! The second judgement. Registrations that offset a loss are made before any removal, and Cloud Map can refuse them.
//! If the removals of a plan would exceed the limits without the registrations, they are judged again when all
//! registrations are done, on the instances that are registered then.

use std::collections::BTreeMap;

use super::loss::{Offset, losses};
use super::{measure, memory};
use crate::guard::{Extent, Sighting};
use crate::model::{Attributes, Owner, ServiceRef};
use crate::publish::plan::{Basis, Plan};

/// The input of the second judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The part of the cluster that the run covers.
    pub(super) extent: Extent,
    /// The number of instances of each Service when the run began.
    pub(super) before: BTreeMap<ServiceRef, usize>,
    /// The number of instances that the limits are measured on.
    pub(super) instances: usize,
    /// The sighting that was stored when the run began.
    pub(super) sighting: Option<Sighting>,
}

impl Judged {
    /// The input for judging the removals of a judged plan again; `None` if they are within the limits even if every
    /// registration fails.
    pub fn of(basis: Basis<'_>, plan: &Plan) -> Option<Self> {
        let (observation, measure) = (basis.observation, measure(basis));
        let gross = losses(observation, plan, Offset::Nothing);
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

    /// Records that an instance passed in place from one Service to another: clients still find it.
    pub fn pass_on(&mut self, owner: &Owner, from: &Attributes, to: &Attributes) {
        if let (Some(from), Some(to)) = (owner.service_of(from), owner.service_of(to))
            && from != to
            && let Some(before) = self.before.get_mut(&from)
        {
            *before = before.saturating_sub(1);
        }
    }
}
