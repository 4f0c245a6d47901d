//! Writes the clusterset services of Cloud Map to an importing cluster: each as a ServiceImport, a derived Service with
//! its virtual IP, and EndpointSlices.
//!
//! ```text
//! exports of all members ─> sources: merge ─> plan ─> guard ─> apply: changes in order ─> API server of the cluster
//! objects of the cluster (observe) ─────────────┘
//! ```
//!
//! [`plan`] decides for one importing cluster and one name; its guard judges all names together. It is pure, like
//! [`sources`]. The objects of the cluster are read before the exports. The exports that a plan uses are therefore
//! never older than the objects that it changes, and the plan does not remove what an overlapping run has just added.
//! If an overlapping run or a person changes an object after the read, our change of it fails with a conflict. The name
//! is then read, planned and written again as a whole.

pub mod apply;
pub mod observe;
pub mod plan;
pub mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use futures_util::{StreamExt, stream};
use tokio::sync::OnceCell;

use crate::error::chain;
use crate::guard::GuardStatus;
use crate::kubernetes::Kubernetes;
use crate::model::{
    Family, Kind, Line, Notice, NoticeKind, ObjectRef, Outcome, Policy, RefusedField, Selection,
    ServiceRef, Timestamp, is_derived_service, join,
};
use crate::time::Deadline;
use apply::{Applied, Failure, apply};
use observe::Objects;
use plan::{
    EXCLUDED, FailedWrite, GuardedRun, HeldParts, Metadata, NamespaceState, NoteChange, OwnerLabel,
    Plan, PlanInput, Present, Reason, Tally, Write, noted_fields, noted_server, ready_endpoints,
    with_exported_values,
};
use sources::{ExportsForImporter, Importer, Members};

pub use apply::{ImportOutcome, ImportRemoval, Imported, Made};

/// The number of imports that are written at once. The API server limits each user's requests.
const CONCURRENT_IMPORTS: usize = 16;
/// The maximum number of attempts for an import whose objects other writers change. After that the next run continues.
const MAX_ATTEMPTS: usize = 3;

/// An importing cluster.
pub struct Importing<'a> {
    pub kubernetes: &'a Kubernetes,
    pub owner_label: &'a OwnerLabel,
    /// The cluster as a member of its clusterset.
    pub importer: Importer<'a>,
    /// The objects of its imports, read before the exports.
    pub objects: &'a Objects,
    /// Whether the plan is carried out.
    pub writes: bool,
    /// Imports are changed only under the policy `sync`.
    pub policy: Policy,
    /// The guard against mass deletion.
    pub guard: GuardedRun<'a>,
    pub now: Timestamp,
    pub deadline: Deadline,
}

/// Reads the exports of a name again, for an import with these objects. `None` if they cannot be read.
pub type ReadAgain<'a> =
    &'a dyn Fn(ServiceRef, Present) -> LocalBoxFuture<'a, Option<ExportsForImporter>>;

