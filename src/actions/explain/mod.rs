//! The action `explain`: the registration of one Service in Cloud Map, with the reasons. It reads all that a sync would
//! read of the Service, plans, and calls DiscoverInstances as a client would. Nothing is written.
//!
//! Of a clusterset it explains the export and the import of one name, in one member: it reads what a targeted sync of the
//! name reads, and plans both. The other members are as Cloud Map has them.
//!
//! `answer` is the answer as data and as text, with that of a clusterset in `clusterset_answer`.

mod answer;
mod clusterset_answer;

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::clusterset::conditions::ExportOutcome;
use crate::error::chain;
use crate::import::OwnRecord;
use crate::import::plan::{Absent, Present, Read};
use crate::import::sources::{Candidate, Members, MergedName};
use crate::kubernetes::object::Service;
use crate::kubernetes::services::{self, is_headless};
use crate::model::{
    ClusterId, Family, NamespaceKind, Selection, ServiceExport, ServiceRef, Timestamp,
};
use crate::publish::exports::PublishedExports;
use crate::publish::observe::{self, Served, SharedRegistry, World};
use crate::publish::plan::{self, Found, Observation, Plan};
use crate::reconcile::{Error, Invocation, Joined, unread};
use crate::report::Obstacle;
use crate::settings::Cluster;

pub use answer::{Discovery, EndpointCondition, EndpointLine, ExplainedName, Explanation, Fact};
pub use clusterset_answer::{ClustersetExplanation, ExporterLine};

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
        let explained = async {
            let connection = &self.clients.connect(cluster).await?;
            let read =
                connection.kubernetes.service(service).await.map_err(observe::Error::from)?;
            let explained = Box::pin(self.explain_clusterset(cluster, registry, service)).await;
            let takes_part = explained.as_ref().is_some_and(|it| it.answer.takes_part());
            let mut explanation = Explanation::new(connection.cluster.arn.as_str(), service);
            match read {
                None if takes_part => {
                    explanation.add_fact(false, "service", "none of this name in this cluster");
                }
                None => {
                    explanation.add_fact(true, "service", "not found in the cluster");
                    explanation.ok = false;
                }
                Some(read) if takes_part && !self.has_annotations(&read) => {
                    explanation.add_address(&read, false);
                }
                Some(read) => {
                    let world = self.world(cluster, connection, registry);
                    self.explain_annotated((cluster, &world), &read, &mut explanation).await?;
                }
            }
            if let Some(Explained { answer, instances }) = explained {
                if let Some((observed, plan)) = &instances {
                    add_names(&mut explanation, registry, observed, plan).await;
                }
                explanation.add_clusterset(answer);
            }
            Ok(explanation)
        };
        self.deadline.until_stop(explained).await?
    }

    fn has_annotations(&self, read: &Service) -> bool {
        let prefix = &self.settings.annotation_prefix;
        read.metadata.annotations.keys().any(|key| key.starts_with(prefix))
    }

    /// Explains a Service as an annotated one.
    async fn explain_annotated(
        &self,
        (cluster, world): (&Cluster, &World<'_>),
        read: &Service,
        explanation: &mut Explanation,
    ) -> Result<(), Error> {
        let prefix = &self.settings.annotation_prefix;
        let own = read.metadata.annotations.iter().filter(|(key, _)| key.starts_with(prefix));
        explanation.add_annotations(prefix, own);
        explanation.add_address(read, true);
        if !is_headless(read) || services::annotated(read, &self.reading(cluster)).is_none() {
            explanation.ok = false;
            return Ok(());
        }
        let observed = world.observe(&Selection::service(explanation.service.clone())).await?;
        let plan = plan::plan(&observed);
        add_names(explanation, world.registry, &observed, &plan).await;
        explanation.add_held_back(&plan);
        Ok(())
    }
}

/// Adds the names of the Service with the instances that clients discover.
async fn add_names(
    explanation: &mut Explanation,
    registry: &SharedRegistry,
    observed: &Observation,
    plan: &Plan,
) {
    for found in plan::found(observed, plan, &explanation.service) {
        let discovery = discover(registry, observed, &found).await;
        explanation.add_name(observed, found, plan, discovery);
    }
}

