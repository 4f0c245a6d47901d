//! A member of a clusterset in one invocation: the cluster with the objects of its imports.

use crate::clients::Connection;
use crate::import::observe::{DerivedOfAws, Objects};
use crate::import::plan::OwnerLabel;
use crate::import::sources::Members;
use crate::kubernetes::Error;
use crate::model::clusterset::Member;
use crate::model::{ClusterArn, Owner, Selection};
use crate::publish::exports::Imports;
use crate::report::MultiClusterReport;
use crate::settings::MultiCluster;

/// A cluster that takes part in its clusterset.
pub struct Joined {
    pub member: Member,
    /// What it imports in this run: the objects of these names were read.
    pub selection: Selection,
    pub(super) multi_cluster: MultiCluster,
    pub(super) connection: Connection,
    pub(super) owner: OwnerLabel,
    /// The objects of its imports, if it imports.
    pub(super) objects: Option<Objects>,
    /// The Services of AWS's controller, in an adoption.
    pub(super) of_aws: DerivedOfAws,
}

impl Joined {
    pub fn arn(&self) -> &ClusterArn {
        &self.connection.cluster.arn
    }

    /// The member with these imports as they are now.
    ///
    /// # Errors
    /// Returns an error if an object could not be read.
    pub async fn again(&self, selection: Selection) -> Result<Self, Error> {
        let kubernetes = &self.connection.kubernetes;
        let objects = match &self.objects {
            Some(_) => {
                let names = selection.names().into_iter().flatten();
                Some(Objects::of_all(kubernetes, &self.owner, names).await?)
            }
            None => None,
        };
        Ok(Self {
            member: self.member.clone(),
            selection,
            multi_cluster: self.multi_cluster,
            connection: self.connection.clone(),
            owner: self.owner.clone(),
            objects,
            of_aws: DerivedOfAws::default(),
        })
    }

    /// Whether it publishes its exports.
    pub fn exports(&self) -> bool {
        self.multi_cluster.exports()
    }

    /// The label of what is ours in the cluster.
    pub fn owner(&self) -> &OwnerLabel {
        &self.owner
    }

    /// The objects of its imports, if it imports.
    pub fn objects(&self) -> Option<&Objects> {
        self.objects.as_ref()
    }

    /// The number of its ServiceImports that are ours, if it imports.
    pub fn imports(&self) -> Option<usize> {
        self.objects.as_ref().map(|objects| objects.count_imports(&self.owner))
    }

    /// Whether one of the imports that were read is ours.
    pub fn has_imports(&self) -> bool {
        self.imports().is_some_and(|imports| imports > 0)
    }

    /// Whether imports of ours stand in it. Those that this run is not about were not read.
    pub fn standing_imports(&self) -> Imports {
        match self.imports() {
            None => Imports::None,
            Some(0) if self.selection == Selection::Everything => Imports::None,
            Some(0) => Imports::Unknown { label: self.owner.selector() },
            Some(_) => Imports::Stand,
        }
    }

    /// The objects of its imports, if it exports nothing.
    pub(super) fn imports_only(&self) -> Option<&Objects> {
        self.objects.as_ref().filter(|_| !self.multi_cluster.exports())
    }

    /// Whether the cluster has no record yet, which its first full sync writes. Before that it is not known whether AWS's
    /// controller runs there, and imports would be found in a Cloud Map that does not know the cluster. While Cloud Map
    /// cannot be read, its imports show that it was a member before, as do those of a cluster that only imports and may
    /// not write a record.
    pub fn is_new(&self, members: &Members<'_>) -> bool {
        let has_record = members.holder_of(&self.member.cluster).is_some();
        let imports_count = members.is_unread() || !self.multi_cluster.exports();
        !(has_record || imports_count && self.has_imports())
    }

    /// The other cluster that holds the id of this one: nothing is exported or imported here then.
    pub fn other_holder<'m>(&self, members: &'m Members<'_>) -> Option<&'m Owner> {
        let holder = members.holder_of(&self.member.cluster);
        holder.filter(|holder| holder.cluster != *self.arn())
    }

    /// What a person has to know before an adoption, and to do after it.
    pub fn warnings(&self) -> Vec<String> {
        let commands = self.of_aws.commands().into_iter();
        commands.map(|command| format!("{OLD_SERVICES}: {command}")).collect()
    }

    /// The report of the cluster in its clusterset.
    pub fn report(&self) -> MultiClusterReport {
        MultiClusterReport {
            cluster_id: Some(self.member.cluster.to_string()),
            clusterset: Some(self.member.clusterset.to_string()),
            ..MultiClusterReport::default()
        }
    }
}

const OLD_SERVICES: &str = "Services of AWS's controller stay for the clients that have their IPs, but nothing keeps their \
                            endpoints up to date any more: move these clients soon, then run";
