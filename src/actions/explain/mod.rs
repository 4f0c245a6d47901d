//! The action `explain`: the state of one Service in Cloud Map, with the reasons. It reads everything that a sync of
//! the Service would read, plans the sync, and calls DiscoverInstances as a client would. It writes nothing.
//!
//! If the cluster is in a clusterset, `explain` also covers the export and import of the Service's name in this
//! cluster. It reads the exports of the name in every cluster that the function serves, and in Cloud Map, and plans the
//! export and the import.
//!
//! `answer` has the answer as data and text; `clusterset_answer` has the explanation of the clusterset.

mod answer;
mod clusterset_answer;

use futures_util::{FutureExt, StreamExt, stream};

use crate::error::chain;
use crate::import::plan::Sources;
use crate::import::sources::{ExportsForImporter, Members};
use crate::kubernetes::{Service, services};
use crate::model::{Line, NamespaceKind, Selection, ServiceRef};
use crate::publish::exports::PublishedExports;
use crate::publish::observe::{self, ClusterRun, SharedRegistry};
use crate::publish::plan::{self, NameWithFates, Observation, Plan};
use crate::reconcile::{
    CONCURRENT_CLUSTERS, Clusterset, Error, Invocation, JoinedCluster, unread_line,
};
use crate::settings::Cluster;

pub use answer::{Discovery, ExplainedName, Explanation};
pub use clusterset_answer::{ClustersetExplanation, ExporterLine};

/// The observation of a Service, from its annotations or from its export, and the plan from that observation.
type Planned = (Observation, Plan);

impl Invocation<'_> {
    /// Explains a Service of a cluster.
    ///
    /// # Errors
    /// Returns an error if the cluster or the registry could not be read completely.
    pub async fn explain(
        &self,
        cluster: &Cluster,
        registry: &SharedRegistry,
        service: &ServiceRef,
    ) -> Result<Explanation, Error> {
        let explained = self.with_connection(cluster, async |connection| {
            let read =
                connection.kubernetes.service(service).await.map_err(observe::Error::from)?;
            let in_clusterset = self.explain_clusterset(cluster, registry, service);
            let (clusterset, exported) = Box::pin(in_clusterset).await.unzip();
            let has_name = clusterset.as_ref().is_some_and(ClustersetExplanation::may_have_name);
            let mut explanation = Explanation::new(connection.cluster.arn.as_str(), service);
            let annotation_settings = self.annotation_settings(cluster);
            let has_annotations = |read: &Service| {
                read.metadata
                    .annotations
                    .keys()
                    .any(|key| key.starts_with(&annotation_settings.prefix))
            };
            // A Service that claims nothing may still have instances, which the guard holds or the next sync removes.
            let mut may_have_instances = true;
            match &read {
                None => {
                    explanation.add_absence(has_name);
                    may_have_instances = !has_name;
                }
                Some(read) if has_name && !has_annotations(read) => {
                    explanation.add_address(read, false);
                    may_have_instances = false;
                }
                Some(read) => {
                    let claims = services::annotated(read, &annotation_settings);
                    explanation.add_annotations(
                        &annotation_settings.prefix,
                        read,
                        claims.is_some(),
                    );
                    explanation.add_address(read, true);
                }
            }
            let mut annotated = None;
            if may_have_instances {
                let cluster_run = self.cluster_run(cluster, connection, registry);
                annotated = Some(planned(&cluster_run, service).await?);
            }
            for planned in annotated.into_iter().chain(exported.flatten()) {
                add_names(&mut explanation, registry, &planned).await;
            }
            Ok(explanation.conclude(clusterset))
        });
        self.deadline.until_stop(explained).await?
    }
}

async fn planned(
    cluster_run: &ClusterRun<'_>,
    service: &ServiceRef,
) -> Result<Planned, observe::Error> {
    let observed = cluster_run.observe(&Selection::service(service.clone())).await?;
    let plan = plan::plan_with_fates(&observed, service);
    Ok((observed, plan))
}

/// Adds the names of the Service with the instances that clients discover.
async fn add_names(
    explanation: &mut Explanation,
    registry: &SharedRegistry,
    (observed, plan): &Planned,
) {
    for found in plan::names_with_fates(observed, plan, &explanation.service) {
        let discovery = discover(registry, observed, &found).await;
        explanation.add_name(observed, found, plan, discovery);
    }
    explanation.add_other_names(observed, plan);
}

/// Calls DiscoverInstances for the name, if the Cloud Map service exists. The marks in the observation show the owner
/// of each instance.
async fn discover(
    registry: &SharedRegistry,
    observation: &Observation,
    NameWithFates { place, kind, .. }: &NameWithFates,
) -> Option<Discovery> {
    (*kind)?;
    let namespace = observation.registry.namespaces.get(&place.key.namespace)?;
    let name = || format!("{}.{}", place.name, namespace.name);
    let dns = (namespace.kind == NamespaceKind::Dns).then(name);
    let mut discovery = Discovery { dns, ..Discovery::default() };
    match registry.cloud_map.discover(namespace, &place.name).await {
        Ok(instances) => {
            for (id, health) in instances {
                let known = observation.registry.instance(&place.key, &id);
                let is_ours = known.is_some_and(|attributes| observation.owner.owns(attributes));
                let counts = if is_ours { &mut discovery.ours } else { &mut discovery.others };
                *counts.entry(health).or_default() += 1;
            }
        }
        Err(error) => discovery.error = Some(chain(&error)),
    }
    Some(discovery)
}

