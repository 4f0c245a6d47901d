//! The input of a plan: the merged service, the endpoints of each exporting cluster, the importing cluster, and the
//! objects that it has.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::change::{Change, Kind, ObjectRef, Stage};
use super::held_back::Absent;
use super::limits::NoteChange;
use super::ownership::OwnerLabel;
use super::present_objects::{Present, ServiceImport, Slice, holders_of};
use crate::model::{
    ClusterId, ClustersetService, Family, Protocol, RefusedField, ServiceRef, Timestamp,
};

/// All that the plan of one import depends on.
#[derive(Clone, Copy, Debug)]
pub struct Basis<'a> {
    pub owner: &'a OwnerLabel,
    /// The importing cluster.
    pub importer: &'a ClusterId,
    /// The families that its Services can have, its own primary one first. Without those that the API server refused.
    pub available: &'a [Family],
    /// The fields that its API server refuses or does not keep.
    pub refused: &'a BTreeSet<RefusedField>,
    /// The version of its API server, if it was asked for.
    pub server: Option<&'a str>,
    /// Whether the installed CRD has `status.endpointSliceObjects`: the API server drops unknown fields.
    pub declares_slice_objects: bool,
    pub service: &'a ServiceRef,
    pub namespace: NamespaceState,
    /// All exports of the name, merged, as far as they were read. `None` if there are none.
    pub merged: Option<&'a ClustersetService>,
    pub sources: &'a Sources,
    pub present: &'a Present,
    /// The changes of this import that failed in this run. The plan is then made again, for the slices and the status.
    pub failures: &'a [FailedWrite],
    /// Whether the guard's note on the ServiceImport is kept, written or removed.
    pub note: &'a NoteChange,
    /// The number of the import's IPs that a new derived Service asks for: the API server refused more.
    pub kept_ips: usize,
    pub now: Timestamp,
}

/// A change that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedWrite {
    pub object: ObjectRef,
    pub stage: Stage,
    /// The message of the API server.
    pub message: String,
    /// Whether a quota or an admission rule of the cluster refused it.
    pub is_denied: bool,
}

impl FailedWrite {
    /// Whether a change is of the same object. The status is an object of its own.
    pub fn is_of(&self, change: &Change) -> bool {
        let are_statuses = [self.stage, change.stage].map(|stage| stage == Stage::Status);
        self.object == change.object && are_statuses[0] == are_statuses[1]
    }

    /// Whether it keeps a change of the same plan from being made. A slice and the ServiceImport do not need the other
    /// slices, but nothing goes before all that comes is there.
    pub fn blocks(&self, change: &Change) -> bool {
        self.object.kind != Kind::EndpointSlice
            || self.is_of(change)
            || change.stage > Stage::UpdateImport
    }

    /// Whether a change that it blocks has no line of its own: the line of a denial covers it, and a status is planned again
    /// after the failure.
    pub fn is_reported_for(&self, change: &Change) -> bool {
        self.is_denied || change.stage == Stage::Status
    }
}

/// The state of the namespace of the import in the importing cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceState {
    Active,
    /// The admission policy of the cluster lets the function create and change nothing in it, only delete.
    Excluded,
    /// It has a `deletionTimestamp`: nothing can be created in it.
    Terminating,
    Absent,
}

/// The members of the clusterset, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    pub by_cluster: BTreeMap<ClusterId, Read>,
    /// Whether these are all members: a cluster that is not among them has left the clusterset.
    pub is_complete: bool,
    /// Whether Cloud Map was read for the name: else a cluster that has no record may export it.
    pub is_read: bool,
}

impl NamespaceState {
    /// Whether it has no content, or soon has none.
    pub(super) fn is_gone(self) -> bool {
        matches!(self, Self::Terminating | Self::Absent)
    }
}

/// The exports and endpoints of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// They were read whole, after the objects of the import: what is not among them is gone.
    Whole(Exported),
    /// They were not read, or not whole. The part of the member in the import stays as it is.
    Unread,
    /// They were read whole, and the guard holds what would leave: endpoints come, and none goes.
    Held(Exported),
}

/// The endpoints of a member, empty if it does not export the name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Shared by all importing clusters.
    pub endpoints: Arc<Vec<ImportedEndpoint>>,
    /// The addresses that it does not import, or not all of their ports, with the reasons.
    pub excluded: Arc<BTreeMap<IpAddr, Absent>>,
    /// The names of the member's own ports, for those that the import does not have.
    pub port_names: Arc<BTreeMap<PortKey, String>>,
    /// Whether the member is in the account and Region of the importing cluster: names of zones mean nothing elsewhere.
    pub shares_zones: bool,
    /// Whether this invocation read them in the member itself, and not in Cloud Map.
    pub is_read_there: bool,
}

/// An endpoint of a member. The same address can occur again with other ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedEndpoint {
    pub address: IpAddr,
    pub ready: bool,
    /// Whether it serves while it terminates.
    pub is_leaving: bool,
    pub hostname: Option<Arc<str>>,
    pub node: Option<Arc<str>>,
    pub zone: Option<Arc<str>>,
    /// The ports of its member's Service that lead to it, each with the endpoint's own port number. Those of the import
    /// alone if that has an IP; none if the Service has none.
    pub ports: BTreeMap<PortKey, u16>,
}

