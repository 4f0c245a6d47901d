//! One cluster of an invocation: connect, publish, report Events.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::{Instant, timeout_at};

use crate::clients::{self, Clients, Connection};
use crate::cloud_map::{self, Urgency};
use crate::eks;
use crate::error::chain;
use crate::kubernetes::desired::{self, Reading};
use crate::model::{Notice, Owner, Registry, Selection, Timestamp};
use crate::publish::observe::{self, ReadBy, SharedRegistry, World};
use crate::publish::plan::{Adoption, Claimed, Rules};
use crate::publish::{self, Options};
use crate::report::{ClusterReport, Mode};
use crate::settings::{Cluster, Settings};
use crate::time::Deadline;

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
}

impl Error {
    /// Whether EKS says that there is no such cluster where it was asked.
    pub fn says_gone(&self) -> bool {
        let not_found = |error: &eks::Error| matches!(error, eks::Error::NotFound { .. });
        matches!(self, Self::Connect(clients::Error::Describe(error)) if not_found(error))
    }
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
    /// Makes Cloud Map say what the selected Services of a cluster say, or plans it. Returns what the
    /// cluster claims, too.
    ///
    /// # Errors
    /// Where the cluster or the registry could not be read whole.
    pub async fn reconcile(
        &self,
        cluster: &Cluster,
        registry: &SharedRegistry,
        selection: &Selection,
    ) -> Result<(ClusterReport, Claimed), Error> {
        let stop = self.deadline.stop();
        let connected = timeout_at(stop, self.clients.connect(cluster)).await;
        let connection = connected.map_err(|_| observe::Error::Deadline)??;
        match self.run(cluster, &connection, registry, selection).await {
            // The cluster may have been made again under its name: look once where it is now.
            Err(Error::Observe(observe::Error::Kubernetes(error)))
                if connection.reused && error.may_be_stale() =>
            {
                let connected = timeout_at(stop, self.clients.reconnect(cluster)).await;
                let connection = connected.map_err(|_| observe::Error::Deadline)??;
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
    ) -> Result<(ClusterReport, Claimed), Error> {
        let world = self.world(cluster, connection, registry);
        if let Some(account) = cluster.registry_account(&world.owner.cluster) {
            registry.set_account(account);
        }
        let urgency = match selection {
            Selection::Everything => Urgency::Bulk,
            Selection::Only { .. } => Urgency::Urgent,
        };
        let options = Options { urgency, ..self.options() };
        let published = publish::publish(&world, selection, self.adoption.as_ref(), options).await;
        let (report, claimed, notices) = published?;
        if self.mode == Mode::Sync {
            self.create_events(&world, &notices).await;
        }
        Ok((report, claimed))
    }

    /// How a plan is carried out that rests on what is read from now on.
    pub(crate) fn options(&self) -> Options {
        let Self { mode, deadline, now, .. } = *self;
        Options { mode, deadline, now, urgency: Urgency::Bulk, observed: Instant::now() }
    }

    /// What a read of Cloud Map tells, where it ends before the deadline.
    pub(crate) async fn in_time(
        &self,
        read: impl Future<Output = Result<Registry, Arc<cloud_map::Error>>>,
    ) -> Result<Registry, Error> {
        let read =
            timeout_at(self.deadline.stop(), read).await.map_err(|_| observe::Error::Deadline)?;
        Ok(read.map_err(observe::Error::from)?)
    }

    /// How many Services of a cluster claim names to register instances under.
    ///
    /// # Errors
    /// Where the cluster could not be read.
    pub async fn claimants(&self, cluster: &Cluster) -> Result<usize, Error> {
        let read = async {
            let connection = self.clients.connect(cluster).await?;
            let services = connection.kubernetes.headless_services().await;
            let services = services.map_err(observe::Error::from)?;
            let desired = desired::desired(&services, &self.reading(cluster));
            Ok(desired.all_claims().filter(|claims| claims.publish).count())
        };
        timeout_at(self.deadline.stop(), read).await.map_err(|_| observe::Error::Deadline)?
    }

    /// Creates an Event for each notice. Nothing waits for them, and a refusal is no failure.
    async fn create_events(&self, world: &World<'_>, notices: &[Notice]) {
        let created = stream::iter(notices)
            .map(|notice| world.kubernetes.create_event(notice))
            .buffer_unordered(EVENTS_SIDE_BY_SIDE)
            .try_collect::<Vec<()>>();
        if let Ok(Err(error)) = timeout_at(self.deadline.stop(), created).await {
            tracing::debug!("Events are not created: {}", chain(&error));
        }
    }

    pub(crate) fn world<'w>(
        &self,
        cluster: &Cluster,
        connection: &'w Connection,
        registry: &'w SharedRegistry,
    ) -> World<'w> {
        World {
            kubernetes: &connection.kubernetes,
            reading: self.reading(cluster),
            owner: Owner {
                id: self.settings.owner_id.clone(),
                cluster: connection.cluster.arn.clone(),
            },
            rules: self.rules(cluster),
            now: self.now,
            confirmed: self.confirmed,
            registry,
            // An adoption is about what is not in step.
            read_by: match self.adoption {
                Some(_) => ReadBy::List,
                None => self.settings.read_by,
            },
        }
    }

    /// The rules of a cluster. `DNS_NAMESPACES` describes the function's own role alone.
    fn rules(&self, cluster: &Cluster) -> Arc<Rules> {
        let rules = &self.settings.rules;
        if rules.lacks_dns_rights && cluster.registry_role.is_some() {
            return Arc::new(Rules { lacks_dns_rights: false, ..Rules::clone(rules) });
        }
        rules.clone()
    }

    fn reading(&self, cluster: &Cluster) -> Reading {
        Reading {
            prefix: self.settings.annotation_prefix.clone(),
            default_namespace: cluster.default_namespace.clone(),
        }
    }
}
