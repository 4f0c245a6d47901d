//! From Cloud Map into Kubernetes: the clusterset services of a cluster as ServiceImports, each with a derived Service
//! that has its virtual IP, and with EndpointSlices.
//!
//! ```text
//! exports of all members ─> sources: merge ─> plan ─> apply: changes in order ─> API server of the importing cluster
//! objects of the cluster (observe) ─────────────┘
//! ```
//!
//! [`plan`] decides for one importing cluster and one name. It is pure, like [`sources`]. The objects of the cluster are
//! read before the exports: nothing leaves an import by a read that is older than the import, and a change of an object
//! that has changed since is refused.

pub mod apply;
pub mod observe;
pub mod plan;
pub mod read;
pub mod sources;

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
use serde_json::Value;

use crate::clusterset::merge::Merged;
use crate::error::chain;
use crate::kubernetes::{Error, Kubernetes};
use crate::model::clusterset::{ClusterId, Member};
use crate::model::{ClusterArn, Family, Selection, ServiceRef, Timestamp};
use crate::time::Deadline;
use apply::{Applied, Made, Outcome};
use observe::Objects;
use plan::{Basis, Change, HeldBack, Importer, Known, OwnerLabel, Plan, Present, Read, Stage};
use read::Unexpected;
use sources::Members;

/// The number of imports that are written at once. The API server limits each user's requests.
const SIDE_BY_SIDE: usize = 16;

/// An importing cluster.
pub struct Importing<'a> {
    pub kubernetes: &'a Kubernetes,
    pub owner: &'a OwnerLabel,
    pub member: &'a Member,
    pub arn: &'a ClusterArn,
    /// The objects of its imports, read before the exports.
    pub objects: &'a Objects,
    /// Whether the cluster exports, too: then it has a record in Cloud Map.
    pub exports: bool,
    /// Whether the plan is carried out.
    pub writes: bool,
    pub now: Timestamp,
    pub deadline: Deadline,
}

/// The imports of a cluster in one run.
#[derive(Debug, Default)]
pub struct Imported {
    /// The number of imports that the cluster has or shall have.
    pub imports: usize,
    /// The merged exports of the names that the cluster exports itself.
    pub merged: BTreeMap<ServiceRef, Merged>,
    pub made: Vec<Made>,
    pub held_back: Vec<HeldBack>,
    /// The imports of which an object cannot be read.
    pub unreadable: Vec<(ServiceRef, String)>,
    /// Whether Cloud Map lacks the record of this cluster although it has imports: it may be another account's.
    pub is_unfamiliar: bool,
}

/// The imports of one name.
#[derive(Default)]
struct One {
    is_import: bool,
    merged: Option<(ServiceRef, Merged)>,
    made: Vec<Made>,
    held_back: Vec<HeldBack>,
    unreadable: Option<(ServiceRef, String)>,
}

impl Importing<'_> {
    /// Makes the selected imports what the exports of all members say.
    pub async fn run(&self, members: &Members<'_>, selection: &Selection) -> Imported {
        let is_unfamiliar = self.exports
            && !members.has_record_of(&self.member.cluster)
            && self.objects.has_imports(self.owner);
        let all = members.names().into_iter().chain(self.objects.names(self.owner));
        let names: BTreeSet<ServiceRef> = all.filter(|name| selection.contains(name)).collect();
        let runs = names.into_iter().map(|name| self.one(members, name, is_unfamiliar));
        let mut imported = Imported { is_unfamiliar, ..Imported::default() };
        let mut runs = stream::iter(runs).buffered(SIDE_BY_SIDE);
        while let Some(one) = runs.next().await {
            imported.imports += usize::from(one.is_import);
            imported.merged.extend(one.merged);
            imported.made.extend(one.made);
            imported.held_back.extend(one.held_back);
            imported.unreadable.extend(one.unreadable);
        }
        imported
    }

    async fn one(&self, members: &Members<'_>, name: ServiceRef, is_unfamiliar: bool) -> One {
        let present = match self.objects.present(&name) {
            Ok(present) => present,
            Err(problem) => {
                let unreadable = Some((name, problem.to_string()));
                return One { unreadable, ..One::default() };
            }
        };
        let mut exports = members.known(&name, self.arn);
        if is_unfamiliar {
            exports.sources = members.own_reads_only(exports.sources);
        }
        Import { importing: self, name, present, exports }.run().await
    }
}

/// One import, with all that its plan rests on.
struct Import<'a> {
    importing: &'a Importing<'a>,
    name: ServiceRef,
    present: Present,
    exports: sources::Known,
}

impl Import<'_> {
    async fn run(mut self) -> One {
        let own = &self.importing.member.cluster;
        let merged = self.exports.merged.as_ref();
        let is_import = merged.is_some();
        let merged = merged.filter(|it| it.service.clusters.contains(own)).cloned();
        let merged = merged.map(|merged| (self.name.clone(), merged));
        let mut one = One { is_import, merged, ..One::default() };
        let mut known = Known::of(&self.present);
        loop {
            let families = self.importing.kubernetes.service_families();
            let plan = self.plan(&families, None);
            if !self.importing.writes {
                return one.planned(plan);
            }
            let applied = self.apply(&mut known, &plan.changes).await;
            let missing = applied.missing_family().filter(|family| families.contains(family));
            let import = applied.import.clone();
            let failure = one.add(applied, plan.held_back);
            if let Some(family) = missing {
                self.importing.kubernetes.lacks_family(family);
                one.forget_failures();
                match self.take_over(import) {
                    Ok(()) => continue,
                    Err(problem) => one.unreadable = Some((self.name, problem.to_string())),
                }
            } else if let Some(failure) = failure {
                let plan = self.plan(&families, Some(&failure));
                one.add(self.write_status(&mut known, plan).await, Vec::new());
            }
            return one;
        }
    }

    /// Takes over the ServiceImport as it was stored before the derived Service was refused. It is not read again: the
    /// objects of an import are read before the exports.
    fn take_over(&mut self, import: Option<Value>) -> Result<(), Unexpected> {
        if let Some(import) = import {
            self.present.import = Some(read::import(&import)?);
        }
        Ok(())
    }

    fn plan(&self, families: &[Family], failure: Option<&str>) -> Plan {
        let Importing { owner, member, objects, now, .. } = self.importing;
        let importer = Importer {
            cluster: member.cluster.clone(),
            families: families.to_vec(),
            declares_slice_objects: objects.declares_slice_objects,
        };
        plan::plan(&Basis {
            owner,
            importer: &importer,
            service: &self.name,
            namespace: objects.namespace(&self.name.namespace),
            merged: self.exports.merged.as_ref().map(|merged| &merged.service),
            sources: &self.exports.sources,
            present: &self.present,
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

    /// Returns the failure, if a change failed.
    fn add(&mut self, applied: Applied, held_back: Vec<HeldBack>) -> Option<String> {
        let failure = applied.failure.as_ref().map(|error| chain(error));
        self.made.extend(applied.made);
        self.held_back.extend(held_back);
        failure
    }

    /// The cluster refused a family, and the plan is made for another.
    fn forget_failures(&mut self) {
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

impl Members<'_> {
    /// The same sources, without those that rest on Cloud Map.
    fn own_reads_only(&self, mut sources: plan::Sources) -> plan::Sources {
        let is_own = |cluster: &ClusterId| self.is_overlaid(cluster);
        for (cluster, read) in &mut sources.by_cluster {
            if !is_own(cluster) {
                *read = Read::Unread;
            }
        }
        sources.is_complete = false;
        sources
    }
}
