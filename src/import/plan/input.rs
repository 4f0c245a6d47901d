//! The input of a plan: the merged service, the endpoints of each exporting cluster, the importing cluster, and the
//! objects that it has.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::change::{Change, Kind, ObjectRef, Stage};
use super::held_back::Absent;
use super::import_guard::NoteChange;
use super::ownership::OwnerLabel;
use super::present_objects::{Present, ServiceImport, Slice, clusters_of};
use crate::model::{
    ClusterId, ClustersetService, Family, Protocol, RefusedField, ServiceRef, Timestamp,
};

/// All that the plan of one import depends on.
#[derive(Clone, Copy, Debug)]
pub struct PlanInput<'a> {
    pub owner: &'a OwnerLabel,
    /// The importing cluster.
    pub importer: &'a ClusterId,
    /// The families that Services of the importing cluster can have, without those that the API server refused. The
    /// cluster's primary family is first.
    pub available: &'a [Family],
    /// The fields that the importing cluster's API server refuses or does not keep.
    pub refused: &'a BTreeSet<RefusedField>,
    /// The version of the importing cluster's API server, if it was read.
    pub server: Option<&'a str>,
    /// Whether the installed CRD has `status.endpointSliceObjects`: the API server drops unknown fields.
    pub crd_has_slice_objects: bool,
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
    /// The maximum number of the import's IPs that a new derived Service requests: the API server refused more.
    pub max_kept_ips: usize,
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
    /// Whether a change is to the same object. The status counts as an object of its own.
    pub fn is_of(&self, change: &Change) -> bool {
        let are_statuses = [self.stage, change.stage].map(|stage| stage == Stage::Status);
        self.object == change.object && are_statuses[0] == are_statuses[1]
    }

    /// Whether the failure blocks a later change of the same plan. A failed slice blocks neither other slices nor the
    /// update of the ServiceImport, but everything later, since no removal may precede an addition.
    pub fn blocks(&self, change: &Change) -> bool {
        self.object.kind != Kind::EndpointSlice
            || self.is_of(change)
            || change.stage > Stage::UpdateImport
    }

    /// Whether a change that the failure blocks has no report line of its own. The line of a denial covers it, and a
    /// status is planned again after the failure.
    pub fn is_reported_for(&self, change: &Change) -> bool {
        self.is_denied || change.stage == Stage::Status
    }
}

/// The state of the namespace of the import in the importing cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceState {
    Active,
    /// The cluster's admission policy allows the function only to delete objects in it.
    Excluded,
    /// It has a `deletionTimestamp`: nothing can be created in it.
    Terminating,
    Absent,
}

/// The exports of the members of the clusterset, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    pub by_cluster: BTreeMap<ClusterId, Read>,
    /// Whether these are all members: a cluster that is not among them has left the clusterset.
    pub is_complete: bool,
    /// Whether Cloud Map was read for the name. Otherwise a cluster without a record may export it.
    pub is_read: bool,
}

impl NamespaceState {
    /// Whether the namespace is absent or being deleted.
    pub(super) fn is_gone(self) -> bool {
        matches!(self, Self::Terminating | Self::Absent)
    }
}

/// The exports and endpoints of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The exports were read completely, after the objects of the import. An endpoint that the read lacks is gone.
    Whole(MemberEndpoints),
    /// The exports were not read, or not completely. The member's part of the import stays unchanged.
    Unread,
    /// The exports were read, and the plan only adds endpoints: the guard holds the loss, or Cloud Map does not show
    /// the member's endpoints.
    Held(MemberEndpoints),
}

/// The endpoints of a member for one importing cluster, empty if the member does not export the name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberEndpoints {
    /// The endpoints to import. All importing clusters share the list.
    pub endpoints: Arc<Vec<ImportedEndpoint>>,
    /// The addresses that are not imported, or not with all their ports, with the reasons.
    pub excluded: Arc<BTreeMap<IpAddr, Absent>>,
    /// The names of the member's Service ports. They are used for ports that the import does not have.
    pub port_names: Arc<BTreeMap<PortKey, String>>,
    /// Whether the member is in the account and Region of the importing cluster: names of zones mean nothing elsewhere.
    pub shares_zones: bool,
    /// Whether this invocation read the exports in the member itself, and not in Cloud Map.
    pub is_read_in_cluster: bool,
}

/// An endpoint of a member. The same address can occur again with other ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedEndpoint {
    pub address: IpAddr,
    pub ready: bool,
    /// Whether the endpoint serves while it terminates.
    pub is_leaving: bool,
    pub hostname: Option<Arc<str>>,
    pub node: Option<Arc<str>>,
    pub zone: Option<Arc<str>>,
    /// The ports of the member's Service that lead to the endpoint, each with the endpoint's own port number. If the
    /// import has an IP, only ports of the import. Empty if the Service has no ports.
    pub ports: BTreeMap<PortKey, u16>,
}

/// The protocol and number of a port of a Service.
pub type PortKey = (Protocol, u16);

impl Read {
    /// The endpoints, if the exports were read.
    pub fn endpoints(&self) -> Option<&MemberEndpoints> {
        match self {
            Self::Whole(endpoints) | Self::Held(endpoints) => Some(endpoints),
            Self::Unread => None,
        }
    }

