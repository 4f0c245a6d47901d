//! From Cloud Map into Kubernetes: the clusterset services of a cluster as ServiceImports, each with a derived Service
//! that has its virtual IP, and with EndpointSlices.
//!
//! ```text
//! exports of all members ─> sources: merge ─> plan ─> guard ─> apply: changes in order ─> API server of the cluster
//! objects of the cluster (observe) ─────────────┘
//! ```
//!
//! [`plan`] decides for one importing cluster and one name, and its guard for all names together. It is pure, like
//! [`sources`]. The objects of the cluster are read before the exports: nothing leaves an import by a read that is
//! older than the import, and a change of an object that has changed since is refused.

pub mod apply;
pub mod observe;
pub mod plan;
pub mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use tokio::sync::OnceCell;

use crate::guard::GuardStatus;
use crate::kubernetes::{Error, Kubernetes};
use crate::model::{
    ClusterId, Family, Kind, Line, Member, Notice, ObjectRef, Outcome, Policy, RefusedField,
    Selection, ServiceRef, Timestamp, Tone, is_derived_service, join,
};
use crate::time::Deadline;
use apply::{Applied, Made, apply};
use observe::Objects;
use plan::{
    Basis, EXCLUDED, FailedWrite, GuardedRun, Metadata, NamespaceState, OwnerLabel, Plan, Present,
    Read, Reason, Tally, Unexpected, Write, as_exported, has_noted_fields, noted_fields,
    ready_endpoints,
};
use sources::{Allows, Members};

pub use apply::{ImportOutcome, ImportRemoval, Imported};

/// The number of imports that are written at once. The API server limits each user's requests.
const SIDE_BY_SIDE: usize = 16;

/// An importing cluster.
pub struct Importing<'a> {
    pub kubernetes: &'a Kubernetes,
    pub owner: &'a OwnerLabel,
    pub member: &'a Member,
    /// The objects of its imports, read before the exports.
    pub objects: &'a Objects,
    pub own_record: OwnRecord,
    /// Whether the plan is carried out.
    pub writes: bool,
    /// Under another one than `sync` the imports stand still.
    pub policy: Policy,
    /// The guard against mass deletion.
    pub guard: GuardedRun<'a>,
    /// Whether an address may be imported.
    pub allows: Allows<'a>,
    pub now: Timestamp,
    pub deadline: Deadline,
}

/// The record of an importing cluster in Cloud Map, as far as this invocation has written or found it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnRecord {
    /// The run was about other clusters, or refused this one: the members that were read show it.
    #[default]
    Unknown,
    Stands,
    /// It could not be written, in a Cloud Map that is the cluster's: endpoints come into its imports, and none leaves.
    Refused,
}

