//! One import of a run: it is planned, changed, and planned again if the cluster has no addresses of a family, another
//! owner's object has a name of the import, the namespace is excluded or a field is refused, or for the slices and the
//! status if a change failed.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::apply::{Applied, Made, apply};
use super::imported::Imported;
use super::plan::{
    self, Basis, EXCLUDED, Failure, HeldBack, Importer, Kind, Metadata, NamespaceState, ObjectRef,
    Present, Reason, Tally,
};
use super::{Importing, sources};
use crate::kubernetes::Error;
use crate::model::clusterset::ClusterId;
use crate::model::{About, Family, Notice, ServiceRef, Tone};
use crate::report::ChangeResult;

/// One import, with all that its plan rests on.
pub(super) struct Import<'a> {
    pub importing: &'a Importing<'a>,
    pub name: ServiceRef,
    pub present: Present,
    pub exports: sources::Known,
    /// Whether the guard holds what would leave it.
    pub is_held: bool,
    /// Whether an object has changed since it was read, so that the rest of the import was not written.
    pub is_outdated: bool,
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
        Self {
            importing,
            name,
            present,
            exports,
            is_held: false,
            is_outdated: false,
            failure: None,
            kept_ips: usize::MAX,
        }
    }

    pub async fn run(&mut self) -> Imported {
        let own = &self.importing.member.cluster;
        let merged = self.exports.merged.as_ref();
        let imports = usize::from(merged.is_some() || self.is_held);
        let merged = merged.filter(|it| it.service.clusters.contains(own)).cloned();
        let merged = merged.into_iter().map(|merged| (self.name.clone(), merged)).collect();
        let mut imported = Imported { imports, merged, ..Imported::default() };
        let former_ips = self.present.import.as_ref().map(|it| it.spec.ips.clone());
        let (mut remarks, mut is_unfinished) = (Vec::new(), false);
        loop {
            let families = self.importing.kubernetes.service_families();
            let state = self.importing.namespace(&self.name.namespace);
            let plan = self.on_basis(&families, plan::plan);
            if !self.importing.writes {
                imported.made.extend(plan.changes.into_iter().map(Made::planned));
                imported.held_back.extend(plan.held_back);
                return imported;
            }
            let Importing { kubernetes, deadline, .. } = *self.importing;
            let present = &mut self.present;
            let mut applied = apply(kubernetes, &self.name, present, plan.changes, deadline).await;
            let has_foreign = self.add_foreign(&mut applied, &mut remarks);
            let has_learnt = self.learn(&mut applied, &families, state) || has_foreign;
            self.is_outdated =
                !has_learnt && applied.failure.as_ref().is_some_and(Error::is_outdated);
            is_unfinished = !has_learnt && (is_unfinished || applied.is_unfinished());
            let failure = applied.failed_change().filter(|_| !self.is_outdated);
            imported.made.extend(applied.made);
            if has_learnt || failure.is_some() {
                imported.forget_changes_to_plan_again(has_learnt);
                self.failure = failure.filter(|_| !has_learnt).or(self.failure.take());
                if applied.unreadable.is_none() {
                    continue;
                }
            }
            let unreadable = applied.unreadable.map(|it| (self.name.clone(), it.to_string()));
            imported.unreadable.extend(unreadable);
            imported.held_back.extend(plan.held_back.into_iter().chain(remarks));
            imported.notices.extend(former_ips.and_then(|former| self.notice_of_ips(&former)));
            imported.unfinished.extend(is_unfinished.then(|| self.name.clone()));
            return imported;
        }
    }

    /// Remembers what the API server refused. Returns whether the next plan does without it.
    fn learn(&mut self, applied: &mut Applied, families: &[Family], state: NamespaceState) -> bool {
        let Importing { kubernetes, now, .. } = self.importing;
        let fields = std::mem::take(&mut applied.refused);
        let lacks_fields = kubernetes.remember_refused(fields, *now);
        let Some(failure) = &applied.failure else { return lacks_fields };
        let missing = failure.missing_family().filter(|family| families.contains(family));
        if let Some(family) = missing {
            kubernetes.lacks_family(family);
        }
        let is_excluded = state == NamespaceState::Active && failure.is_denied(EXCLUDED);
        if is_excluded {
            kubernetes.remember_excluded(&self.name.namespace, *now);
        }
        // Another import has them, or no range does.
        let mut fields = failure.invalid_fields().iter();
        let refuses_ips =
            self.kept_ips > 0 && fields.any(|field| field.starts_with("spec.clusterIP"));
        if refuses_ips {
            // After both the primary one alone, and then another one.
            let ips = self.present.import.as_ref().map_or(0, |import| import.spec.ips.len());
            self.kept_ips = usize::from(self.kept_ips.min(ips) > 1);
        }
        lacks_fields || missing.is_some() || is_excluded || refuses_ips
    }

    /// The notice that clients find the import under another IP, since the API server refused a former one.
    fn notice_of_ips(&self, former: &[IpAddr]) -> Option<Notice> {
        let import = self.present.import.as_ref().filter(|_| self.kept_ips != usize::MAX)?;
        let ips = self.present.derived.as_ref().map(|derived| &derived.cluster_ips)?;
        let lost: Vec<&IpAddr> = former.iter().filter(|ip| !ips.contains(ip)).collect();
        let texts = |ips: Vec<&IpAddr>| {
            ips.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
        };
        (!lost.is_empty() && !ips.is_empty()).then(|| Notice {
            about: About::ServiceImport,
            tone: Tone::Warning,
            service: self.name.clone(),
            uid: import.metadata.uid.clone(),
            reason: "ClusterSetIPChanged".to_owned(),
            note: format!(
                "its derived Service was deleted, and the API server gives {} to no new one: the IPs are {} now",
                texts(lost),
                texts(ips.iter().collect())
            ),
        })
    }

    /// Takes over an object of another owner that has the name of one to be created, so that the next plan knows it. One
    /// of ours is of an overlapping run: it is newer than the exports that this one read.
    fn add_foreign(&mut self, applied: &mut Applied, remarks: &mut Vec<HeldBack>) -> bool {
        let Some((kind, object)) = applied.taken.take() else { return false };
        let metadata = Metadata::read(&object);
        if self.importing.owner.owns(&metadata) {
            return false;
        }
        applied.unreadable = self.present.store(kind, &object).err().or(applied.unreadable.take());
        if kind == Kind::EndpointSlice {
            // It is in the way of nothing, since the next number is free. No later plan repeats this line.
            let object = ObjectRef::of(&self.name, kind, &metadata.name);
            let reason = Reason::ForeignObject { object, manager: metadata.manager };
            remarks.push(HeldBack { service: self.name.clone(), reason });
        }
        true
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
        self.is_held = true;
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
}

impl Imported {
    /// Forgets what the next plan of the import repeats: all that was not done, if it does without what was refused, or
    /// the slices, which are written though another change failed.
    fn forget_changes_to_plan_again(&mut self, has_learnt: bool) {
        self.made.retain(|Made { change, result }| match result {
            ChangeResult::Undone { .. } => !has_learnt && change.object.kind != Kind::EndpointSlice,
            result => !has_learnt || *result == ChangeResult::Applied,
        });
    }
}
