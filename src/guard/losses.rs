//! The losses of a run, name by name.

use std::collections::BTreeMap;

use super::Circumstances;
use crate::model::ServiceRef;

/// The loss of one Service or import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The number of instances or endpoints lost.
    pub lost: usize,
    /// The number of those left.
    pub left: usize,
}

/// Every Service or import that would lose something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses(BTreeMap<ServiceRef, Loss>);

impl Losses {
    /// The number lost by all together.
    pub fn total(&self) -> usize {
        self.0.values().map(|loss| loss.lost).sum()
    }

    pub fn has(&self, service: &ServiceRef) -> bool {
        self.0.contains_key(service)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&ServiceRef, Loss)> {
        self.0.iter().map(|(service, loss)| (service, *loss))
    }

    /// The number of names that lose something.
    pub fn services(&self) -> usize {
        self.0.len()
    }

    /// Whether a single name loses something and was itself read in this run. Then a read error is not the cause, and
    /// no other name is concerned.
    pub fn is_of_one_that_was_read(&self, run: &impl Circumstances) -> bool {
        let mut services = self.0.keys();
        let one = services.next().filter(|_| services.next().is_none());
        one.is_some_and(|service| run.was_read(service))
    }

    /// Splits the losses into those for which `belongs` holds, and the others.
    pub fn partition(&self, belongs: impl Fn(&ServiceRef, Loss) -> bool) -> (Self, Self) {
        let all = self.0.clone().into_iter();
        let (these, others) = all.partition(|(service, loss)| belongs(service, *loss));
        (Self(these), Self(others))
    }
}

impl FromIterator<(ServiceRef, Loss)> for Losses {
    fn from_iter<I: IntoIterator<Item = (ServiceRef, Loss)>>(losses: I) -> Self {
        Self(losses.into_iter().collect())
    }
}