impl Importing<'_> {
    /// Brings the selected imports in step with the exports of all members.
    pub async fn run(
        &self,
        members: &Members<'_>,
        selection: &Selection,
        read_again: ReadAgain<'_>,
    ) -> Imported {
        let names = self.names(members, selection);
        if self.policy != Policy::Sync {
            return self.report_unchanged(names);
        }
        let Importer { member, owner, .. } = self.importer;
        let lacks_own_record =
            members.lacks_own_record(member, owner) && self.objects.has_imports(self.owner_label);
        let families = self.kubernetes.service_families();
        let read_problems = members.unread_records().collect();
        let mut imported = Imported { lacks_own_record, read_problems, ..Imported::default() };
        // The version of the API server, read at most once. `None` if the read failed.
        let server: OnceCell<Option<String>> = OnceCell::new();
        let mut imports = Vec::new();
        for name in names {
            let mut import = self.prepare(members, name);
            if let Some(noted) = noted_server(self.owner_label, &import.present) {
                let version = async || self.kubernetes.version().await.ok();
                import.server = server.get_or_init(version).await.clone().or(Some(noted));
            }
            let unread = import.exports.named.unread.as_ref();
            imported
                .read_problems
                .extend(unread.map(|problem| format!("{}: {problem}", import.name)));
            imports.push(import);
        }
        let tallies = imports.iter().map(|import| (import.name.clone(), import.tally()));
        let tallies: BTreeMap<ServiceRef, Tally> = tallies.collect();
        let notes = imports.iter().filter_map(|import| {
            Some((import.name.clone(), plan::note(self.owner_label, &import.present)?))
        });
        let notes = notes.collect();
        let judgement = self.guard.judge(&tallies, &notes);
        let runs = imports.into_iter().map(|mut import| {
            let tally = &tallies[&import.name];
            let noted = notes.get(&import.name);
            import.note = judgement.note(&self.guard, &import.name, tally, noted);
            let held = judgement.held(&import.name);
            let held =
                held.map(|(parts, held_endpoints, status)| (parts, held_endpoints, status.clone()));
            self.run_import(import, (tally.endpoints, families.as_slice()), held, read_again)
        });
        let runs: Vec<_> = stream::iter(runs).buffered(CONCURRENT_IMPORTS).collect().await;
        imported.imports.extend(runs);
        Imported { guard: judgement.status().cloned(), ..imported }
    }

    /// Reports the imports of these names unchanged, for a policy that forbids changes.
    fn report_unchanged(&self, names: BTreeSet<ServiceRef>) -> Imported {
        let is_reported = self.guard.extent.is_full_sync() || !self.writes;
        let frozen_by = is_reported.then_some(self.policy);
        let mut imported = Imported { frozen_by, ..Imported::default() };
        for name in names {
            let endpoints = ready_endpoints(self.owner_label, &self.objects.present(&name));
            imported.imports.insert(name, ImportOutcome { endpoints, ..ImportOutcome::default() });
        }
        imported
    }

    /// Returns the names of the imports to create, update or end. The name of a derived Service is a hash, so the
    /// leftover objects of a deleted import are listed under it, unless Cloud Map has a service whose name has this
    /// hash. If Cloud Map cannot be read, only the names that the served clusters export are returned, since an unknown
    /// member may export the others.
    fn names(&self, members: &Members<'_>, selection: &Selection) -> BTreeSet<ServiceRef> {
        let mut names = members.names().clone();
        if !members.is_unread() {
            names.extend(self.objects.names(self.owner_label));
            let leftovers = self.objects.leftovers(&names).into_iter();
            let needs_removal = |name: &ServiceRef| {
                is_derived_service(&name.name) && self.objects.present(name).is_orphaned()
            };
            let leftovers = leftovers.filter(needs_removal);
            names.extend(leftovers.map(|name| members.name_of(&name).cloned().unwrap_or(name)));
        }
        names.retain(|name| selection.contains(name));
        names
    }

    fn prepare(&self, members: &Members<'_>, name: ServiceRef) -> ImportRun<'_> {
        let present = self.objects.present(&name);
        let exports = members.exports_for(&name, &self.importer, &present.clusters());
        self.new_run(name, present, exports)
    }

    fn new_run(
        &self,
        name: ServiceRef,
        present: Present,
        exports: ExportsForImporter,
    ) -> ImportRun<'_> {
        ImportRun {
            importing: self,
            name,
            present,
            exports,
            refused: BTreeSet::new(),
            server: None,
            failures: Vec::new(),
            note: NoteChange::Keep,
            max_kept_ips: usize::MAX,
        }
    }

    /// Reads an import again whose objects have changed since they were read. Returns `None` if the read fails.
    async fn import_again(
        &self,
        import: &ImportRun<'_>,
        read_again: ReadAgain<'_>,
    ) -> Option<ImportRun<'_>> {
        let name = &import.name;
        let read = Objects::read_named(self.kubernetes, self.owner_label, [name]);
        let objects = self.deadline.until_stop(read).await.ok()?;
        let objects = objects.inspect_err(|error| {
            tracing::warn!("import {name} not read again: {}", chain(error));
        });
        let present = objects.ok()?.present(name);
        let read = read_again(name.clone(), present.clone());
        let exports = self.deadline.until_stop(read).await.ok()??;
        let again = self.new_run(name.clone(), present, exports);
        Some(ImportRun { server: import.server.clone(), note: import.note.clone(), ..again })
    }

    /// Returns the state of a namespace. It is excluded if the admission policy refused an earlier write in it.
    fn namespace(&self, name: &str) -> NamespaceState {
        match self.objects.namespace(name) {
            NamespaceState::Active if self.kubernetes.excludes_namespace(name, self.now) => {
                NamespaceState::Excluded
            }
            state => state,
        }
    }

    /// Runs one import, up to [`MAX_ATTEMPTS`] times while other writers change its objects. `endpoints` is the
    /// number of ready endpoints after a plan for these families of the cluster. `held` has the parts that the guard
    /// holds, the number of endpoints that they would lose, and the verdict.
    async fn run_import<'a>(
        &'a self,
        mut import: ImportRun<'a>,
        (mut endpoints, families): (usize, &[Family]),
        held: Option<(HeldParts, usize, Arc<GuardStatus>)>,
        read_again: ReadAgain<'_>,
    ) -> (ServiceRef, ImportOutcome) {
        let parts = held.as_ref().map(|(parts, ..)| parts.clone());
        let guard = held.map(|(parts, held_endpoints, status)| {
            import.hold(&parts);
            Reason::Guard { endpoints: held_endpoints, status }
        });
        if guard.is_some() || families != self.kubernetes.service_families() {
            endpoints = import.tally().endpoints;
        }
        let mut outcome = import.run().await;
        for _ in 1..MAX_ATTEMPTS {
            if !outcome.is_outdated {
                break;
            }
            let Some(mut again) = self.import_again(&import, read_again).await else { break };
            if let Some(parts) = &parts {
                again.hold(parts);
            }
            endpoints = again.tally().endpoints;
            let next = again.run().await;
            outcome = outcome.followed_by(next);
            import = again;
        }
        let ExportsForImporter { sources, left_out, .. } = import.exports;
        let sources = (!self.writes).then_some(sources);
        let mut outcome = ImportOutcome { endpoints, sources, ..outcome };
        // The run may have found out that the namespace is excluded.
        let is_active = self.namespace(&import.name.namespace) == NamespaceState::Active;
        outcome.held_back.extend(left_out.into_iter().filter(|_| is_active).chain(guard));
        (import.name, outcome)
    }
}

