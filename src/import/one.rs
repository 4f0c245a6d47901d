//! One import of a run: it is planned, changed, and planned again if the cluster has no addresses of a family, another
//! owner's object has a name of the import, the namespace is excluded or a field is refused, or for the slices and the
//! status if a change failed.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;

use super::apply::{self, Applied, Made, Outcome};
use super::plan::{
    self, Basis, Change, EXCLUDED, Failure, HeldBack, Importer, Kind, Known, Metadata,
    NamespaceState, ObjectRef, Plan, Present, Reason, Tally,
};
use super::read::{self, Unexpected};
use super::{Importing, sources};
use crate::clusterset::merge::Merged;
use crate::error::chain;
use crate::kubernetes::Error;
use crate::model::clusterset::ClusterId;
use crate::model::{About, Family, Notice, ServiceRef, Tone};

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
    /// The notice that an IP of the import changed.
    pub notice: Option<Notice>,
    /// Whether the guard holds what would leave it.
    pub is_held: bool,
    pub rest: Rest,
}

/// The changes that are left of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Rest {
    /// None that a retry can make.
    #[default]
    None,
    Failed,
    /// An object has changed since it was read, so that the rest of the import was not written.
    Outdated,
}

/// One import, with all that its plan rests on.
pub(super) struct Import<'a> {
    pub importing: &'a Importing<'a>,
    pub name: ServiceRef,
    pub present: Present,
    pub exports: sources::Known,
    /// The change that failed in this run.
    failure: Option<Failure>,
    /// The number of its IPs for which the next derived Service asks.
    kept_ips: usize,
}

impl<'a> Import<'a> {
    pub fn new(
        importing: &'a Importing<'a>,
        name: ServiceRef,
        present: Present,
        exports: sources::Known,
    ) -> Self {
        Self { importing, name, present, exports, failure: None, kept_ips: usize::MAX }
    }

    pub async fn run(mut self) -> One {
        let own = &self.importing.member.cluster;
        let merged = self.exports.merged.as_ref();
        let is_import = merged.is_some();
        let merged = merged.filter(|it| it.service.clusters.contains(own)).cloned();
        let merged = merged.map(|merged| (self.name.clone(), merged));
        let mut one = One { is_import, merged, ..One::default() };
        let mut known = Known::of(&self.present);
        let former_ips = self.present.import.as_ref().map(|it| it.spec.ips.clone());
        loop {
            let families = self.importing.kubernetes.service_families();
            let state = self.importing.namespace(&self.name.namespace);
            let plan = self.on_basis(&families, plan::plan);
            if !self.importing.writes {
                return one.planned(plan);
            }
            let mut applied = self.apply(&mut known, &plan.changes).await;
            let foreign = self.read_foreign(&mut applied).await;
            one.report_slice(&self.name, foreign.as_ref());
            let has_learnt = self.learn(&mut applied, &families, state) || foreign.is_some();
            let is_without_status = applied.is_without_status();
            let stored = applied.stored.drain(..).chain(foreign).collect();
            let is_unfinished = applied.is_unfinished();
            let is_outdated = applied.failure.as_ref().is_some_and(Error::is_outdated);
            one.rest = match (has_learnt, is_outdated) {
                (true, _) => Rest::None,
                (false, true) => Rest::Outdated,
                (false, false) if is_unfinished => Rest::Failed,
                (false, false) => one.rest,
            };
            let failure = applied.failed_change().filter(|_| !is_outdated && !is_without_status);
            one.made.extend(applied.made);
            one.held_back = plan.held_back;
            let is_planned_again = has_learnt || failure.is_some();
            if is_planned_again {
                one.forget_changes_to_plan_again(has_learnt);
                self.failure = failure.filter(|_| !has_learnt).or(self.failure);
                match self.take_over(stored) {
                    Ok(()) => continue,
                    Err(problem) => one.unreadable = Some((self.name.clone(), problem.to_string())),
                }
            }
            one.notice = former_ips.and_then(|former| self.notice_of_ips(&former, &known));
            return one;
        }
    }