/// Calls DiscoverInstances for the name, if the Cloud Map service exists.
async fn discover(
    registry: &SharedRegistry,
    observation: &Observation,
    found: &Found,
) -> Option<Discovery> {
    found.kind?;
    let namespace = observation.registry.namespaces.get(&found.place.key.namespace)?;
    let name = || format!("{}.{}", found.place.name, namespace.name);
    let dns = (namespace.kind == NamespaceKind::Dns).then(name);
    let mut discovery = Discovery { dns, ..Discovery::default() };
    match registry.cloud_map.discover(namespace, &found.place.name).await {
        Ok(instances) => discovery.count(instances, observation, &found.place),
        Err(error) => discovery.error = Some(chain(&error)),
    }
    Some(discovery)
}

// The part about a clusterset.

/// The clusterset part of an explanation, and the export in Cloud Map with its plan.
#[derive(Default)]
struct Explained {
    answer: ClustersetExplanation,
    /// The instances of the export.
    instances: Option<(Observation, Plan)>,
}

/// All that is known about the name.
struct Facts<'a> {
    name: &'a ServiceRef,
    joined: &'a Joined<'a>,
    export: Option<&'a ServiceExport>,
    outcome: Option<&'a ExportOutcome>,
    known: &'a MergedName,
    members: &'a Members<'a>,
    now: Timestamp,
}

impl Invocation<'_> {
    /// Explains a name in its clusterset. `None` if the cluster takes part in none.
    async fn explain_clusterset(
        &self,
        cluster: &Cluster,
        registry: &SharedRegistry,
        name: &ServiceRef,
    ) -> Option<Explained> {
        let selection = Selection::service(name.clone());
        let explained = match self.join(cluster, &selection).await? {
            Ok(joined) => self.explain_member(&joined, registry, name).await,
            Err(obstacle) => Err(obstacle),
        };
        Some(explained.unwrap_or_else(|obstacle| Explained {
            answer: ClustersetExplanation::refused(&obstacle),
            instances: None,
        }))
    }

    async fn explain_member(
        &self,
        joined: &Joined<'_>,
        registry: &SharedRegistry,
        name: &ServiceRef,
    ) -> Result<Explained, Obstacle> {
        let (clusterset, selection) = (&joined.member.clusterset, &joined.selection);
        let exported = joined.export(registry, selection, drop).await?;
        let own = exported.iter().map(|it| (joined.member.cluster.clone(), it.overlay.clone()));
        let own_record = |_| (joined.member.cluster.clone(), joined.arn().clone());
        let members = exported.iter().map(own_record).collect();
        let served = Served { overlays: own.collect(), members, is_fresh: true };
        let read = registry.read_clusterset(clusterset, selection.names(), &served).await;
        let read = read.map_err(|error| unread(&*error))?;
        let overlay = served.overlays;
        let allows = |namespace: &str, it| joined.allows(namespace, it);
        let read = (&read.registry, read.has_all_members);
        let members = Members::new(read, clusterset, &overlay, &self.lifetimes());
        let known = members.known(name, (joined.arn(), &allows));
        let imported = joined.import(&members, (true, OwnRecord::Unknown)).await;
        let facts = Facts {
            name,
            joined,
            export: exported.as_ref().and_then(|it| it.exports().get(name)),
            outcome: exported.as_ref().and_then(|it| it.outcomes.get(name)),
            known: &known,
            members: &members,
            now: self.now,
        };
        let answer = ClustersetExplanation::new(&facts, &self.settings.owner_id, imported);
        let is_exported = |it: &PublishedExports| it.overlay.desired.services.contains_key(name);
        let instances = match &exported {
            Some(exported) if is_exported(exported) => {
                let observed = joined.exporting(registry).observe(selection).await;
                let observed = observed.map_err(|error| unread(&error))?;
                let plan = plan::plan(&observed);
                Some((observed, plan))
            }
            _ => None,
        };
        Ok(Explained { answer, instances })
    }
}

/// One endpoint.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportedLine {
    /// The cluster that it is in.
    pub member: Option<String>,
    pub address: String,
    /// The ports that it listens at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
    pub pod: Option<String>,
    pub fate: ImportFate,
    /// The fate in a sentence.
    pub detail: String,
}

/// The fate of an endpoint in an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportFate {
    /// It is in the import.
    Imported,
    /// It stays in the import, since its cluster was not read.
    Kept,
    /// The next sync adds it.
    ToAdd,
    /// The next sync removes it.
    ToRemove,
    /// It is meant to stay out: its pod is not ready, or is terminating.
    NotReady,
    /// It stays out of the import although it takes traffic.
    LeftOut,
}

