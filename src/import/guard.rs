//! The guard over the imports of a cluster. The plans of all of them are counted before the first change: if they would
//! lose most of the ready endpoints that come from other clusters, those of the losing imports stay, and additions go on.
//! Pure; the limits, the memory and the verdict are those of [`crate::guard`].
//!
//! A loss of a cluster whose exports this invocation published, and of which the guard let a loss pass there, is not
//! judged again.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::plan::Tally;
use crate::guard::{
    Circumstances, Extent, Guard, GuardStatus, Loss, LossSubject, Measure, Sighting,
};
use crate::model::{ClusterArn, ServiceRef, Timestamp};

/// A run over the imports of a cluster.
#[derive(Clone, Debug)]
pub struct GuardedRun<'a> {
    pub cluster: &'a ClusterArn,
    pub guard: Guard,
    pub extent: Extent,
    /// The Services of which the first look of the run holds a loss.
    pub held: BTreeSet<ServiceRef>,
    pub now: Timestamp,
    /// Whether the cluster has a record in Cloud Map, on which a sighting can be stored.
    pub remembers: bool,
}

/// The verdict of the guard on the imports of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    pub status: Option<GuardStatus>,
    /// Whether a part was not read, so that the loss is not completely known.
    is_partial: bool,
}

/// What becomes of the sighting on the cluster's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    Write(Sighting),
    Remove,
}

impl GuardedRun<'_> {
    /// Judges the plans of all imports that the run covers.
    pub fn judge(
        &self,
        tallies: &BTreeMap<ServiceRef, Tally>,
        sighting: Option<&Sighting>,
    ) -> Judgement {
        let losses = tallies.iter().filter(|(_, tally)| tally.loss.lost > 0);
        let losses = losses.map(|(name, tally)| {
            (name.clone(), Loss { was_held: self.held.contains(name), ..tally.loss })
        });
        let sum = |count: fn(&Tally) -> usize| tallies.values().map(count).sum();
        let unread = sum(|tally| tally.unread);
        // Those that could not be read are among the present ones; the limits count them apart.
        let instances = sum(|tally| tally.present.saturating_sub(tally.unread));
        let measure = Measure { extent: self.extent, instances, unread, may_be_noted: false };
        let (guard, now, cluster) = (self.guard, self.now, self.cluster.clone());
        let run = Circumstances { guard, now, cluster, subject: LossSubject::Endpoints };
        let verdict = measure.judge(&run, &losses.collect(), sighting);
        let mut status = verdict.map(|verdict| verdict.status(run));
        // A cluster without a record cannot remember a loss, so only a person lets it pass.
        for status in status.iter_mut().filter(|it| !self.remembers && it.verdict.state.holds()) {
            (status.verdict.first_seen, status.later_look) = (None, true);
        }
        Judgement { status, is_partial: unread > 0 }
    }
}

impl Judgement {
    /// The number of endpoints that an import keeps; `None` if it is not held.
    pub fn held(&self, name: &ServiceRef) -> Option<usize> {
        self.status.as_ref()?.verdict.held.get(name).map(|loss| loss.lost)
    }

    /// What becomes of the sighting, when the imports were changed. It stays while a loss that passes is not carried out
    /// completely, so that the next run lets the rest pass.
    pub fn note(
        &self,
        run: &GuardedRun<'_>,
        sighting: Option<&Sighting>,
        is_complete: bool,
    ) -> Option<Note> {
        if !run.remembers || !run.extent.is_whole() {
            return None;
        }
        match self.status.as_ref().map(|status| &status.verdict) {
            Some(verdict) if verdict.state.holds() => {
                let new = verdict.is_new.then(|| Sighting::of(&verdict.held, run.now));
                new.map(Note::Write)
            }
            Some(verdict) if !is_complete => {
                let ripe = run.now.saturating_sub(run.guard.wait).unwrap_or(run.now);
                let passed = Sighting::of(&verdict.passed, ripe);
                sighting.is_none().then_some(Note::Write(passed))
            }
            None if self.is_partial => None,
            _ => sighting.map(|_| Note::Remove),
        }
    }
}
