//! A cluster in its clusterset, in one invocation: it joins (who it is, and the objects of its imports), its `exports` are
//! published, then those of all members are imported into it (`imports`), and its exports get their conditions.

use super::Invocation;
use crate::clients::{self, Connection};
use crate::clusterset::members::{
    CLUSTER_PROPERTY, CLUSTERSET_PROPERTY, cluster_id, clusterset_id,
};
use crate::error::chain;
use crate::import::observe::{DerivedOfAws, Objects};
use crate::import::plan::OwnerLabel;
use crate::import::sources::Members;
use crate::kubernetes::{Error, Kubernetes};
use crate::model::{ClusterArn, Flow, Member, Owner, Selection};
use crate::publish::exports::{Refused, StandingImports};
use crate::publish::observe::{self, SharedRegistry, Source, World};
use crate::report::{Mode, MultiClusterReport, Obstacle};
use crate::settings::{Cluster, MultiCluster};

/// A cluster that takes part in its clusterset.
pub struct Joined<'a> {
    pub(super) invocation: &'a Invocation<'a>,
    pub cluster: &'a Cluster,
    pub member: Member,
    /// What it imports in this run: the objects of these names were read.
    pub selection: Selection,
    pub(super) multi_cluster: MultiCluster,
    pub(super) connection: Connection,
    /// The label of what is ours in it.
    pub owner: OwnerLabel,
    /// The objects of its imports, if it imports.
    pub objects: Option<Objects>,
    /// What a person has to know before an adoption, and to do after it.
    pub warnings: Vec<String>,
}

impl Invocation<'_> {
    /// Reads who a cluster is and the objects of its imports. `None` if it takes no part in a clusterset, or another entry
    /// of the settings serves it.
    pub async fn join<'a>(
        &'a self,
        cluster: &'a Cluster,
        selection: &Selection,
    ) -> Option<Result<Joined<'a>, Obstacle>> {
        let multi_cluster = self.settings.multi_cluster_of(cluster);
        let leaves_exports = self.adoption.as_ref().is_some_and(|adoption| !adoption.exports);
        if multi_cluster == MultiCluster::Off || leaves_exports {
            return None;
        }
        let joined = async {
            let connection = match self.clients.connect(cluster).await {
                Ok(connection) => connection,
                Err(clients::Error::NamedTwice { .. }) => return None,
                Err(error) => return Some(Err(unread(&error))),
            };
            let member = self.read_member((cluster, multi_cluster), connection, selection).await;
            Some(member.map_err(Obstacle::from))
        };
        let in_time = self.deadline.until_stop(joined).await;
        in_time.unwrap_or_else(|_| Some(Err(unread(&observe::Error::Deadline))))
    }

    async fn read_member<'a>(
        &'a self,
        (cluster, multi_cluster): (&'a Cluster, MultiCluster),
        connection: Connection,
        selection: &Selection,
    ) -> Result<Joined<'a>, Refused> {
        let kubernetes = &connection.kubernetes;
        if !kubernetes.serves_multi_cluster().await? {
            return Err(Refused::NoApi);
        }
        let property = |name| async move {
            match selection.names().filter(|_| self.mode == Mode::Sync) {
                Some(_) => kubernetes.recent_cluster_property(name).await,
                None => kubernetes.cluster_property(name).await,
            }
        };
        let (id, clusterset) =
            tokio::try_join!(property(CLUSTER_PROPERTY), property(CLUSTERSET_PROPERTY))?;
        let settings = &cluster.membership;
        let member = Member {
            cluster: cluster_id(settings.cluster_id.as_ref(), id.as_deref())?,
            clusterset: clusterset_id(settings.clusterset.as_ref(), clusterset.as_deref())?,
        };
        let owner = OwnerLabel::new(&self.settings.owner_id);
        let objects = if multi_cluster.imports() {
            Some(read_objects(kubernetes, &owner, selection).await?)
        } else {
            None
        };
        // Without its exports it is not known whether that controller still runs.
        let may_adopt = self.adoption.is_some() && multi_cluster.exports();
        let of_aws = objects.iter().flat_map(Objects::of_aws).next();
        if let Some(import) = of_aws.filter(|_| !may_adopt) {
            let sign = format!("ServiceImport {import} is its own");
            return Err(Refused::AnotherController(sign));
        }
        let of_aws = match self.adoption {
            Some(_) => DerivedOfAws::read(kubernetes, &owner).await?,
            None => DerivedOfAws::default(),
        };
        let commands = of_aws.commands().into_iter();
        let warnings = commands.map(|command| format!("{OLD_SERVICES}: {command}")).collect();
        let (invocation, selection) = (self, selection.clone());
        Ok(Joined {
            invocation,
            cluster,
            member,
            selection,
            multi_cluster,
            connection,
            owner,
            objects,
            warnings,
        })
    }
}