impl Display for ImportedLine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sign = match self.fate {
            ImportFate::Imported => '=',
            ImportFate::Kept => '~',
            ImportFate::ToAdd => '+',
            ImportFate::ToRemove | ImportFate::NotReady => '-',
            ImportFate::LeftOut => '!',
        };
        let member = self.member.as_deref().unwrap_or("an unknown cluster");
        let ports = if self.ports.is_empty() {
            String::new()
        } else {
            format!(" port {}", self.ports.join(" "))
        };
        let pod = self.pod.as_ref().map(|pod| format!(" ({pod})")).unwrap_or_default();
        write!(f, "{sign} endpoint   {}{ports} of {member}{pod}: {}", self.address, self.detail)
    }
}

/// Every endpoint of the name, and those that the import still has.
fn endpoints(facts: &Facts<'_>, present: &Present, can_import: bool) -> Vec<ImportedLine> {
    let owner = &facts.joined.owner;
    let own = present.slices.iter().filter(|slice| owner.owns(&slice.metadata));
    let in_slices =
        own.flat_map(|slice| slice.addresses().map(|address| (slice.source(), address)));
    // By source cluster.
    let mut in_import: BTreeSet<(Option<ClusterId>, IpAddr)> = in_slices.collect();
    let families = families(facts, present);
    let candidates = facts.members.candidates(facts.name, &facts.known.sources, &families);
    let mut lines: Vec<ImportedLine> = Vec::new();
    let line = |cluster: Option<ClusterId>, address, (fate, detail)| {
        let member = cluster.map(|it| it.to_string());
        ImportedLine { member, address, ports: Vec::new(), pod: None, fate, detail }
    };
    for candidate in candidates {
        let address = candidate.address.parse::<IpAddr>().ok();
        let key = address.map(|address| (candidate.cluster.clone(), address));
        let is_in = key.is_some_and(|key| in_import.remove(&key));
        let fate = fate(facts, &candidate, is_in, can_import);
        let Candidate { cluster, address, ports, pod, .. } = candidate;
        lines.push(ImportedLine { ports, pod, ..line(cluster, address, fate) });
    }
    lines.extend(in_import.into_iter().map(|(cluster, address)| {
        let (fate, detail) = if is_unread(facts, cluster.as_ref()) { KEPT } else { GONE };
        line(cluster, address.to_string(), (fate, detail.to_owned()))
    }));
    lines
}

const KEPT: (ImportFate, &str) =
    (ImportFate::Kept, "stays in the import: the exports of its cluster could not be read");
const GONE: (ImportFate, &str) =
    (ImportFate::ToRemove, "in the import, and a sync would remove it: its cluster has it no more");

/// The families of the import as it is; of a new one those of the exports.
fn families(facts: &Facts<'_>, present: &Present) -> Vec<Family> {
    let import = present.import.as_ref().map(|import| import.spec.families.clone());
    let import = import.filter(|families| !families.is_empty());
    let merged = facts.known.named.merged.as_ref().map(|merged| merged.service.families.clone());
    import.or(merged).unwrap_or_default()
}

fn is_unread(facts: &Facts<'_>, cluster: Option<&ClusterId>) -> bool {
    let sources = &facts.known.sources;
    match cluster.and_then(|cluster| sources.by_cluster.get(cluster)) {
        Some(read) => *read == Read::Unread,
        None => !sources.is_complete,
    }
}

fn fate(
    facts: &Facts<'_>,
    candidate: &Candidate,
    is_in: bool,
    can_import: bool,
) -> (ImportFate, String) {
    if is_unread(facts, candidate.cluster.as_ref()) {
        let (fate, detail) = if is_in { KEPT } else { UNREAD };
        return (fate, detail.to_owned());
    }
    match (candidate.absent, is_in) {
        (None, true) if candidate.ready => (ImportFate::Imported, "in the import".to_owned()),
        (None, true) => (ImportFate::Imported, "in the import, not ready".to_owned()),
        (None, false) if can_import => {
            (ImportFate::ToAdd, "a sync would add it to the import".to_owned())
        }
        (None, false) => (ImportFate::LeftOut, "not in the import: see the lines above".to_owned()),
        (Some(absent), true) => {
            let detail = format!("in the import, and a sync would remove it: {absent}");
            (ImportFate::ToRemove, detail)
        }
        (Some(absent), false) => {
            let is_meant = matches!(absent, Absent::NotReady | Absent::Terminating);
            let fate = if is_meant { ImportFate::NotReady } else { ImportFate::LeftOut };
            (fate, format!("not in the import: {absent}"))
        }
    }
}

const UNREAD: (ImportFate, &str) =
    (ImportFate::LeftOut, "not in the import: the exports of its cluster could not be read");
