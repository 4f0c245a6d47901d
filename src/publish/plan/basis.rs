//! All that a plan is made from. The holders of names are decided once for an observation and handed on with it; code
//! that changes an observation decides them again.

use std::collections::BTreeSet;

use super::{Holders, Observation, RereadScope, affected};
use crate::model::{Selection, ServiceRef};

/// All that a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Basis<'a> {
    /// The observation.
    pub observation: &'a Observation,
    /// The holders of each name in it.
    pub holders: &'a Holders,
    /// The Services that the plan is about.
    pub affected: &'a BTreeSet<ServiceRef>,
}

/// An observation with all else that a plan is made from.
#[derive(Debug)]
pub struct Observed {
    /// The observation.
    pub observation: Observation,
    /// The holders of each name in it.
    pub holders: Holders,
    /// The Services that a plan is about.
    pub affected: BTreeSet<ServiceRef>,
}

impl Observed {
    /// An observation for the Services of `selection`.
    pub fn new(mut observation: Observation, selection: &Selection) -> Self {
        observation.choose_namespaces(selection);
        let holders = Holders::decide(&observation);
        let affected = affected(&observation, &holders, selection);
        Self { observation, holders, affected }
    }

    /// Decides again all that follows from the observation.
    pub fn decide_again(&mut self, selection: &Selection) {
        self.observation.choose_namespaces(selection);
        self.holders = Holders::decide(&self.observation);
        self.affected = affected(&self.observation, &self.holders, selection);
    }

    /// An observation that was read again for a turn.
    pub fn reread(observation: Observation, scope: &RereadScope) -> Self {
        let holders = Holders::decide(&observation);
        Self { observation, holders, affected: scope.services.clone() }
    }

    /// An observation of a cluster that asks for nothing.
    pub fn of_no_claims(observation: Observation) -> Self {
        Self { observation, holders: Holders::default(), affected: BTreeSet::new() }
    }

    /// The same, borrowed.
    pub fn basis(&self) -> Basis<'_> {
        let Self { observation, holders, affected } = self;
        Basis { observation, holders, affected }
    }
}
