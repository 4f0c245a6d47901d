//! A cluster in its clusterset, in one invocation: it joins (who it is, and the objects of its imports), its exports are
//! published, then those of all members are imported into it, and its exports get their `conditions`.

use tokio::time::timeout_at;

use super::Invocation;
use crate::clients::Connection;
use crate::cloud_map::Urgency;
use crate::clusterset::identity::{self, CLUSTER_PROPERTY, CLUSTERSET_PROPERTY, NoMember, Stated};
use crate::error::chain;
use crate::guard::Extent;
use crate::import::guard::Run;
use crate::import::observe::Objects;
use crate::import::plan::OwnerLabel;
use crate::import::sources::{Members, Overlay};
use crate::import::{Imported, Importing};
use crate::model::clusterset::{ClusterId, Member};
use crate::model::{ClusterArn, Flow, Owner, Selection};
use crate::publish::Options;
use crate::publish::exports::{self, Exported};
use crate::publish::observe::{self, SharedRegistry, Source, World};
use crate::report::{Mode, MultiClusterReport, Obstacle};
use crate::settings::{Cluster, MultiCluster};

/// A cluster that takes part in its clusterset.
pub struct Joined {
    pub member: Member,
    multi_cluster: MultiCluster,
    pub(super) connection: Connection,
    owner: OwnerLabel,
    /// The objects of its imports, if it imports.
    objects: Option<Objects>,
}

/// The exports of a cluster that were published.
pub struct Published {
    pub exported: Exported,
}

impl Invocation<'_> {
    /// Reads who a cluster is and the objects of its imports. `None` if it takes no part in a clusterset.
    pub async fn join(
        &self,
        cluster: &Cluster,
        selection: &Selection,
    ) -> Option<Result<Joined, Obstacle>> {
        let multi_cluster = self.settings.multi_cluster_of(cluster);
        if multi_cluster == MultiCluster::Off || self.adoption.is_some() {
            return None;
        }
        let joined = self.read_member(cluster, multi_cluster, selection);
        let in_time = timeout_at(self.deadline.stop(), joined).await;
        Some(in_time.unwrap_or_else(|_| Err(unread(&observe::Error::Deadline))))
    }

    async fn read_member(
        &self,
        cluster: &Cluster,
        multi_cluster: MultiCluster,
        selection: &Selection,
    ) -> Result<Joined, Obstacle> {
        let connection = self.clients.connect(cluster).await.map_err(|error| unread(&error))?;
        let kubernetes = &connection.kubernetes;
        let failed = |error: crate::kubernetes::Error| unread(&error);
        if !kubernetes.serves_multi_cluster().await.map_err(failed)? {
            return Err(Obstacle {
                reason: "NoMultiClusterApi".into(),
                detail: NO_API.to_owned(),
                failed: false,
            });
        }
        let settings = &cluster.membership;
        let properties = tokio::try_join!(
            kubernetes.cluster_property(CLUSTER_PROPERTY),
            kubernetes.cluster_property(CLUSTERSET_PROPERTY),
        );
        let (of_cluster, clusterset) = properties.map_err(failed)?;
        let stated = Stated { cluster: of_cluster, clusterset };
        let (cluster_id, clusterset) = (settings.cluster_id.as_ref(), settings.clusterset.as_ref());
        let member = identity::member(cluster_id, clusterset, &stated)
            .map_err(|reason| no_member(&reason))?;
        let owner = OwnerLabel::new(&self.settings.owner_id);
        let objects = match (multi_cluster.imports(), selection.names()) {
            (false, _) => None,
            (true, Some(services)) => {
                let mut objects = Objects::default();
                for service in services {
                    objects.add(Objects::of(kubernetes, service).await.map_err(failed)?);
                }
                Some(objects)
            }
            (true, None) => Some(Objects::read(kubernetes, &owner).await.map_err(failed)?),
        };
        if let Some(import) = objects.as_ref().and_then(|objects| objects.of_aws(&owner)) {
            return Err(another_controller(&format!("ServiceImport {import} is its own")));
        }
        Ok(Joined { member, multi_cluster, connection, owner, objects })
    }

    /// Publishes the exports of a cluster.
    ///
    /// # Errors
    /// Returns the reason if nothing was published.
    pub async fn export(
        &self,
        cluster: &Cluster,
        joined: &Joined,
        registry: &SharedRegistry,
        selection: &Selection,
    ) -> Result<Option<Published>, Obstacle> {
        if !joined.multi_cluster.exports() {
            return Ok(None);
        }
        let world = self.exporting(cluster, joined, registry);
        let urgency = match selection {
            Selection::Everything => Urgency::Bulk,
            Selection::Only { .. } => Urgency::Urgent,
        };
        let options = Options { urgency, ..self.options() };
        let has_imports =
            joined.objects.as_ref().is_some_and(|objects| objects.has_imports(&joined.owner));
        let member = (&joined.member, has_imports);
        let published = exports::publish(&world, member, selection, options).await;
        let exported = published.map_err(|error| unread(&error))?.map_err(|refused| Obstacle {
            reason: refused.code().into(),
            detail: refused.to_string(),
            failed: false,
        })?;
        Ok(Some(Published { exported }))
    }

    pub(crate) fn exporting<'w>(
        &self,
        cluster: &Cluster,
        joined: &'w Joined,
        registry: &'w SharedRegistry,
    ) -> World<'w> {
        let world = self.world(cluster, &joined.connection, registry);
        let owner = Owner { flow: Flow::Exports, ..world.owner };
        World { source: Source::Exports(joined.member.clone()), owner, ..world }
    }

    /// Imports the exports of all members into a cluster. `is_selected`: the invocation is about this cluster, so that a
    /// confirmation is, too.
    pub async fn import(
        &self,
        joined: &Joined,
        members: &Members<'_>,
        (selection, is_selected): (&Selection, bool),
    ) -> Option<Imported> {
        let objects = joined.objects.as_ref()?;
        let extent = match selection {
            Selection::Everything if self.confirmed && is_selected => Extent::Confirmed,
            Selection::Everything => Extent::Everything,
            Selection::Only { .. } => Extent::Part,
        };
        let guard = Run {
            cluster: &joined.connection.cluster.arn,
            guard: self.settings.rules.guard,
            extent,
            held: selection.held(),
            now: self.now,
            remembers: joined.multi_cluster.exports(),
        };
        let importing = Importing {
            kubernetes: &joined.connection.kubernetes,
            owner: &joined.owner,
            member: &joined.member,
            arn: &joined.connection.cluster.arn,
            objects,
            exports: joined.multi_cluster.exports(),
            writes: self.mode == Mode::Sync,
            guard,
            now: self.now,
            deadline: self.deadline,
        };
        Some(importing.run(members, selection).await)
    }
}