async fn read_objects(
    kubernetes: &Kubernetes,
    owner: &OwnerLabel,
    selection: &Selection,
) -> Result<Objects, Error> {
    match selection.names() {
        Some(services) => Objects::of_all(kubernetes, owner, services).await,
        None => Objects::read(kubernetes, owner).await,
    }
}

impl<'a> Joined<'a> {
    pub fn arn(&self) -> &ClusterArn {
        &self.connection.cluster.arn
    }

    /// The member with these imports as they are now.
    ///
    /// # Errors
    /// Returns an error if an object could not be read.
    pub async fn again(&self, selection: Selection) -> Result<Joined<'a>, Error> {
        let kubernetes = &self.connection.kubernetes;
        let objects = match self.objects {
            Some(_) => Some(read_objects(kubernetes, &self.owner, &selection).await?),
            None => None,
        };
        let (member, owner) = (self.member.clone(), self.owner.clone());
        let (connection, warnings) = (self.connection.clone(), Vec::new());
        Ok(Joined { member, selection, connection, owner, objects, warnings, ..*self })
    }

    /// Whether it publishes its exports.
    pub fn exports(&self) -> bool {
        self.multi_cluster.exports()
    }

    /// The number of its ServiceImports that are ours, if it imports.
    pub fn imports(&self) -> Option<usize> {
        self.objects.as_ref().map(|objects| objects.ours(&self.owner).count())
    }

    /// Whether imports of ours stand in it. Those that this run is not about were not read.
    pub(super) fn standing_imports(&self) -> StandingImports {
        match &self.objects {
            Some(objects) if objects.has_imports(&self.owner) => StandingImports::Stand,
            Some(_) if self.selection != Selection::Everything => {
                StandingImports::Unknown { label: self.owner.selector() }
            }
            _ => StandingImports::None,
        }
    }

    /// Whether the cluster has no record yet, which its first full sync writes. Before that it is not known whether AWS's
    /// controller runs there, and imports would be found in a Cloud Map that does not know the cluster. While Cloud Map
    /// cannot be read, its imports show that it was a member before, as do those of a cluster that only imports and may
    /// not write a record.
    pub fn is_new(&self, members: &Members<'_>) -> bool {
        let imports_count = members.is_unread || !self.exports();
        members.holder_of(&self.member.cluster).is_none()
            && !(imports_count && self.standing_imports() == StandingImports::Stand)
    }

    /// The other cluster that holds the id of this one: nothing is exported or imported here then.
    pub fn other_holder<'m>(&self, members: &'m Members<'_>) -> Option<&'m Owner> {
        let holder = members.holder_of(&self.member.cluster);
        holder.filter(|holder| holder.cluster != *self.arn())
    }

    /// The cluster with its exports, and the Cloud Map that these are kept in.
    pub(crate) fn exporting<'w>(&'w self, registry: &'w SharedRegistry) -> World<'w> {
        let world = self.invocation.world(self.cluster, &self.connection, registry);
        let owner = Owner { flow: Flow::Exports, ..world.owner };
        World { source: Source::Exports(self.member.clone()), owner, ..world }
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

/// A read that failed, which the next run may make.
pub fn unread(error: &dyn std::error::Error) -> Obstacle {
    Obstacle::unreadable(chain(error))
}