// The explanation of the clusterset.

/// The inputs of the clusterset's answer.
struct ClustersetInputs<'a> {
    name: &'a ServiceRef,
    joined: &'a JoinedCluster<'a>,
    own_exports: Option<&'a PublishedExports>,
    /// The merged exports of the name, as they were read.
    exports: &'a ExportsForImporter,
    /// The exports that the import is built from, as the plan of the import used them. Without a plan, as they were
    /// read.
    sources: &'a Sources,
    members: &'a Members<'a>,
}

/// The explanation of a clusterset, and the export's observation and plan.
type ExplainedClusterset = (ClustersetExplanation, Option<Planned>);

impl Invocation<'_> {
    /// Explains a name in the cluster's clusterset. Returns `None` if the cluster takes part in none.
    async fn explain_clusterset(
        &self,
        cluster: &Cluster,
        registry: &SharedRegistry,
        name: &ServiceRef,
    ) -> Option<ExplainedClusterset> {
        let explained = match self.join(cluster, &Selection::service(name.clone())).await? {
            Ok(joined) => self.explain_member(&joined, registry, name).await,
            Err(obstacle) => Err(obstacle),
        };
        Some(
            explained
                .unwrap_or_else(|obstacle| (ClustersetExplanation::from_obstacle(&obstacle), None)),
        )
    }

    /// Reads the clusterset of a cluster, with the exports of the name in each cluster that the function serves.
    /// `own_exports`: the exports of the explained cluster itself.
    async fn read_clusterset(
        &self,
        joined: &JoinedCluster<'_>,
        registry: &SharedRegistry,
        own_exports: Option<&PublishedExports>,
    ) -> Clusterset {
        let own = &joined.member;
        let exporters = self.exporters(joined.cluster);
        let others = self
            .settings
            .clusters
            .iter()
            .filter(|other| other.arn != joined.cluster.arn && exporters.contains(&other.arn));
        // The imports of the other clusters are not needed.
        let nothing = &Selection::nothing();
        let joins = others.map(async |other| Some((other, self.join(other, nothing).await?)));
        let joins = stream::iter(joins).buffered(CONCURRENT_CLUSTERS);
        let joins: Vec<_> = Box::pin(joins.filter_map(async |join| join).collect()).await;
        let mut members = Vec::new();
        let mut silent = Vec::new();
        for (other, join) in joins {
            match join {
                Ok(other) if other.member.clusterset == own.clusterset => members.push(other),
                Err(obstacle) if obstacle.is_unfinished() => silent.push(other.arn.clone()),
                _ => {}
            }
        }
        let reads = members.iter().map(async |other| {
            (other, other.exports_in_cluster(registry, &joined.selection).await)
        });
        let reads = stream::iter(reads).buffered(CONCURRENT_CLUSTERS);
        let reads: Vec<_> = Box::pin(reads.collect()).await;
        let mut clusterset = self.clusterset(joined.cluster, silent.into_iter());
        clusterset.served.bypasses_cache = true;
        let own_exports = own_exports.map(|exported| exported.read.clone());
        clusterset.add(joined, registry, own_exports);
        for (other, exports) in reads {
            clusterset.add(other, registry, exports);
        }
        clusterset.add_parts(joined);
        clusterset.read(registry, &own.clusterset).await;
        clusterset
    }

    async fn explain_member(
        &self,
        joined: &JoinedCluster<'_>,
        registry: &SharedRegistry,
        name: &ServiceRef,
    ) -> Result<ExplainedClusterset, Box<Line>> {
        let own = &joined.member;
        let own_exports = joined.export(registry, &joined.selection, drop).await?;
        let exported = own_exports.as_ref().filter(|_| joined.is_exporting());
        let clusterset = self.read_clusterset(joined, registry, exported).await;
        if let Some(problem) = &clusterset.in_cloud_map.problem {
            return Err(Box::new(Line::unreadable(problem.clone())));
        }
        let members = clusterset.members(&own.clusterset, self);
        let present = joined.objects.as_ref().map(|objects| objects.present(name));
        let in_import = present.map(|present| present.clusters()).unwrap_or_default();
        let exports = &joined.exports_to_import(&members, name, &in_import);
        // A plan writes no object, so there is nothing to read again.
        let read_again = |_, _| std::future::ready(None).boxed_local();
        let mut imported = joined.import(&members, true, &read_again).await;
        let import = imported.as_mut().and_then(|imported| imported.imports.get_mut(name));
        let planned_sources = import.and_then(|import| import.sources.take());
        let own_exports = own_exports.as_ref();
        let sources = planned_sources.as_ref().unwrap_or(&exports.sources);
        let inputs =
            ClustersetInputs { name, joined, own_exports, exports, sources, members: &members };
        let answer = ClustersetExplanation::new(&inputs, imported);
        if own_exports.is_none_or(|exported| !exported.read.desired.services.contains_key(name)) {
            return Ok((answer, None));
        }
        let planned = planned(&joined.exporting(registry), name).await;
        Ok((answer, Some(planned.map_err(|error| unread_line(&error))?)))
    }
}
