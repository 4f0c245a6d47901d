//! How the instances of ours in one Cloud Map service stand to what one who holds the name asks for, and
//! what that means: the changes it takes, and whether the name is whole. [`super::compare`] fills it in.

use std::collections::{BTreeMap, BTreeSet};

use super::health::HealthDifference;
use super::identity::Identity;
use super::maximum::SetBy;
use crate::model::Attributes;
use crate::plan::{Because, Change, Difference, NewService, Note, Place, Reason, ServiceUpdate};

/// How the instances of ours in one Cloud Map service stand to what one who holds the name asks for.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// The service is to be created first.
    pub create: Option<NewService>,
    /// What of the service itself is to be changed.
    pub update: Option<ServiceUpdate>,
    /// What else is to be known of the service.
    pub note: Option<Note>,
    /// To register, by id.
    pub register: BTreeMap<String, Attributes>,
    /// To register again, by id.
    pub rewrite: BTreeMap<String, (Attributes, Vec<Difference>)>,
    /// Of those, the ones that state other addresses yet than their endpoint has.
    pub misstated: BTreeSet<String>,
    /// Whether an endpoint asks for an instance here.
    pub asked: bool,
    /// Whether one that asks is found here already, marked for a holder of the name.
    pub serves: bool,
    /// What another who shares the name is to register and is not found yet.
    pub awaited: BTreeSet<Identity>,
    /// As they should be but for their health: who they are for the reader, and what differs.
    pub health: BTreeMap<String, (String, HealthDifference)>,
    /// As they should be.
    pub unchanged: BTreeSet<String>,
    /// Ours, and asked for by no ready endpoint.
    pub unwanted: BTreeSet<String>,
    /// Ours, and saying what another instance of ours, which stays, says too.
    pub duplicates: BTreeSet<String>,
    /// Ours, and beyond what the Service wants registered or may have, and who says so.
    pub beyond: BTreeMap<String, SetBy>,
    /// Ours, and with an address that may not be published.
    pub not_allowed: BTreeSet<String>,
    /// Whether the Service wants none.
    pub withdrawn: bool,
    /// What is held back, and why.
    pub held_back: Vec<Reason>,
}

impl Comparison {
    /// Why an instance goes that its holder has no use for.
    pub fn because(&self, instance: &str) -> Because {
        if self.withdrawn {
            Because::Withdrawn
        } else if let Some(set_by) = self.beyond.get(instance) {
            Because::BeyondMaximum(*set_by)
        } else if self.not_allowed.contains(instance) {
            Because::AddressNotAllowed
        } else if self.duplicates.contains(instance) {
            Because::Duplicate
        } else {
            Because::NoReadyEndpoint
        }
    }

    /// Whether an instance of ours is asked for by nobody here, or said twice.
    pub fn has_no_use_for(&self, instance: &str) -> bool {
        self.unwanted.contains(instance) || self.duplicates.contains(instance)
    }

    /// How many instances stay here for the holder.
    pub fn standing(&self) -> usize {
        self.unchanged.len() + self.rewrite.len() + self.health.len()
    }

    /// How many instances the holder wants here.
    pub fn wanted(&self) -> usize {
        self.standing() + self.register.len()
    }

    /// Whether every endpoint that can be found here is found here.
    pub fn is_whole(&self) -> bool {
        let found = self.register.is_empty() && self.misstated.is_empty();
        found && self.awaited.is_empty() && !self.held_back.iter().any(Reason::keeps_out)
    }

    /// Whether something keeps endpoints out that does not end by itself.
    pub fn is_hindered(&self) -> bool {
        let passes = |reason: &&Reason| !matches!(reason, Reason::NoneReady { .. });
        self.held_back.iter().filter(passes).any(Reason::keeps_out)
    }

    /// The changes, removals aside.
    pub fn changes(&self, place: &Place) -> Vec<Change> {
        let place = || place.clone();
        let create = self.create.clone();
        let create = create.map(|service| Change::CreateService { place: place(), service });
        let register = self.register.clone().into_iter().map(|(instance, attributes)| {
            Change::Register { place: place(), instance, attributes }
        });
        let rewrite =
            self.rewrite.clone().into_iter().map(|(instance, (attributes, differences))| {
                Change::Rewrite {
                    place: place(),
                    instance,
                    attributes,
                    differences,
                    exchange: None,
                }
            });
        let health = self.health.clone().into_iter();
        let health = health.map(|(instance, (address, difference))| {
            let HealthDifference { present, wanted } = difference;
            Change::Health { place: place(), instance, address, present, wanted }
        });
        let update = self.update.clone();
        let update = update.map(|update| Change::UpdateService { place: place(), update });
        create.into_iter().chain(register).chain(rewrite).chain(health).chain(update).collect()
    }
}