    /// Remembers what the API server refused. Returns whether the next plan does without it.
    fn learn(&mut self, applied: &mut Applied, families: &[Family], state: NamespaceState) -> bool {
        let Importing { kubernetes, now, .. } = self.importing;
        let fields = std::mem::take(&mut applied.refused);
        let lacks_fields = kubernetes.remember_refused(fields, *now);
        let missing = applied.missing_family().filter(|family| families.contains(family));
        if let Some(family) = missing {
            kubernetes.lacks_family(family);
        }
        let is_excluded = state == NamespaceState::Active && self.finds_exclusion(applied);
        let refuses_ips = self.kept_ips > 0 && applied.refuses_ips();
        if refuses_ips {
            // After both the primary one alone, and then another one.
            let ips = self.present.import.as_ref().map_or(0, |import| import.spec.ips.len());
            self.kept_ips = usize::from(self.kept_ips.min(ips) > 1);
        }
        lacks_fields || missing.is_some() || is_excluded || refuses_ips
    }

    /// The notice that clients find the import under another IP, since the API server refused a former one.
    fn notice_of_ips(&self, former: &[IpAddr], known: &Known) -> Option<Notice> {
        let import = self.present.import.as_ref().filter(|_| self.kept_ips != usize::MAX)?;
        let lost = former.iter().filter(|ip| !known.cluster_ips().contains(ip));
        let lost: Vec<String> = lost.map(ToString::to_string).collect();
        let ips: Vec<String> = known.cluster_ips().iter().map(ToString::to_string).collect();
        (!lost.is_empty() && !ips.is_empty()).then(|| Notice {
            about: About::ServiceImport,
            tone: Tone::Warning,
            service: self.name.clone(),
            uid: import.metadata.identity.uid.clone(),
            reason: "ClusterSetIPChanged".to_owned(),
            note: format!(
                "its derived Service was deleted, and the API server gives {} to no new one: the IPs are {} now",
                lost.join(" and "),
                ips.join(" and ")
            ),
        })
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

    /// Its ready endpoints before and after its plan.
    pub fn tally(&self, passed: &BTreeSet<ClusterId>) -> Tally {
        let families = self.importing.kubernetes.service_families();
        self.on_basis(&families, |basis| Tally::of(basis, passed))
    }

    /// The guard keeps what would leave the import.
    pub fn hold(&mut self) {
        let families = self.importing.kubernetes.service_families();
        self.exports.sources = self.on_basis(&families, plan::hold);
    }

    fn on_basis<T>(&self, families: &[Family], decide: impl FnOnce(&Basis<'_>) -> T) -> T {
        let Importing { kubernetes, owner, member, objects, now, takes_over, policy, .. } =
            self.importing;
        let importer = Importer {
            cluster: member.cluster.clone(),
            families: families.to_vec(),
            refused: kubernetes.refused_fields(*now),
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
            failure: self.failure.as_ref(),
            kept_ips: self.kept_ips,
            now: *now,
        })
    }

    async fn apply(&self, known: &mut Known, changes: &[Change]) -> Applied {
        let Importing { kubernetes, deadline, .. } = self.importing;
        apply::apply(kubernetes, &self.name.name, known, changes, *deadline).await
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

    /// Forgets what the next plan of the import repeats: all that was not done, if it does without what was refused, or
    /// the slices, which are written though another change failed.
    fn forget_changes_to_plan_again(&mut self, has_learnt: bool) {
        self.made.retain(|Made { change, outcome }| match outcome {
            Outcome::Undone(_) => !has_learnt && change.object.kind != Kind::EndpointSlice,
            outcome => !has_learnt || *outcome == Outcome::Applied,
        });
    }
}

impl Applied {
    /// The family of a derived Service that the cluster does not have.
    fn missing_family(&self) -> Option<Family> {
        self.failure.as_ref().and_then(Error::missing_family)
    }

    /// Whether the API server refused the IPs of a derived Service: another one has them, or no range does.
    fn refuses_ips(&self) -> bool {
        let mut fields = self.failure.iter().flat_map(Error::invalid_fields);
        fields.any(|field| field.starts_with("spec.clusterIP"))
    }
}
