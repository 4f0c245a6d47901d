//! A cluster in its clusterset, in one invocation: it joins (who it is, and the objects of its imports), its exports are
//! published, then those of all members are imported into it, and its exports get their `conditions`. `member` is the
//! cluster while all that goes on.

use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::Invocation;
use super::member::Joined;
use crate::clients::{self, Connection};
use crate::cloud_map::Urgency;
use crate::clusterset::identity::{self, CLUSTER_PROPERTY, CLUSTERSET_PROPERTY, NoMember, Stated};
use crate::error::chain;
use crate::guard::Extent;
use crate::import::guard::Run;
use crate::import::observe::{DerivedOfAws, Objects};
use crate::import::plan::OwnerLabel;
use crate::import::sources::Members;
use crate::import::{Imported, Importing, OwnRecord};
use crate::model::clusterset::Overlay;
use crate::model::{Flow, Owner, Selection};
use crate::publish::exports::{Exported, Offer, Refused};
use crate::publish::observe::{SharedRegistry, Source, World};
use crate::publish::{Options, exports, observe};
use crate::report::{Mode, Obstacle};
use crate::settings::{Cluster, MultiCluster};

impl Invocation<'_> {
    /// Reads who a cluster is and the objects of its imports. `None` if it takes no part in a clusterset, or another entry
    /// of the settings serves it.
    pub async fn join(
        &self,
        cluster: &Cluster,
        selection: &Selection,
    ) -> Option<Result<Joined, Obstacle>> {
        let multi_cluster = self.settings.multi_cluster_of(cluster);
        let leaves_exports = self.adoption.as_ref().is_some_and(|adoption| !adoption.exports);
        if multi_cluster == MultiCluster::Off || leaves_exports {
            return None;
        }
        let joined = async {
            match self.clients.connect(cluster).await {
                Ok(connection) => {
                    Some(self.read_member(cluster, connection, multi_cluster, selection).await)
                }
                Err(clients::Error::NamedTwice { .. }) => None,
                Err(error) => Some(Err(unread(&error))),
            }
        };
        let in_time = timeout_at(self.deadline.stop(), joined).await;
        in_time.unwrap_or_else(|_| Some(Err(unread(&observe::Error::Deadline))))
    }

    async fn read_member(
        &self,
        cluster: &Cluster,
        connection: Connection,
        multi_cluster: MultiCluster,
        selection: &Selection,
    ) -> Result<Joined, Obstacle> {
        let kubernetes = &connection.kubernetes;
        let failed = |error: crate::kubernetes::Error| unread(&error);
        if !kubernetes.serves_multi_cluster().await.map_err(failed)? {
            return Err(no_api());
        }
        let settings = &cluster.membership;
        let property = |name| async move {
            match selection.names().filter(|_| self.mode == Mode::Sync) {
                Some(_) => kubernetes.recent_cluster_property(name).await,
                None => kubernetes.cluster_property(name).await,
            }
        };
        let properties =
            tokio::try_join!(property(CLUSTER_PROPERTY), property(CLUSTERSET_PROPERTY));
        let (of_cluster, clusterset) = properties.map_err(failed)?;
        let stated = Stated { cluster: of_cluster, clusterset };
        let (cluster_id, clusterset) = (settings.cluster_id.as_ref(), settings.clusterset.as_ref());
        let member = identity::member(cluster_id, clusterset, &stated)
            .map_err(|reason| no_member(&reason))?;
        let owner = OwnerLabel::new(&self.settings.owner_id);
        let objects = match (multi_cluster.imports(), selection.names()) {
            (false, _) => None,
            (true, Some(services)) => {
                Some(Objects::of_all(kubernetes, &owner, services).await.map_err(failed)?)
            }
            (true, None) => Some(Objects::read(kubernetes, &owner).await.map_err(failed)?),
        };
        let of_aws = objects.as_ref().and_then(|objects| objects.of_aws().next());
        // Without its exports it is not known whether that controller still runs.
        let may_adopt = self.adoption.is_some() && multi_cluster.exports();
        if let Some(import) = of_aws.filter(|_| !may_adopt) {
            return Err(another_controller(&format!("ServiceImport {import} is its own")));
        }
        let of_aws = match self.adoption {
            Some(_) => DerivedOfAws::read(kubernetes, &owner).await.map_err(failed)?,
            None => DerivedOfAws::default(),
        };
        let selection = selection.clone();
        Ok(Joined { member, selection, multi_cluster, connection, owner, objects, of_aws })
    }

    /// Publishes the exports of a cluster, or adopts them, and offers them to importers.
    ///
    /// # Errors
    /// Returns the reason if nothing was published.
    pub async fn export(
        &self,
        (cluster, joined): (&Cluster, &Joined),
        registry: &SharedRegistry,
        selection: &Selection,
        offer: oneshot::Sender<Offer>,
    ) -> Result<Option<Exported>, Obstacle> {
        let world = self.exporting(cluster, joined, registry);
        let urgency = match selection {
            Selection::Everything => Urgency::Bulk,
            Selection::Only { .. } => Urgency::Urgent,
        };
        let options = Options { urgency, ..self.options() };
        let member = (&joined.member, joined.standing_imports());
        let exported = match (self.adoption.is_some(), joined.imports_only()) {
            (_, Some(_)) if *selection != Selection::Everything => return Ok(None),
            (_, Some(objects)) => {
                let standing = objects.standing(&joined.owner).into_keys();
                let sources = standing.map(|(_, cluster)| cluster).collect();
                exports::introduce(&world, member, &sources, options, offer).await
            }
            (true, None) => exports::adopt(&world, member, options, offer).await,
            (false, None) => exports::publish(&world, member, selection, options, offer).await,
        };
        Ok(Some(exported.map_err(|error| unread(&error))??))
    }

    /// Publishes the exports of a cluster, or plans it, while no other cluster waits for them.
    ///
    /// # Errors
    /// Returns the reason if nothing was published.
    pub async fn export_alone(
        &self,
        cluster: (&Cluster, &Joined),
        registry: &SharedRegistry,
        selection: &Selection,
    ) -> Result<Option<Exported>, Obstacle> {
        self.export(cluster, registry, selection, oneshot::channel().0).await
    }

    /// The exports of a cluster as they are now, without Cloud Map. `None` if they cannot be read.
    pub async fn exports_in_cluster(
        &self,
        (cluster, joined): (&Cluster, &Joined),
        registry: &SharedRegistry,
        selection: &Selection,
    ) -> Option<Overlay> {
        if !joined.multi_cluster.exports() {
            return None;
        }
        let world = self.exporting(cluster, joined, registry);
        exports::in_cluster(&world, selection, self.deadline).await
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
    /// confirmation is, too. `own_record`: its record, as far as this invocation has
    /// written it.
    pub async fn import(
        &self,
        joined: &Joined,
        members: &Members<'_>,
        (is_selected, own_record): (bool, OwnRecord),
    ) -> Option<Imported> {
        let selection = &joined.selection;
        let allows = |namespace: &str, address| self.allows(joined, namespace, address);
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
            remembers: own_record == OwnRecord::Stands
                || members.holder_of(&joined.member.cluster).is_some(),
        };
        let importing = Importing {
            kubernetes: &joined.connection.kubernetes,
            owner: &joined.owner,
            member: &joined.member,
            objects,
            own_record,
            takes_over: self.adoption.is_some(),
            writes: self.mode == Mode::Sync,
            policy: self.settings.rules.policy,
            guard,
            allows: &allows,
            now: self.now,
            deadline: self.deadline,
        };
        let imported = importing.run(members, &joined.selection).await;
        self.create_events(&joined.connection.kubernetes, &imported.notices).await;
        Some(imported)
    }
}