impl Published {
    /// Whether the guard holds a loss of exports.
    pub fn is_held(&self) -> bool {
        self.exported.report.guard.as_ref().is_some_and(|guard| guard.state.holds())
    }

    /// Whether the guard let a large loss of exports pass.
    fn let_pass(&self) -> bool {
        self.exported.report.guard.as_ref().is_some_and(|guard| !guard.state.holds())
    }
}

impl Joined {
    pub fn arn(&self) -> &ClusterArn {
        &self.connection.cluster.arn
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

    /// The exports of this cluster, in place of what Cloud Map says of it.
    pub fn overlay(&self, published: &Published) -> (ClusterId, Overlay) {
        let arn = self.connection.cluster.arn.clone();
        let desired = published.exported.desired.clone();
        let let_pass = published.let_pass();
        (self.member.cluster.clone(), Overlay { arn, desired, let_pass })
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

const NO_API: &str = "the cluster does not serve multicluster.x-k8s.io/v1beta1: install the CRDs of mcs-api v0.5.0 or newer, \
                      see docs/multi-cluster.md";

pub(super) fn unread(error: &dyn std::error::Error) -> Obstacle {
    Obstacle { reason: "Unreadable".into(), detail: chain(error), failed: true }
}

/// AWS's controller deregisters everything under its cluster id that it did not register, and deletes imports without
/// endpoints, so the two never run for one cluster.
fn another_controller(sign: &str) -> Obstacle {
    let detail = format!(
        "the AWS Cloud Map MCS Controller runs in this cluster, or did: {sign}; nothing is exported or imported here"
    );
    Obstacle { reason: "AnotherController".into(), detail, failed: false }
}

fn no_member(reason: &NoMember) -> Obstacle {
    Obstacle { reason: reason.code().into(), detail: reason.to_string(), failed: false }
}
