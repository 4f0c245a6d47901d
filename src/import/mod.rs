//! From Cloud Map into Kubernetes: the clusterset services of a cluster as ServiceImports, each with a derived Service
//! that has its virtual IP, and with EndpointSlices.
//!
//! ```text
//! exports of all members ─> sources: merge ─> plan ─> guard ─> apply: changes in order ─> API server of the cluster
//! objects of the cluster (observe) ─────────────┘
//! ```
//!
//! [`plan`] decides for one importing cluster and one name, and [`guard`] for all names together. They are pure, like
//! [`sources`]. The objects of the cluster are read before the exports: nothing leaves an import by a read that is
//! older than the import, and a change of an object that has changed since is refused.

pub mod apply;
pub mod aws;
pub mod guard;
mod imported;
pub mod observe;
mod one;
pub mod plan;
pub mod purge;
pub mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::{StreamExt, stream};

use crate::guard::GuardStatus;
use crate::kubernetes::Kubernetes;
use crate::model::clusterset::{ClusterId, Member};
use crate::model::{ClusterArn, Family, Policy, Selection, ServiceRef, Timestamp};
use crate::time::Deadline;
use guard::Run;
use observe::Objects;
use one::Import;
use plan::{HeldBack, NamespaceState, OwnerLabel, Read, Reason, Tally, Unexpected};
use sources::{Allows, Members};

pub use imported::Imported;

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
    pub own_record: OwnRecord,
    /// Whether the imports of AWS's controller become ours. All others wait for the next sync.
    pub takes_over: bool,
    /// Whether the plan is carried out.
    pub writes: bool,
    pub policy: Policy,
    /// The guard against mass deletion.
    pub guard: Run<'a>,
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

impl OwnRecord {
    /// Whether this invocation wrote it, or tried to.
    pub fn is_decided(self) -> bool {
        self != Self::Unknown
    }

    pub fn stands(self) -> bool {
        self == Self::Stands
    }
}

impl Importing<'_> {
    /// Makes the selected imports what the exports of all members say.
    pub async fn run(&self, members: &Members<'_>, selection: &Selection) -> Imported {
        if self.guard.extent.is_whole() {
            self.kubernetes.forget_refusals_of_another_version(self.now).await;
        }
        let is_unfamiliar = self.is_unfamiliar(members);
        let names = self.names(members, selection);
        let sighting = members.sighting_of(&self.member.cluster);
        let families = self.kubernetes.service_families();
        let imports = names.into_iter().map(|name| {
            let import = self.import(members, name.clone(), is_unfamiliar);
            (name, import)
        });
        let imports: Vec<_> = imports.collect();
        let tallies = tallies(&imports, &members.let_pass());
        let judgement = self.guard.judge(&tallies, sighting.as_ref());
        let status = judgement.status.clone().map(Arc::new);
        let runs = imports.into_iter().map(|(name, import)| {
            let held = judgement.held(&name).zip(status.clone());
            let counted = tallies.get(&name).map(|tally| (tally.endpoints, families.as_slice()));
            async move {
                match import {
                    Ok(import) => self.one(import, counted, held).await,
                    Err(problem) => {
                        let unreadable = vec![(name, problem.to_string())];
                        Imported { unreadable, ..Imported::default() }
                    }
                }
            }
        });
        let mut runs = stream::iter(runs).buffered(SIDE_BY_SIDE);
        let mut imported = Imported { is_unfamiliar, ..Imported::default() };
        while let Some(one) = runs.next().await {
            imported.add(one);
        }
        let note = judgement.note(&self.guard, sighting.as_ref(), imported.is_complete());
        Imported { guard: status.clone(), note: note.filter(|_| self.writes), ..imported }
    }

    /// Whether this may be another Cloud Map than that of the imports: it has no record of this cluster.
    fn is_unfamiliar(&self, members: &Members<'_>) -> bool {
        !members.is_unread()
            && self.own_record == OwnRecord::Unknown
            && !members.has_record_under_any_id(self.arn)
            && self.objects.has_imports(self.owner)
    }

    /// The names to import or to end. While Cloud Map cannot be read, an import ends by no read: perhaps another member
    /// exports the name.
    fn names(&self, members: &Members<'_>, selection: &Selection) -> BTreeSet<ServiceRef> {
        if self.takes_over {
            return self.objects.of_aws().cloned().collect();
        }
        let mut names = members.own_names();
        if !members.is_unread() {
            names.extend(members.names().iter().cloned().chain(self.objects.names(self.owner)));
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
    ) -> Result<Import<'a>, Unexpected> {
        let present = self.objects.present(&name)?;
        let mut exports = members.known(&name, (self.arn, self.allows));
        if exports.is_unseen {
            // Those of AWS's controller have no record that would say whether they still export it.
            let unknown = present.holders().into_iter().map(|cluster| (cluster, Read::Unread));
            let known = std::mem::take(&mut exports.sources.by_cluster);
            exports.sources.by_cluster = unknown.chain(known).collect();
        }
        if is_unfamiliar {
            exports.sources.restrain(|read| if read.is_read_there() { read } else { Read::Unread });
        } else if self.own_record == OwnRecord::Refused {
            exports.sources.restrain(Read::additions);
        }
        Ok(Import::new(self, name, present, exports))
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

    /// `counted` are its endpoints after the plan with these families of the cluster.
    async fn one(
        &self,
        mut import: Import<'_>,
        counted: Option<(usize, &[Family])>,
        held: Option<(usize, Arc<GuardStatus>)>,
    ) -> Imported {
        let left_out = std::mem::take(&mut import.exports.left_out);
        let guard = held.map(|(endpoints, status)| {
            import.hold();
            Reason::Guard { endpoints, status }
        });
        let counted = counted.filter(|(_, families)| {
            !import.is_held && *families == self.kubernetes.service_families()
        });
        let endpoints = match counted {
            Some((endpoints, _)) => endpoints,
            None => import.tally(&BTreeSet::new()).endpoints,
        };
        let mut imported = Imported { endpoints, ..import.run().await };
        // The run may have found out that the namespace is excluded.
        let is_active = self.namespace(&import.name.namespace) == NamespaceState::Active;
        let reasons = left_out.into_iter().filter(|_| is_active).chain(guard);
        let lines = reasons.map(|reason| HeldBack { service: import.name.clone(), reason });
        imported.held_back.extend(lines);
        let Import { name, is_held, is_outdated, .. } = import;
        if is_outdated { imported.of_outdated(name, is_held) } else { imported }
    }
}

/// The ready endpoints of all imports before and after their plans, before one of them is changed.
fn tallies(
    imports: &[(ServiceRef, Result<Import<'_>, Unexpected>)],
    passed: &BTreeSet<ClusterId>,
) -> BTreeMap<ServiceRef, Tally> {
    let readable = imports.iter().filter_map(|(name, import)| Some((name, import.as_ref().ok()?)));
    readable.map(|(name, import)| (name.clone(), import.tally(passed))).collect()
}