/// One import, with the inputs of its plan.
struct ImportRun<'a> {
    importing: &'a Importing<'a>,
    name: ServiceRef,
    present: Present,
    exports: ExportsForImporter,
    /// The fields that the API server refused or did not keep in this run.
    refused: BTreeSet<RefusedField>,
    /// The version of the API server. If it cannot be read, it is the one noted on the objects. `None` if the objects
    /// have no note of a refused field, and the API server has refused none in this run.
    server: Option<String>,
    /// The changes that failed in this run.
    failures: Vec<FailedWrite>,
    /// Whether the guard's note is kept, written or removed.
    note: NoteChange,
    /// The maximum number of the import's IPs that a new derived Service requests. `usize::MAX` until the API server
    /// refuses one of them.
    max_kept_ips: usize,
}

impl ImportRun<'_> {
    /// Plans the import and applies the plan. Plans again without what the API server refused: a family, a name that
    /// another owner's object has, an excluded namespace, a field or an IP. If changes failed, plans again for the
    /// slices and the status.
    async fn run(&mut self) -> ImportOutcome {
        let Importing { kubernetes, importer, writes, deadline, .. } = *self.importing;
        let member = importer.member;
        let merged = self.exports.named.merged_if_complete();
        let merged = merged.filter(|merged| merged.service.clusters.contains(&member.cluster));
        let mut outcome = ImportOutcome { merged, ..ImportOutcome::default() };
        let former_ips = self.present.import.as_ref().map(|import| import.ips.clone());
        // A full sync lists only objects with our label, so it misses another owner's Service under the derived name.
        // Without this read, every full sync would try to create the derived Service.
        let may_have_foreign = former_ips.is_some() && self.importing.guard.extent.is_full_sync();
        loop {
            let families = kubernetes.service_families();
            let refused = self.refused_fields();
            let state = self.importing.namespace(&self.name.namespace);
            let plan = self.with_input(&families, plan::plan);
            if may_have_foreign && self.finds_foreign(&plan).await {
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
            outcome.is_outdated = !has_learnt && applied.is_outdated();
            outcome.is_unfinished =
                !has_learnt && (outcome.is_unfinished || applied.is_unfinished());
            outcome.made.extend(applied.made);
            let has_failed = !applied.failures.is_empty() && !outcome.is_outdated;
            if has_learnt || has_failed {
                outcome.forget_changes_to_plan_again(has_learnt);
                if !has_learnt {
                    self.failures.extend(applied.failures.into_iter().map(|failure| failure.write));
                }
                continue;
            }
            // The plan reports denied changes as held back.
            let is_denied = |made: &Made| {
                let mut denied = self.failures.iter().filter(|failure| failure.is_denied);
                matches!(made.result, Outcome::Failed { .. })
                    && denied.any(|failure| failure.is_of(&made.change))
            };
            outcome.made.retain(|made| !is_denied(made));
            outcome.held_back.splice(..0, plan.held_back);
            outcome.notices.extend(former_ips.and_then(|former| self.notice_of_ips(&former)));
            return outcome;
        }
    }

    /// Remembers what the API server refused. Returns whether any of it was unknown to the plan, so that the next plan
    /// does without it. Compares with the plan's inputs, since a concurrent import may have learned the same since.
    async fn learn(
        &mut self,
        applied: &mut Applied,
        (families, refused, state): (&[Family], &BTreeSet<RefusedField>, NamespaceState),
    ) -> bool {
        let Importing { kubernetes, now, .. } = self.importing;
        let mut fields = std::mem::take(&mut applied.refused);
        if let Some(merged) = &self.exports.named.merged {
            // A request has only the labels and annotations that it changes. The next plan compares the exported ones.
            fields = with_exported_values(fields, &merged.service);
        }
        let has_new_refusals = fields.iter().any(|field| !refused.contains(field));
        self.refused.extend(fields);
        if has_new_refusals && self.server.is_none() {
            self.server = kubernetes.version().await.ok();
        }
        let mut has_learnt = has_new_refusals;
        for Failure { error, .. } in &applied.failures {
            let missing = error.missing_family().filter(|family| families.contains(family));
            if let Some(family) = missing {
                kubernetes.remember_missing_family(family);
            }
            let is_excluded = state == NamespaceState::Active && error.is_denied(EXCLUDED);
            if is_excluded {
                kubernetes.remember_excluded(&self.name.namespace, *now);
            }
            // Another Service has the IPs, or they are outside the cluster's ranges.
            let mut fields = error.invalid_fields().into_iter();
            let refuses_ips =
                self.max_kept_ips > 0 && fields.any(|field| field.starts_with("spec.clusterIP"));
            if refuses_ips {
                // If both IPs were refused, the next plan requests the primary one alone. After that it requests none.
                let ips = self.present.import.as_ref().map_or(0, |import| import.ips.len());
                self.max_kept_ips = usize::from(self.max_kept_ips.min(ips) > 1);
            }
            has_learnt |= missing.is_some() || is_excluded || refuses_ips;
        }
        has_learnt
    }

    /// Returns a notice that the import has another IP, because the API server refused a former one.
    fn notice_of_ips(&self, former: &[IpAddr]) -> Option<Notice> {
        let import = self.present.import.as_ref().filter(|_| self.max_kept_ips != usize::MAX)?;
        let ips = self.present.derived.as_ref().map(|derived| &derived.cluster_ips)?;
        let lost: Vec<&IpAddr> = former.iter().filter(|ip| !ips.contains(ip)).collect();
        (!lost.is_empty() && !ips.is_empty()).then(|| Notice {
            about: Kind::ServiceImport,
            tone: NoticeKind::Warning,
            service: self.name.clone(),
            uid: import.metadata.uid.clone(),
            line: Line::new(
                '!',
                "ClusterSetIPChanged",
                format!(
                    "its derived Service was deleted or lost its IPs, and the API server refused to give it {} again: its IPs are now {}",
                    join(&lost, " and "),
                    join(ips, " and ")
                ),
                Outcome::Remark,
            ),
        })
    }

    /// Reads the derived Service before the plan creates it. Returns whether another owner's Service has its name, and
    /// stores that for the next plan.
    async fn finds_foreign(&mut self, plan: &Plan) -> bool {
        let Importing { kubernetes, owner_label, deadline, .. } = self.importing;
        let mut created = plan.changes.iter().filter(|change| change.write == Write::Create);
        let created = created.find(|change| change.object.kind == Kind::Service);
        let Some(created) = created.filter(|_| deadline.is_open()) else { return false };
        // A read error is ignored, since the creation reports it.
        let found = kubernetes.object(&created.object).await.ok().flatten();
        let foreign = found.filter(|found| !owner_label.owns(&Metadata::read(found)));
        if let Some(foreign) = &foreign {
            self.present.store(Kind::Service, foreign);
        }
        foreign.is_some()
    }

    /// Stores other owners' objects under the names of objects to create, for the next plan. An object of ours is
    /// skipped: an overlapping run created it, so it is newer than the exports that this run read.
    fn add_foreign(&mut self, applied: &mut Applied, held_back: &mut Vec<Reason>) -> bool {
        let mut has_foreign = false;
        for (kind, object) in std::mem::take(&mut applied.name_conflicts) {
            let metadata = Metadata::read(&object);
            if self.importing.owner_label.owns(&metadata) {
                continue;
            }
            has_foreign = true;
            self.present.store(kind, &object);
            if kind == Kind::EndpointSlice {
                // A foreign slice blocks nothing, since the next number is free. Later plans do not report it, so it is
                // reported here.
                let object = ObjectRef::of(&self.name, kind, &metadata.name);
                held_back.push(Reason::ForeignObject { object, manager: metadata.manager });
            }
        }
        has_foreign
    }

    /// Counts the import's ready endpoints before and after its plan.
    fn tally(&self) -> Tally {
        let families = self.importing.kubernetes.service_families();
        self.with_input(&families, Tally::of)
    }

    /// Marks the parts that the guard holds, so that they stay in the import.
    fn hold(&mut self, parts: &HeldParts) {
        let families = self.importing.kubernetes.service_families();
        self.exports.sources = self.with_input(&families, |input| plan::hold(input, parts));
    }

    /// The fields that the import does without: noted on its objects, or refused in this run.
    fn refused_fields(&self) -> BTreeSet<RefusedField> {
        let noted = noted_fields(self.importing.owner_label, &self.present, self.server.as_deref());
        &noted | &self.refused
    }

    fn with_input<T>(&self, families: &[Family], decide: impl FnOnce(&PlanInput<'_>) -> T) -> T {
        let Importing { owner_label, importer, objects, now, .. } = self.importing;
        decide(&PlanInput {
            owner: owner_label,
            importer: &importer.member.cluster,
            available: families,
            refused: &self.refused_fields(),
            server: self.server.as_deref(),
            crd_has_slice_objects: objects.crd_has_slice_objects,
            service: &self.name,
            namespace: self.importing.namespace(&self.name.namespace),
            merged: self.exports.named.merged.as_ref().map(|merged| &merged.service),
            sources: &self.exports.sources,
            present: &self.present,
            failures: &self.failures,
            note: &self.note,
            max_kept_ips: self.max_kept_ips,
            now: *now,
        })
    }
}

impl ImportOutcome {
    /// Removes the outcomes that the next plan replaces. If the run has learned what to do without, only applied
    /// changes stay. Otherwise only the changes of slices that were not attempted are removed, since the next plan
    /// writes the slices in spite of the failure. It also writes the status, but a blocked status has no outcome
    /// ([`FailedWrite::is_reported_for`]).
    fn forget_changes_to_plan_again(&mut self, has_learnt: bool) {
        self.made.retain(|Made { change, result }| match result {
            Outcome::NotAttempted { .. } => {
                !has_learnt && change.object.kind != Kind::EndpointSlice
            }
            result => !has_learnt || *result == Outcome::Applied,
        });
    }
}
