//! One cluster, top to bottom: connect, observe, plan, apply, report. Wiring only.

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::timeout_at;

use crate::apply::{self, Task, Terms};
use crate::clients::{self, Clients, Connection};
use crate::deadline::Deadline;
use crate::kubernetes::desired::Reading;
use crate::model::{Owner, Selection, Timestamp};
use crate::observe::{self, SharedRegistry, World};
use crate::plan::{Adoption, HeldBack};
use crate::report::{ClusterReport, Mode, Notice, chain, notices};
use crate::settings::{Cluster, Settings};

/// How many Events are created at once.
const EVENTS_SIDE_BY_SIDE: usize = 8;

/// Why a cluster was not reconciled. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be connected to.
    #[error(transparent)]
    Connect(#[from] clients::Error),
    /// It or its registry could not be read.
    #[error(transparent)]
    Observe(#[from] observe::Error),
    /// Reading took all the time there was.
    #[error("the time of this invocation was used up before cluster and Cloud Map were read")]
    Deadline,
}

/// What all clusters of an invocation share.
pub struct Invocation<'a> {
    /// The function's settings.
    pub settings: &'a Settings,
    /// Its clients.
    pub clients: &'a Clients,
    /// Whether to write.
    pub mode: Mode,
    /// Which instances of others are to become ours, where that is all that is asked for.
    pub adoption: Option<Adoption>,
    /// Whether a loss that the guard would hold is let pass.
    pub confirmed: bool,
    /// When it began.
    pub now: Timestamp,
    /// Until when.
    pub deadline: Deadline,
}

impl Invocation<'_> {
    /// Makes Cloud Map say what the selected Services of a cluster say, or plans it.
    ///
    /// # Errors
    /// Where the cluster or the registry could not be read whole.
    pub async fn reconcile(
        &self,
        cluster: &Cluster,
        registry: &SharedRegistry,
        selection: &Selection,
    ) -> Result<ClusterReport, Error> {
        let stop = self.deadline.stop();
        let connected = timeout_at(stop, self.clients.connect(cluster)).await;
        let connection = connected.map_err(|_| Error::Deadline)??;
        match self.run(cluster, &connection, registry, selection).await {
            // The cluster may have been made again under its name: look once where it is now.
            Err(Error::Observe(observe::Error::Kubernetes(error)))
                if connection.reused && error.may_be_stale() =>
            {
                let connected = timeout_at(stop, self.clients.reconnect(cluster)).await;
                let connection = connected.map_err(|_| Error::Deadline)??;
                self.run(cluster, &connection, registry, selection).await
            }
            result => result,
        }
    }

    async fn run(
        &self,
        cluster: &Cluster,
        connection: &Connection,
        registry: &SharedRegistry,
        selection: &Selection,
    ) -> Result<ClusterReport, Error> {
        let world = self.world(cluster, connection, registry);
        let observed = timeout_at(self.deadline.stop(), world.observe(selection)).await;
        let (observation, affected) = observed.map_err(|_| Error::Deadline)??;
        let task = match &self.adoption {
            Some(adoption) => Task::Adopt(&world, adoption),
            None => Task::Sync(&world),
        };
        let mut plan = task.plan(&observation, &affected);
        let name = connection.cluster.arn.as_str();
        if self.mode != Mode::Sync {
            return Ok(ClusterReport::of_plan(name, plan));
        }
        let changes = std::mem::take(&mut plan.changes);
        let terms = Terms { deadline: self.deadline, rotation: rotation(self.now) };
        let results = apply::apply(&task, &observation, changes, terms).await;
        let refused = results.refused();
        plan.add_held_back(results.held_back);
        let held_back: Vec<HeldBack> = plan.held_back.iter().cloned().chain(refused).collect();
        self.tell(&world, &notices(&held_back, &observation.desired)).await;
        Ok(ClusterReport::new(name, plan, results.applied))
    }

    /// Tells the cluster what is held back. Nobody waits for it, and a refusal is no failure.
    async fn tell(&self, world: &World<'_>, notices: &[Notice]) {
        let told = stream::iter(notices)
            .map(|notice| world.kubernetes.tell(notice))
            .buffer_unordered(EVENTS_SIDE_BY_SIDE)
            .try_collect::<Vec<()>>();
        if let Ok(Err(error)) = timeout_at(self.deadline.stop(), told).await {
            tracing::debug!("Events are not told: {}", chain(&error));
        }
    }

    fn world<'w>(
        &self,
        cluster: &Cluster,
        connection: &'w Connection,
        registry: &'w SharedRegistry,
    ) -> World<'w> {
        World {
            kubernetes: &connection.kubernetes,
            reading: Reading {
                prefix: self.settings.annotation_prefix.clone(),
                default_namespace: cluster.default_namespace.clone(),
            },
            owner: Owner {
                id: self.settings.owner_id.clone(),
                cluster: connection.cluster.arn.clone(),
            },
            rules: self.settings.rules.clone(),
            now: self.now,
            confirmed: self.confirmed,
            registry,
        }
    }
}

/// Which Service comes first in this minute. Nothing is remembered between runs, and the clock is
/// enough to give every Service its turn.
fn rotation(now: Timestamp) -> usize {
    usize::try_from(now.as_second() / 60).unwrap_or(0)
}