impl Importing<'_> {
    /// Makes the selected imports what the exports of all members say.
    pub async fn run(&self, members: &Members<'_>, selection: &Selection) -> Imported {
        let names = self.names(members, selection);
        if self.policy != Policy::Sync {
            return self.standing_still(names);
        }
        let is_unfamiliar = self.is_unfamiliar(members);
        let noted = members.sighting_note_of(&self.member.cluster);
        let families = self.kubernetes.service_families();
        let unread = members.unread_records().collect();
        let mut imported = Imported { is_unfamiliar, unread, ..Imported::default() };
        // The version of the API server, which is asked at most once. `None` if it does not say.
        let server: OnceCell<Option<String>> = OnceCell::new();
        let mut imports = Vec::new();
        for name in names {
            match self.import(members, name.clone(), is_unfamiliar) {
                Ok(mut import) => {
                    if has_noted_fields(self.owner, &import.present) {
                        let version = async || self.kubernetes.version().await.ok();
                        import.server = server.get_or_init(version).await.clone();
                    }
                    let unread = import.exports.named.unread.as_ref();
                    imported.unread.extend(unread.map(|it| format!("{}: {it}", import.name)));
                    imports.push(import);
                }
                Err(problem) => {
                    imported.imports.insert(name, ImportOutcome::unreadable(&problem));
                }
            }
        }
        let passed = members.let_pass();
        let tallies = imports.iter().map(|import| (import.name.clone(), import.tally(&passed)));
        let tallies: BTreeMap<ServiceRef, Tally> = tallies.collect();
        let judgement = self.guard.judge(&tallies, noted.as_ref());
        let status = judgement.status.clone().map(Arc::new);
        let runs = imports.into_iter().map(|import| {
            let held = judgement.held(&import.name).zip(status.clone());
            let endpoints = tallies[&import.name].endpoints;
            self.one(import, (endpoints, families.as_slice()), held)
        });
        let runs: Vec<_> = stream::iter(runs).buffered(SIDE_BY_SIDE).collect().await;
        imported.imports.extend(runs);
        let note = judgement.note(&self.guard, noted.as_ref(), imported.is_complete());
        Imported { guard: status.clone(), note: note.filter(|_| self.writes), ..imported }
    }

    /// The imports of these names as they are, under a policy by which none is changed.
    fn standing_still(&self, names: BTreeSet<ServiceRef>) -> Imported {
        let is_told = self.guard.extent.is_whole() || !self.writes;
        let stands_still = is_told.then_some(self.policy);
        let mut imported = Imported { stands_still, ..Imported::default() };
        for name in names {
            let outcome = match self.objects.present(&name) {
                Ok(present) => {
                    let import = present.import.as_ref();
                    let exists = import.is_some_and(|import| self.owner.owns(&import.metadata));
                    let endpoints = ready_endpoints(self.owner, &present);
                    ImportOutcome { exists, endpoints, ..ImportOutcome::default() }
                }
                Err(problem) => ImportOutcome::unreadable(&problem),
            };
            imported.imports.insert(name, outcome);
        }
        imported
    }

    /// Whether this may be another Cloud Map than that of the imports: it has no record of this cluster.
    fn is_unfamiliar(&self, members: &Members<'_>) -> bool {
        !members.is_unread
            && self.own_record == OwnRecord::Unknown
            && !members.has_record_under_any_id(self.guard.cluster)
            && self.objects.has_imports(self.owner)
    }

    /// The names to import or to end; what is left of an import that nothing names ends by its derived Service. While Cloud
    /// Map cannot be read, an import ends by no read: perhaps another member exports the name.
    fn names(&self, members: &Members<'_>, selection: &Selection) -> BTreeSet<ServiceRef> {
        let mut names = members.names().clone();
        if !members.is_unread {
            names.extend(self.objects.names(self.owner));
            let left = self.objects.beside(&names).into_iter();
            let is_left = |it: &ServiceRef| {
                let objects = self.objects.present(it);
                is_derived_service(&it.name) && objects.is_ok_and(|it| it.is_orphaned())
            };
            let left = left.filter(is_left);
            names.extend(left.map(|it| members.name_of(&it).cloned().unwrap_or(it)));
        }
        names.retain(|name| selection.contains(name));
        names
    }

    /// One import; its problem if one of its objects cannot be read.
    fn import<'a>(
        &'a self,
        members: &Members<'_>,
        name: ServiceRef,
        is_unfamiliar: bool,
    ) -> Result<ImportRun<'a>, Unexpected> {
        let present = self.objects.present(&name)?;
        let mut exports = members.known(&name, (self.guard.cluster, self.allows));
        if members.is_out_of_sight(&name) {
            // Those of AWS's controller have no record that would say whether they still export it.
            for cluster in present.holders() {
                exports.sources.by_cluster.entry(cluster).or_insert(Read::Unread);
            }
        }
        let ahead = plan::ahead(self.owner, &present, &exports.sources, self.now).into_iter();
        let ahead = ahead.filter(|cluster| members.may_be_behind(cluster, &name));
        let moved = present.holders().into_iter().filter(|it| members.may_have_moved(it));
        let unknown = ahead.chain(moved).map(|cluster| (cluster, Read::Unread));
        exports.sources.by_cluster.extend(unknown);
        if is_unfamiliar {
            exports.sources.restrain(|read| if read.is_read_there() { read } else { Read::Unread });
        } else if self.own_record == OwnRecord::Refused {
            exports.sources.restrain(Read::additions);
        }
        Ok(ImportRun {
            importing: self,
            name,
            present,
            exports,
            refused: BTreeSet::new(),
            server: None,
            failure: None,
            kept_ips: usize::MAX,
        })
    }

    /// The state of a namespace, as far as it is known by now.
    fn namespace(&self, name: &str) -> NamespaceState {
        match self.objects.namespace(name) {
            NamespaceState::Active if self.kubernetes.excludes_namespace(name, self.now) => {
                NamespaceState::Excluded
            }
            state => state,
        }
    }

    /// `endpoints` are those after the plan with these families of the cluster.
    async fn one(
        &self,
        mut import: ImportRun<'_>,
        (mut endpoints, families): (usize, &[Family]),
        held: Option<(usize, Arc<GuardStatus>)>,
    ) -> (ServiceRef, ImportOutcome) {
        let left_out = std::mem::take(&mut import.exports.left_out);
        let is_held = held.is_some();
        let guard = held.map(|(endpoints, status)| {
            import.hold();
            Reason::Guard { endpoints, status }
        });
        if is_held || families != self.kubernetes.service_families() {
            endpoints = import.tally(&BTreeSet::new()).endpoints;
        }
        let outcome = import.run().await;
        let sources = (!self.writes).then_some(import.exports.sources);
        let mut outcome = ImportOutcome { endpoints, sources, ..outcome };
        outcome.exists |= is_held;
        // The run may have found out that the namespace is excluded.
        let is_active = self.namespace(&import.name.namespace) == NamespaceState::Active;
        outcome.held_back.extend(left_out.into_iter().filter(|_| is_active).chain(guard));
        (import.name, outcome)
    }
}

