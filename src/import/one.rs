//! One import of a run: it is planned, changed, and planned again if the cluster has no addresses of a family, another
//! owner's object has a name of the import or the namespace is excluded, or for the status if a change failed.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::apply::{self, Applied, Made, Outcome};
use super::plan::{
    self, Basis, Change, EXCLUDED, HeldBack, Importer, Kind, Known, Metadata, NamespaceState,
    ObjectRef, Plan, Present, Reason, Stage, Tally,
};
use super::read::{self, Unexpected};
use super::{Importing, sources};
use crate::clusterset::merge::Merged;
use crate::error::chain;
use crate::kubernetes::Error;
use crate::model::clusterset::ClusterId;
use crate::model::{Family, ServiceRef};

/// What became of one import.
#[derive(Debug, Default)]
pub(super) struct One {
    pub is_import: bool,
    pub merged: Option<(ServiceRef, Arc<Merged>)>,
    pub endpoints: usize,
    pub made: Vec<Made>,
    pub held_back: Vec<HeldBack>,
    pub unreadable: Option<(ServiceRef, String)>,
    /// The lines that no later plan of this import repeats.
    pub remarks: Vec<HeldBack>,
    /// Whether an object has changed since it was read, so that the rest of the import was not written.
    pub is_outdated: bool,
    /// Whether the guard holds what would leave it.
    pub is_held: bool,
    /// Whether a change is left that a retry can make.
    pub is_unfinished: bool,
}

/// One import, with all that its plan rests on.
pub(super) struct Import<'a> {
    pub importing: &'a Importing<'a>,
    pub name: ServiceRef,
    pub present: Present,
    pub exports: sources::Known,
}