/// The protocol and number of a port of a Service.
pub type PortKey = (Protocol, u16);

impl Read {
    /// The exports and endpoints, if they were read.
    pub fn exported(&self) -> Option<&Exported> {
        match self {
            Self::Whole(exported) | Self::Held(exported) => Some(exported),
            Self::Unread => None,
        }
    }

    /// Whether this invocation read them in the member itself.
    pub fn is_read_there(&self) -> bool {
        self.exported().is_some_and(|exported| exported.is_read_there)
    }
}

impl Sources {
    /// The reason why an address of a member is not among its endpoints; `None` if it is.
    pub fn absent(&self, cluster: &ClusterId, address: IpAddr) -> Option<Absent> {
        let Exported { endpoints, excluded, .. } = self.exported(cluster);
        let reason = excluded.get(&address).copied().unwrap_or(Absent::NotExported);
        (!endpoints.iter().any(|endpoint| endpoint.address == address)).then_some(reason)
    }

    /// `None` if the cluster is known to have no exports.
    fn read(&self, cluster: &ClusterId) -> Option<&Read> {
        const UNREAD: &Read = &Read::Unread;
        self.by_cluster.get(cluster).or((!self.is_complete).then_some(UNREAD))
    }

    /// Whether the part of a cluster stays in the import, as far as it has one there.
    pub fn stays(&self, cluster: &ClusterId) -> bool {
        !matches!(self.read(cluster), None | Some(Read::Whole(_)))
    }

    /// Whether the guard holds what a cluster would lose.
    pub(super) fn is_held(&self, cluster: &ClusterId) -> bool {
        matches!(self.read(cluster), Some(Read::Held(_)))
    }

    /// The exports and endpoints of a cluster, as far as they were read.
    pub(super) fn exported(&self, cluster: &ClusterId) -> Exported {
        self.read(cluster).and_then(Read::exported).cloned().unwrap_or_default()
    }

    /// This may be another Cloud Map than that of the imports: only what was read in the exporters themselves counts.
    pub fn leave_others_unread(&mut self) {
        for read in self.by_cluster.values_mut().filter(|read| !read.is_read_there()) {
            *read = Read::Unread;
        }
        self.is_complete = false;
        self.is_read = false;
    }

    /// Whether nothing is known about the exports of a cluster.
    pub fn is_unread(&self, cluster: &ClusterId) -> bool {
        self.read(cluster) == Some(&Read::Unread)
    }

    /// Whether the exports of every member were read. In the list of members a new one may be missing, which is enough if
    /// those with a part in the import are known.
    pub(super) fn are_all_read(&self, are_known: bool) -> bool {
        let mut all = self.by_cluster.values();
        (self.is_complete || are_known) && self.is_read && all.all(|read| *read != Read::Unread)
    }
}

impl<'a> Basis<'a> {
    /// The ServiceImport, if it is ours.
    pub(super) fn import(&self) -> Option<&'a ServiceImport> {
        self.present.import.as_ref().filter(|import| self.owner.owns(&import.metadata))
    }

    /// An object of the import.
    pub(super) fn object(&self, kind: Kind, name: &str) -> ObjectRef {
        ObjectRef::of(self.service, kind, name)
    }

    /// Whether the ServiceImport is being deleted. Its slices serve its clients until it is gone.
    pub(super) fn is_ending(&self) -> bool {
        self.import().is_some_and(|import| import.metadata.is_terminating)
    }

    /// Whether the derived Service stays as it is: it could not be changed, or goes with its import. The slices are then
    /// made for the ports that it has.
    pub(super) fn is_service_fixed(&self) -> bool {
        !self.failures.is_empty() || self.is_ending()
    }

    /// Whether a change is still to be made. After a failure these are the slices and the status, which need the
    /// ServiceImport alone.
    pub(super) fn is_left(&self, change: &Change) -> bool {
        let is_of_slice = change.object.kind == Kind::EndpointSlice;
        let is_possible = is_of_slice || !self.is_ending();
        let is_repeated = is_of_slice || change.stage == Stage::Status;
        let can_be_repeated = is_repeated && self.import().is_some() && !self.has_failed(change);
        is_possible && (self.failures.is_empty() || can_be_repeated)
    }

    fn has_failed(&self, change: &Change) -> bool {
        self.failures.iter().any(|failure| failure.is_of(change))
    }

    /// Whether the endpoints and ports that come into a slice could not be written.
    pub(super) fn has_failed_additions(&self, slice: &str) -> bool {
        let mut additions =
            self.failures.iter().filter(|failure| failure.stage == Stage::AddEndpoints);
        additions.any(|failure| failure.object.name == slice)
    }

    /// The clusters with a part in the import: those in its status, and those with slices.
    pub(super) fn holders(&self) -> BTreeSet<ClusterId> {
        holders_of(self.import(), self.slices())
    }

    /// The slices that are ours.
    pub(super) fn slices(&self) -> impl Iterator<Item = &'a Slice> {
        let slices = self.present.slices.iter().map(Arc::as_ref);
        slices.filter(|slice| self.owner.owns(&slice.metadata))
    }
}