/// One import, with all that its plan rests on.
struct ImportRun<'a> {
    importing: &'a Importing<'a>,
    name: ServiceRef,
    present: Present,
    exports: sources::MergedName,
    /// The fields that the API server refused or did not keep in this run.
    refused: BTreeSet<RefusedField>,
    /// The version of the API server, once it matters.
    server: Option<String>,
    /// The change that failed in this run.
    failure: Option<FailedWrite>,
    /// The number of its IPs for which the next derived Service asks.
    kept_ips: usize,
}

impl ImportRun<'_> {
    /// Plans and changes it, and again if the cluster has no addresses of a family, another owner's object has a name of
    /// the import, the namespace is excluded or a field is refused, or for the slices and the status if a change failed.
    async fn run(&mut self) -> ImportOutcome {
        let Importing { kubernetes, member, writes, deadline, .. } = *self.importing;
        let merged = self.exports.named.merged.as_ref();
        let exists = merged.is_some();
        let merged = merged.filter(|it| it.service.clusters.contains(&member.cluster)).cloned();
        let mut outcome = ImportOutcome { exists, merged, ..ImportOutcome::default() };
        let former_ips = self.present.import.as_ref().map(|it| it.ips.clone());
        // The lists of a full sync are by our label: it would ask each time for the Service that another owner's prevents.
        let may_stand = former_ips.is_some() && self.importing.guard.extent.is_whole();
        loop {
            let families = kubernetes.service_families();
            let refused = self.refused_fields();
            let state = self.importing.namespace(&self.name.namespace);
            let plan = self.on_basis(&families, plan::plan);
            if may_stand && self.finds_foreign(&plan).await {
                continue;
            }
            if !writes {
                outcome.made = plan.changes.into_iter().map(Made::planned).collect();
                outcome.held_back = plan.held_back;
                return outcome;
            }
            let present = &mut self.present;
            let mut applied = apply(kubernetes, present, plan.changes, deadline).await;
            let has_foreign = self.add_foreign(&mut applied, &mut outcome.held_back);
            let planned_for = (families.as_slice(), &refused, state);
            let has_learnt = self.learn(&mut applied, planned_for).await || has_foreign;
            outcome.is_outdated =
                !has_learnt && applied.failure.as_ref().is_some_and(Error::is_outdated);
            outcome.is_unfinished =
                !has_learnt && (outcome.is_unfinished || applied.is_unfinished());
            let failure = applied.failed.filter(|_| !outcome.is_outdated);
            outcome.made.extend(applied.made);
            if has_learnt || failure.is_some() {
                outcome.forget_changes_to_plan_again(has_learnt);
                self.failure = failure.filter(|_| !has_learnt).or(self.failure.take());
                if applied.unreadable.is_none() {
                    continue;
                }
            }
            outcome.unreadable = applied.unreadable.map(|it| it.to_string());
            outcome.held_back.splice(..0, plan.held_back);
            outcome.notices.extend(former_ips.and_then(|former| self.notice_of_ips(&former)));
            return outcome;
        }
    }

    /// Notes what the API server refused. Returns whether the next plan does without it: the plan knew the families,
    /// the refused fields and the state of the namespace, and an import beside it may have learnt the same meanwhile.
    async fn learn(
        &mut self,
        applied: &mut Applied,
        (families, refused, state): (&[Family], &BTreeSet<RefusedField>, NamespaceState),
    ) -> bool {
        let Importing { kubernetes, now, .. } = self.importing;
        let mut fields = std::mem::take(&mut applied.refused);
        if let Some(merged) = &self.exports.named.merged {
            fields = as_exported(fields, &merged.service);
        }
        let lacks_fields = fields.iter().any(|field| !refused.contains(field));
        self.refused.extend(fields);
        if lacks_fields && self.server.is_none() {
            self.server = kubernetes.version().await.ok();
        }
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
        let mut fields = failure.invalid_fields().into_iter();
        let refuses_ips =
            self.kept_ips > 0 && fields.any(|field| field.starts_with("spec.clusterIP"));
        if refuses_ips {
            // After both the primary one alone, and then another one.
            let ips = self.present.import.as_ref().map_or(0, |import| import.ips.len());
            self.kept_ips = usize::from(self.kept_ips.min(ips) > 1);
        }
        lacks_fields || missing.is_some() || is_excluded || refuses_ips
    }

    /// The notice that clients find the import under another IP, since the API server refused a former one.
    fn notice_of_ips(&self, former: &[IpAddr]) -> Option<Notice> {
        let import = self.present.import.as_ref().filter(|_| self.kept_ips != usize::MAX)?;
        let ips = self.present.derived.as_ref().map(|derived| &derived.cluster_ips)?;
        let lost: Vec<&IpAddr> = former.iter().filter(|ip| !ips.contains(ip)).collect();
        (!lost.is_empty() && !ips.is_empty()).then(|| Notice {
            about: Kind::ServiceImport,
            tone: Tone::Warning,
            service: self.name.clone(),
            uid: import.metadata.uid.clone(),
            line: Line::new(
                '!',
                "ClusterSetIPChanged",
                format!(
                    "its derived Service was deleted, and the API server gives {} to no new one: the IPs are {} now",
                    join(&lost, " and "),
                    join(ips, " and ")
                ),
                Outcome::Remark,
            ),
        })
    }

    /// Looks for the derived Service that is to be created. Returns whether another owner's has its name, which the next
    /// plan knows.
    async fn finds_foreign(&mut self, plan: &Plan) -> bool {
        let Importing { kubernetes, owner, deadline, .. } = self.importing;
        let mut created = plan.changes.iter().filter(|it| it.write == Write::Create);
        let created = created.find(|it| it.object.kind == Kind::Service);
        let Some(created) = created.filter(|_| deadline.is_open()) else { return false };
        // The creation reports an error, or an object that cannot be read.
        let found = kubernetes.object(&created.object).await.ok().flatten();
        let foreign = found.filter(|found| !owner.owns(&Metadata::read(found)));
        foreign.is_some_and(|foreign| self.present.store(Kind::Service, &foreign).is_ok())
    }

    /// Takes over an object of another owner that has the name of one to be created, so that the next plan knows it. One
    /// of ours is of an overlapping run: it is newer than the exports that this one read.
    fn add_foreign(&mut self, applied: &mut Applied, held_back: &mut Vec<Reason>) -> bool {
        let Some((kind, object)) = applied.taken.take() else { return false };
        let metadata = Metadata::read(&object);
        if self.importing.owner.owns(&metadata) {
            return false;
        }
        applied.unreadable = self.present.store(kind, &object).err().or(applied.unreadable.take());
        if kind == Kind::EndpointSlice {
            // It is in the way of nothing, since the next number is free. No later plan repeats this line.
            let object = ObjectRef::of(&self.name, kind, &metadata.name);
            held_back.push(Reason::ForeignObject { object, manager: metadata.manager });
        }
        true
    }

    /// Its ready endpoints before and after its plan.
    fn tally(&self, passed: &BTreeSet<ClusterId>) -> Tally {
        let families = self.importing.kubernetes.service_families();
        self.on_basis(&families, |basis| Tally::of(basis, passed))
    }

    /// The guard keeps what would leave the import.
    fn hold(&mut self) {
        let families = self.importing.kubernetes.service_families();
        self.exports.sources = self.on_basis(&families, plan::hold);
    }

    /// The fields that the import does without.
    fn refused_fields(&self) -> BTreeSet<RefusedField> {
        let noted = noted_fields(self.importing.owner, &self.present, self.server.as_deref());
        &noted | &self.refused
    }

    fn on_basis<T>(&self, families: &[Family], decide: impl FnOnce(&Basis<'_>) -> T) -> T {
        let Importing { owner, member, objects, now, .. } = self.importing;
        decide(&Basis {
            owner,
            importer: &member.cluster,
            available: families,
            refused: &self.refused_fields(),
            server: self.server.as_deref(),
            declares_slice_objects: objects.declares_slice_objects,
            service: &self.name,
            namespace: self.importing.namespace(&self.name.namespace),
            merged: self.exports.named.merged.as_ref().map(|merged| &merged.service),
            sources: &self.exports.sources,
            present: &self.present,
            failure: self.failure.as_ref(),
            kept_ips: self.kept_ips,
            now: *now,
        })
    }
}

impl ImportOutcome {
    /// Forgets what the next plan of the import repeats: all that was not done, if it does without what was refused, or
    /// the slices, which are written though another change failed.
    fn forget_changes_to_plan_again(&mut self, has_learnt: bool) {
        self.made.retain(|Made { change, result }| match result {
            Outcome::Undone { .. } => !has_learnt && change.object.kind != Kind::EndpointSlice,
            result => !has_learnt || *result == Outcome::Applied,
        });
    }
}