impl Import<'_> {
    pub async fn run(mut self) -> One {
        let own = &self.importing.member.cluster;
        let merged = self.exports.merged.as_ref();
        let is_import = merged.is_some();
        let merged = merged.filter(|it| it.service.clusters.contains(own)).cloned();
        let merged = merged.map(|merged| (self.name.clone(), merged));
        let mut one = One { is_import, merged, ..One::default() };
        let mut known = Known::of(&self.present);
        loop {
            let families = self.importing.kubernetes.service_families();
            let state = self.importing.namespace(&self.name.namespace);
            let plan = self.plan(&families, None);
            if !self.importing.writes {
                return one.planned(plan);
            }
            let mut applied = self.apply(&mut known, &plan.changes).await;
            let missing = applied.missing_family().filter(|family| families.contains(family));
            let foreign = self.read_foreign(&mut applied).await;
            let is_excluded = state == NamespaceState::Active && self.finds_exclusion(&applied);
            let is_planned_again = missing.is_some() || foreign.is_some() || is_excluded;
            one.report_slice(&self.name, foreign.as_ref());
            let is_without_status = applied.is_without_status();
            let stored = applied.stored.iter().cloned().chain(foreign).collect();
            one.is_outdated = applied.failure.as_ref().is_some_and(Error::is_outdated);
            let failure = one.add(applied, plan.held_back);
            if let Some(family) = missing {
                self.importing.kubernetes.lacks_family(family);
            }
            if is_planned_again {
                one.is_outdated = false;
                one.forget_failures();
                match self.take_over(stored) {
                    Ok(()) => continue,
                    Err(problem) => one.unreadable = Some((self.name, problem.to_string())),
                }
            } else if let Some(failure) = failure.filter(|_| !one.is_outdated && !is_without_status)
            {
                let plan = self.plan(&families, Some(&failure));
                one.add(self.write_status(&mut known, plan).await, Vec::new());
            }
            return one;
        }
    }

    /// Whether a change was refused since the admission policy excludes the namespace. It is then remembered.
    fn finds_exclusion(&self, applied: &Applied) -> bool {
        let Importing { kubernetes, now, .. } = self.importing;
        let is_excluded = applied.failure.as_ref().is_some_and(|error| error.is_denied(EXCLUDED));
        if is_excluded {
            kubernetes.remember_excluded(&self.name.namespace, *now);
        }
        is_excluded
    }

    /// The object of another owner that has the name of one to be created. The lists of a run are by our labels, so it
    /// was not known. If it cannot be read, the failure of the creation says so.
    async fn read_foreign(&self, applied: &mut Applied) -> Option<(Kind, Value)> {
        let Importing { kubernetes, owner, .. } = self.importing;
        let object = applied.taken()?;
        let found = match kubernetes.object(apply::named(object)).await {
            Ok(found) => found?,
            Err(error) => {
                applied.add_to_failure(&chain(&error));
                return None;
            }
        };
        // One of ours is of an overlapping run: it is newer than the exports that this one read.
        (!owner.owns(&read::metadata(&found))).then_some((object.kind, found))
    }

    /// Takes over the objects as they were stored before a change was refused. They are not read again: the objects of
    /// an import are read before the exports.
    fn take_over(&mut self, stored: Vec<(Kind, Value)>) -> Result<(), Unexpected> {
        for (kind, object) in stored {
            match kind {
                Kind::ServiceImport => self.present.import = Some(read::import(&object)?),
                Kind::Service => self.present.derived = Some(read::service(&object)?),
                Kind::EndpointSlice => {
                    let slice = read::slice(&object)?;
                    let slices = &mut self.present.slices;
                    slices.retain(|it| it.metadata.name != slice.metadata.name);
                    slices.push(Arc::new(slice));
                }
            }
        }
        Ok(())
    }

    fn plan(&self, families: &[Family], failure: Option<&str>) -> Plan {
        self.on_basis(families, failure, plan::plan)
    }

    /// Its ready endpoints before and after its plan.
    pub fn tally(&self, passed: &BTreeSet<ClusterId>) -> Tally {
        let families = self.importing.kubernetes.service_families();
        self.on_basis(&families, None, |basis| Tally::of(basis, passed))
    }

    /// The guard keeps what would leave the import.
    pub fn hold(&mut self) {
        let families = self.importing.kubernetes.service_families();
        self.exports.sources = self.on_basis(&families, None, plan::hold);
    }

    fn on_basis<T>(
        &self,
        families: &[Family],
        failure: Option<&str>,
        decide: impl FnOnce(&Basis<'_>) -> T,
    ) -> T {
        let Importing { owner, member, objects, now, takes_over, policy, .. } = self.importing;
        let importer = Importer {
            cluster: member.cluster.clone(),
            families: families.to_vec(),
            declares_slice_objects: objects.declares_slice_objects,
        };
        decide(&Basis {
            owner,
            importer: &importer,
            service: &self.name,
            namespace: self.importing.namespace(&self.name.namespace),
            merged: self.exports.merged.as_ref().map(|merged| &merged.service),
            sources: &self.exports.sources,
            present: &self.present,
            takes_over: *takes_over,
            policy: *policy,
            failure,
            now: *now,
        })
    }

    async fn apply(&self, known: &mut Known, changes: &[Change]) -> Applied {
        let Importing { kubernetes, deadline, .. } = self.importing;
        apply::apply(kubernetes, &self.name.name, known, changes, *deadline).await
    }

    async fn write_status(&self, known: &mut Known, plan: Plan) -> Applied {
        let is_status = |change: &Change| change.stage == Stage::Status;
        let status: Vec<Change> = plan.changes.into_iter().filter(is_status).collect();
        self.apply(known, &status).await
    }
}

impl One {
    fn planned(mut self, plan: Plan) -> Self {
        let made =
            plan.changes.into_iter().map(|change| Made { change, outcome: Outcome::Planned });
        self.made.extend(made);
        self.held_back = plan.held_back;
        self
    }

    /// A slice of another owner is in the way of nothing, since the next number is free. The run that meets it reports it.
    fn report_slice(&mut self, service: &ServiceRef, foreign: Option<&(Kind, Value)>) {
        let Some((kind @ Kind::EndpointSlice, object)) = foreign else { return };
        let Metadata { name, manager, .. } = read::metadata(object);
        let object = ObjectRef { kind: *kind, namespace: service.namespace.clone(), name };
        let reason = Reason::ForeignObject { object, manager };
        self.remarks.push(HeldBack { service: service.clone(), reason });
    }

    /// Returns the failure, if a change failed.
    fn add(&mut self, applied: Applied, held_back: Vec<HeldBack>) -> Option<String> {
        let failure = applied.failure_text().map(str::to_owned);
        self.is_unfinished |= applied.is_unfinished();
        self.made.extend(applied.made);
        self.held_back.extend(held_back);
        failure
    }

    /// The cluster refused a family, and the plan is made for another.
    fn forget_failures(&mut self) {
        self.is_unfinished = false;
        self.made.retain(|made| made.outcome == Outcome::Applied);
        self.held_back.clear();
    }
}

impl Applied {
    /// The family of a derived Service that the cluster does not have.
    fn missing_family(&self) -> Option<Family> {
        self.failure.as_ref().and_then(Error::missing_family)
    }
}
