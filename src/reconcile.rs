//! The run of one cluster in an invocation: connects to the cluster, publishes its Services (observe, plan, apply), and
//! creates Kubernetes Events for the notices. Returns the cluster's report.

mod clusterset;
mod imports;
mod member;

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use tokio::time::{self, Instant};

use crate::clients::{self, Clients, Connection};
use crate::cloud_map;
use crate::eks;
use crate::error::chain;
use crate::kubernetes::{AnnotationSettings, ErrorClass, Kubernetes};
use crate::model::{Flow, Notice, Owner, Registry, Selection, Timestamp};
use crate::publish::observe::{self, ClaimSource, ClusterRun, SharedRegistry};
use crate::publish::plan::{Adoption, Rules};
use crate::publish::{self, Failed, Options};
use crate::report::{ClusterReport, Mode};
use crate::settings::{Cluster, Settings};
use crate::time::Deadline;

pub use clusterset::Clusterset;
pub use member::{JoinedCluster, unread_line};

/// The number of clusters that are read or written at once.
pub const CONCURRENT_CLUSTERS: usize = 8;
/// The number of Events that are created at once.
const CONCURRENT_EVENTS: usize = 8;

/// The error of a cluster that was not reconciled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection failed.
    #[error(transparent)]
    Connect(#[from] clients::Error),
    /// The cluster or its registry could not be read.
    #[error(transparent)]
    Publish(#[from] Failed),
}

impl From<time::error::Elapsed> for Error {
    fn from(elapsed: time::error::Elapsed) -> Self {
        observe::Error::from(elapsed).into()
    }
}

impl From<observe::Error> for Error {
    fn from(error: observe::Error) -> Self {
        Self::Publish(error.into())
    }
}

impl Error {
    /// Returns the report of the changes that were made before the error, if any.
    pub fn into_partial_report(self) -> Option<ClusterReport> {
        match self {
            Self::Publish(Failed::Partial { made, .. }) => Some(*made),
            _ => None,
        }
    }

    /// Whether EKS has no such cluster in the configured account and Region.
    pub fn is_cluster_not_found(&self) -> bool {
        let not_found = |error: &eks::Error| matches!(error, eks::Error::NotFound { .. });
        matches!(self, Self::Connect(clients::Error::Describe(error)) if not_found(error))
    }
}

/// The values that all clusters of an invocation share.
pub struct Invocation<'a> {
    pub settings: &'a Settings,
    pub clients: &'a Clients,
    /// Whether to write.
    pub mode: Mode,
    /// The instances to adopt. `None` unless the invocation is an adoption.
    pub adoption: Option<Adoption>,
    /// Whether a loss that the guard would hold is confirmed.
    pub confirmed: bool,
    /// Whether a command of a direct invocation started the run.
    pub is_direct: bool,
    /// Whether the command requests a sync that reads as much of Cloud Map as there is time for (`fresh`).
    pub is_fresh: bool,
    /// The start of the invocation.
    pub now: Timestamp,
    /// The end of the invocation.
    pub deadline: Deadline,
}