// The reasons why a cluster takes no part in its clusterset, or publishes no exports, as its report has them.

impl From<Refused> for Obstacle {
    fn from(refused: Refused) -> Self {
        let (reason, detail) = (refused.code().into(), refused.to_string());
        Self { reason, detail, failed: matches!(refused, Refused::Unreadable(_)) }
    }
}

/// Installs the definitions of the API.
pub const INSTALL: &str = "CRDS=https://raw.githubusercontent.com/kubernetes-sigs/mcs-api/v0.5.2/config/crd; kubectl apply -f $CRDS/multicluster.x-k8s.io_serviceexports.yaml -f $CRDS/multicluster.x-k8s.io_serviceimports.yaml";

pub(super) fn no_api() -> Obstacle {
    let detail = format!(
        "the cluster does not serve multicluster.x-k8s.io/v1beta1: install mcs-api v0.5.0 or newer: {INSTALL}"
    );
    Obstacle { reason: "NoMultiClusterApi".into(), detail, failed: false }
}

/// A read that failed, which the next run may make.
pub fn unread(error: &dyn std::error::Error) -> Obstacle {
    Obstacle { reason: "Unreadable".into(), detail: chain(error), failed: true }
}

/// AWS's controller deregisters everything under its cluster id that it did not register, and deletes imports without
/// endpoints, so the two never run for one cluster.
pub(super) fn another_controller(sign: &str) -> Obstacle {
    let detail = format!(
        "the AWS Cloud Map MCS Controller runs in this cluster, or did: {sign}; nothing is exported or imported here; \
         to move the cluster, see docs/moving-from-other-tools.md"
    );
    Obstacle { reason: "AnotherController".into(), detail, failed: false }
}

pub(super) fn no_member(reason: &NoMember) -> Obstacle {
    Obstacle { reason: reason.code().into(), detail: reason.to_string(), failed: false }
}