    /// Whether this invocation read the exports in the member itself.
    pub fn is_read_in_cluster(&self) -> bool {
        self.endpoints().is_some_and(|endpoints| endpoints.is_read_in_cluster)
    }
}

impl Sources {
    /// Returns the reason why an address of a member is not among its endpoints, or `None` if it is among them.
    pub fn absent(&self, cluster: &ClusterId, address: IpAddr) -> Option<Absent> {
        let MemberEndpoints { endpoints, excluded, .. } = self.endpoints(cluster);
        let reason = excluded.get(&address).copied().unwrap_or(Absent::NotExported);
        (!endpoints.iter().any(|endpoint| endpoint.address == address)).then_some(reason)
    }

    /// Returns the read of a cluster's exports, or `None` if the cluster certainly exports nothing.
    fn read(&self, cluster: &ClusterId) -> Option<&Read> {
        const UNREAD: &Read = &Read::Unread;
        self.by_cluster.get(cluster).or((!self.is_complete).then_some(UNREAD))
    }

    /// Whether no endpoint of the cluster is removed from the import.
    pub fn stays(&self, cluster: &ClusterId) -> bool {
        !matches!(self.read(cluster), None | Some(Read::Whole(_)))
    }

    /// Whether the cluster's part of the import is held: endpoints are added, and none is removed.
    pub(super) fn is_held(&self, cluster: &ClusterId) -> bool {
        matches!(self.read(cluster), Some(Read::Held(_)))
    }

    /// The endpoints of a cluster, as far as its exports were read.
    pub(super) fn endpoints(&self, cluster: &ClusterId) -> MemberEndpoints {
        self.read(cluster).and_then(Read::endpoints).cloned().unwrap_or_default()
    }

    /// Marks all exports from Cloud Map as unread, since it may not be the Cloud Map of the imports. Exports that were
    /// read in the exporters themselves stay.
    pub fn mark_cloud_map_unread(&mut self) {
        for read in self.by_cluster.values_mut().filter(|read| !read.is_read_in_cluster()) {
            *read = Read::Unread;
        }
        self.is_complete = false;
        self.is_read = false;
    }

    /// Whether nothing is known about the exports of a cluster.
    pub fn is_unread(&self, cluster: &ClusterId) -> bool {
        self.read(cluster) == Some(&Read::Unread)
    }

    /// Whether the exports of every member were read. The list of members may lack a new member. That does not matter
    /// if all clusters with a part in the import are known (`are_known`).
    pub(super) fn are_all_read(&self, are_known: bool) -> bool {
        let mut all = self.by_cluster.values();
        (self.is_complete || are_known) && self.is_read && all.all(|read| *read != Read::Unread)
    }
}

impl<'a> PlanInput<'a> {
    /// The ServiceImport, if it is ours.
    pub(super) fn import(&self) -> Option<&'a ServiceImport> {
        self.present.import.as_ref().filter(|import| self.owner.owns(&import.metadata))
    }

    /// A reference to an object of the import.
    pub(super) fn object(&self, kind: Kind, name: &str) -> ObjectRef {
        ObjectRef::of(self.service, kind, name)
    }

    /// Whether the ServiceImport is being deleted. Its slices serve its clients until it is gone.
    pub(super) fn is_ending(&self) -> bool {
        self.import().is_some_and(|import| import.metadata.is_terminating)
    }

    /// Whether the derived Service stays unchanged: a change failed, or the Service is deleted with its import. The
    /// slices are then made for the ports that the Service has.
    pub(super) fn keeps_service_unchanged(&self) -> bool {
        !self.failures.is_empty() || self.is_ending()
    }

    /// Whether a change can still be made. After a failure only the slices and the status are changed, since both need
    /// the ServiceImport alone.
    pub(super) fn can_be_made(&self, change: &Change) -> bool {
        let is_of_slice = change.object.kind == Kind::EndpointSlice;
        let is_possible = is_of_slice || !self.is_ending();
        let is_repeated = is_of_slice || change.stage == Stage::Status;
        let can_be_repeated = is_repeated && self.import().is_some() && !self.has_failed(change);
        is_possible && (self.failures.is_empty() || can_be_repeated)
    }

    fn has_failed(&self, change: &Change) -> bool {
        self.failures.iter().any(|failure| failure.is_of(change))
    }

    /// Whether endpoints or ports could not be added to a slice.
    pub(super) fn has_failed_additions(&self, slice: &str) -> bool {
        let mut additions =
            self.failures.iter().filter(|failure| failure.stage == Stage::AddEndpoints);
        additions.any(|failure| failure.object.name == slice)
    }

    /// The clusters with a part in the import: those in its status, and those with slices.
    pub(super) fn clusters(&self) -> BTreeSet<ClusterId> {
        clusters_of(self.import(), self.slices())
    }

    /// The slices that are ours.
    pub(super) fn slices(&self) -> impl Iterator<Item = &'a Slice> {
        let slices = self.present.slices.iter().map(Arc::as_ref);
        slices.filter(|slice| self.owner.owns(&slice.metadata))
    }
}