impl Invocation<'_> {
    /// Syncs the selected Services of a cluster to Cloud Map, or plans the sync.
    ///
    /// # Errors
    /// Returns an error if the cluster or the registry could not be read completely.
    pub async fn reconcile(
        &self,
        cluster: &Cluster,
        registry: &SharedRegistry,
        selection: &Selection,
    ) -> Result<ClusterReport, Error> {
        let reconciled = self.with_connection(cluster, async |connection| {
            let cluster_run = self.cluster_run(cluster, connection, registry);
            let adoption = self.adoption.as_ref();
            let options = self.options();
            let published = Box::pin(publish::publish(&cluster_run, selection, adoption, options));
            let (report, notices) = published.await?;
            if self.mode == Mode::Sync {
                self.create_events(&connection.kubernetes, &notices).await;
            }
            Ok(report)
        });
        reconciled.await
    }

    /// Calls `run` with a connection to a cluster. If `run` fails with an error that a stale cached connection may
    /// cause, describes the cluster again and repeats `run` once: the cluster may have been created again under its
    /// name, or EKS may have rotated its certificate authority.
    pub(crate) async fn with_connection<T>(
        &self,
        cluster: &Cluster,
        run: impl AsyncFn(&Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let connection = self.connect(cluster).await?;
        match run(&connection).await {
            Err(Error::Publish(Failed::Unread(observe::Error::Kubernetes(error))))
                if connection.reused && error.may_be_stale() =>
            {
                run(&self.reconnect(cluster).await?).await
            }
            result => result,
        }
    }

    /// Returns a connection to a cluster. Its calls end at the deadline of this invocation.
    ///
    /// # Errors
    /// Returns an error if EKS cannot describe the cluster, describes another one or does not answer in time.
    pub(crate) async fn connect(&self, cluster: &Cluster) -> Result<Connection, clients::Error> {
        self.connection(cluster, self.clients.connect(cluster)).await
    }

    /// Makes a new connection from a new description of the cluster.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Self::connect`].
    pub(crate) async fn reconnect(&self, cluster: &Cluster) -> Result<Connection, clients::Error> {
        self.connection(cluster, self.clients.reconnect(cluster)).await
    }

    async fn connection(
        &self,
        cluster: &Cluster,
        connecting: impl Future<Output = Result<Connection, clients::Error>>,
    ) -> Result<Connection, clients::Error> {
        let connected = self.deadline.half(connecting).await;
        let connection = connected.map_err(|_| clients::Error::Late(cluster.arn.clone()))??;
        let kubernetes = connection.kubernetes.until(self.deadline.stop);
        Ok(Connection { kubernetes, ..connection })
    }

    /// Whether the run reads as much of Cloud Map as there is time for: a plan, a dry run, a purge, an adoption, a
    /// confirmed loss, or a sync with `fresh`.
    pub(crate) fn reads_without_budget(&self) -> bool {
        self.mode != Mode::Sync || self.adoption.is_some() || self.confirmed || self.is_fresh
    }

    /// Returns the options for a plan from reads that begin now.
    pub(crate) fn options(&self) -> Options {
        let Self { mode, deadline, now, is_direct, .. } = *self;
        Options { mode, deadline, now, observed: Instant::now(), is_direct }
    }

    /// Waits for a read of Cloud Map until the deadline.
    pub(crate) async fn read_in_time(
        &self,
        read: impl Future<Output = Result<Registry, Arc<cloud_map::Error>>>,
    ) -> Result<Registry, Error> {
        Ok(self.deadline.until_stop(read).await?.map_err(observe::Error::from)?)
    }

    /// Returns the number of Services of a cluster that claim names for their instances. Later reads of `registry`
    /// begin with these names.
    ///
    /// # Errors
    /// Returns an error if the cluster or the namespaces of Cloud Map could not be read.
    pub async fn count_claimants(
        &self,
        cluster: &Cluster,
        registry: &SharedRegistry,
    ) -> Result<usize, Error> {
        let read = self.with_connection(cluster, async |connection| {
            let claims = self.cluster_run(cluster, connection, registry).read_claims().await?;
            Ok(claims.all_claims().filter(|claims| claims.publish).count())
        });
        self.deadline.until_stop(read).await?
    }

    /// Creates an Event for each notice. Errors are only logged, since no change depends on an Event, and a namespace
    /// that is being deleted refuses Events. If the API server does not answer, no further Event is tried.
    async fn create_events<'n>(
        &self,
        kubernetes: &Kubernetes,
        notices: impl IntoIterator<Item = &'n Notice>,
    ) {
        let wanted = notices.into_iter().filter(|notice| self.settings.events.has(notice.tone));
        let mut created = stream::iter(wanted)
            .map(|notice| kubernetes.create_event(notice))
            .buffer_unordered(CONCURRENT_EVENTS);
        let mut errors = Vec::new();
        while let Ok(Some(created)) = self.deadline.until_stop(created.next()).await {
            errors.extend(created.err());
            if errors.last().is_some_and(|error| error.class == ErrorClass::Unreachable) {
                break;
            }
        }
        let Some(first) = errors.first() else { return };
        let count = errors.len();
        let first = chain(first);
        if kubernetes.record_refusal() {
            tracing::info!("{count} Events were not created; the first error: {first}");
        } else {
            tracing::debug!("{count} Events were not created; the first error: {first}");
        }
    }

    pub(crate) fn cluster_run<'w>(
        &self,
        cluster: &Cluster,
        connection: &'w Connection,
        registry: &'w SharedRegistry,
    ) -> ClusterRun<'w> {
        ClusterRun {
            kubernetes: &connection.kubernetes,
            source: ClaimSource::Annotations(self.annotation_settings(cluster)),
            owner: Owner {
                id: self.settings.owner_id.clone(),
                cluster: connection.cluster.arn.clone(),
                flow: Flow::Annotations,
            },
            rules: self.rules(cluster),
            now: self.now,
            confirmed: self.confirmed,
            registry,
            may_export: self.settings.multi_cluster_of(cluster).exports(),
        }
    }

    /// Returns the rules of a cluster. `DNS_NAMESPACES` applies only to the function's own role.
    fn rules(&self, cluster: &Cluster) -> Arc<Rules> {
        let rules = &self.settings.rules;
        if rules.lacks_dns_rights && cluster.registry_role.is_some() {
            return Arc::new(Rules { lacks_dns_rights: false, ..Rules::clone(rules) });
        }
        rules.clone()
    }

    pub(crate) fn annotation_settings(&self, cluster: &Cluster) -> AnnotationSettings {
        AnnotationSettings {
            prefix: self.settings.annotation_prefix.clone(),
            default_namespace: cluster.default_namespace.clone(),
        }
    }
}
