//! The export and the import of one name, as data and as text: facts about both, all exporters, and all endpoints.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use super::ClustersetInputs;
use crate::actions::{Check, CheckOutcome};
use crate::clusterset::conditions::{conditions_to_apply, is_bad};
use crate::clusterset::merge::{Conflict, decisions, ports_of_some};
use crate::import::Imported;
use crate::import::plan::{Change, Kind, NamespaceState, Present, Read, ServiceImport, Write};
use crate::model::{ClusterId, Condition, EndpointLine, Export, Line, TRUE, join, join_or};
use crate::report::MultiClusterReport;
use crate::time::age;

/// The name of the check for a member whose exports were not read.
const UNREAD: &str = "not read";

/// The export and the import of one name in one member.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClustersetExplanation {
    /// The cluster id of this cluster; `None` if an obstacle is the whole answer.
    pub member: Option<String>,
    pub clusterset: Option<String>,
    /// Whether this cluster exports the name.
    pub exported: bool,
    /// Whether any member exports the name.
    pub imported: bool,
    /// Facts: conditions of the export, the import, conflicts, and ports that only some exporters serve.
    pub facts: Vec<Check>,
    /// The exporters in order of precedence, oldest ServiceExport first.
    pub exporters: Vec<ExporterLine>,
    pub endpoints: Vec<EndpointLine>,
    /// The parts of the import that are held back.
    pub held_back: Vec<Line>,
}

impl ClustersetExplanation {
    /// An answer with only an obstacle: the cluster cannot take part, or something could not be read.
    pub(super) fn from_obstacle(obstacle: &Line) -> Self {
        let mut answer = Self::default();
        answer.add_obstacle(obstacle);
        answer
    }

    pub(super) fn new(inputs: &ClustersetInputs<'_>, imported: Option<Imported>) -> Self {
        let member = &inputs.joined.member;
        let mut answer = Self {
            member: Some(member.cluster.to_string()),
            clusterset: Some(member.clusterset.to_string()),
            exported: inputs
                .own_exports
                .is_some_and(|exported| exported.exports().contains_key(inputs.name)),
            imported: inputs.exports.named.merged.is_some(),
            exporters: exporters(inputs),
            ..Self::default()
        };
        answer.add_export(inputs);
        answer.add_import(inputs, imported);
        answer.add_merge(inputs);
        answer
    }

    /// Whether the name is exported or imported, or still has endpoints in an import or in Cloud Map.
    pub fn has_name(&self) -> bool {
        self.exported || self.imported || !self.endpoints.is_empty()
    }

    /// Whether the clusterset has the name, or may have it because a member was not read.
    pub fn may_have_name(&self) -> bool {
        self.has_name() || self.facts.iter().any(|fact| fact.name == UNREAD)
    }

    fn add(&mut self, outcome: CheckOutcome, name: &'static str, detail: impl Into<String>) {
        self.facts.push(Check::new(outcome, name, detail));
    }

    fn add_obstacle(&mut self, Line { code, text, .. }: &Line) {
        self.add(CheckOutcome::Failed, "obstacle", format!("({code}): {text}"));
    }

    /// Adds the conditions of the export, and the conditions that a sync would write.
    fn add_export(&mut self, inputs: &ClustersetInputs<'_>) {
        if !inputs.joined.is_exporting() {
            let detail = "this cluster does not export (MULTI_CLUSTER is import)";
            return self.add(CheckOutcome::Ok, "export", detail);
        }
        let own_exports = inputs.own_exports;
        let Some(export) = own_exports.and_then(|exported| exported.exports().get(inputs.name))
        else {
            return self.add(CheckOutcome::Ok, "export", "no ServiceExport of this name");
        };
        let own = |condition: &&Condition| {
            ["Valid", "Ready", "Conflict"].contains(&condition.type_.as_str())
        };
        let present: Vec<&Condition> = export.conditions.iter().filter(own).collect();
        for condition in &present {
            self.add(CheckOutcome::of(!is_bad(condition)), "export", describe(condition));
        }
        let merged = inputs.exports.named.merged_if_complete();
        let outcome = own_exports.and_then(|exported| exported.outcomes.get(inputs.name));
        let planned = outcome.and_then(|outcome| {
            conditions_to_apply(export, outcome, merged.as_deref(), inputs.joined.invocation.now)
        });
        for condition in planned.unwrap_or_default() {
            let is_same = |other: &&Condition| {
                (&other.type_, &other.status, &other.reason)
                    == (&condition.type_, &condition.status, &condition.reason)
            };
            if !present.iter().any(is_same) {
                let detail = format!("a sync would write {}", describe(&condition));
                let outcome =
                    if is_bad(&condition) { CheckOutcome::Failed } else { CheckOutcome::Note };
                self.add(outcome, "note", detail);
            }
        }
    }

    fn add_import(&mut self, inputs: &ClustersetInputs<'_>, imported: Option<Imported>) {
        if let Some(obstacle) = &inputs.joined.unread_imports {
            return self.add_obstacle(obstacle);
        }
        let (Some(imported), Some(objects)) = (imported, &inputs.joined.objects) else {
            let detail = "this cluster does not import (MULTI_CLUSTER is export)";
            return self.add(CheckOutcome::Ok, "import", detail);
        };
        let present = objects.present(inputs.name);
        let namespace = &inputs.name.namespace;
        let state = objects.namespace(namespace);
        let made = imported.imports.values().flat_map(|import| &import.made);
        let planned: Vec<&Change> = made.map(|made| &made.change).collect();
        let plans_import = |write: Write| {
            let mut import_changes =
                planned.iter().filter(|change| change.object.kind == Kind::ServiceImport);
            import_changes.any(|change| change.write == write)
        };
        let changes_endpoints = plans_import(Write::Delete)
            || planned.iter().any(|change| change.object.kind == Kind::EndpointSlice);
        match state {
            NamespaceState::Active | NamespaceState::Excluded => {
                self.add_service_import(inputs, &present, &plans_import);
            }
            NamespaceState::Absent => {
                let detail = format!("none: the cluster has no namespace {namespace}");
                self.add(CheckOutcome::Ok, "import", detail);
            }
            NamespaceState::Terminating => {
                let detail = format!("none: the namespace {namespace} is being deleted");
                self.add(CheckOutcome::Ok, "import", detail);
            }
        }
        if state == NamespaceState::Active {
            let merged = inputs.exports.named.merged.as_deref();
            let sources = inputs.sources;
            let owner = &inputs.joined.owner;
            self.endpoints = inputs.members.fates(
                inputs.name,
                merged,
                sources,
                owner,
                &present,
                changes_endpoints,
            );
        }
        let mut report = MultiClusterReport::default();
        inputs.joined.add_imports(inputs.members, imported, &mut report);
        for line in report.lines {
            if line.is_obstacle() {
                self.add_obstacle(&line);
            } else if line.outcome.is_held_back() {
                self.held_back.push(line);
            }
        }
    }

    /// Adds the state of the ServiceImport. `plans` returns whether a sync would make the given kind of write to it.
    fn add_service_import(
        &mut self,
        inputs: &ClustersetInputs<'_>,
        present: &Present,
        plans: &dyn Fn(Write) -> bool,
    ) {
        let owner = &inputs.joined.owner;
        let import = present.import.as_ref().filter(|import| owner.owns(&import.metadata));
        let Some(import) = import else {
            let detail = if plans(Write::Create) {
                "a sync would make it"
            } else if self.imported {
                "none, and a sync would not make it: see the lines below"
            } else if inputs.exports.named.has_all_exporters {
                "none: no member exports the name"
            } else {
                "none, and it is not known whether a member exports the name: see the lines below"
            };
            return self.add(CheckOutcome::Ok, "import", detail);
        };
        let ready = import.status.conditions.iter().find(|condition| condition.type_ == "Ready");
        let is_ready = ready.is_some_and(|condition| condition.status == TRUE);
        let ready = ready.map_or_else(|| "not Ready yet".to_owned(), describe);
        let detail = format!("{}; {ready}", describe_import(import));
        self.add(CheckOutcome::of(is_ready), "import", detail);
        if plans(Write::Delete) {
            let detail = "no member exports it: a sync would delete the import";
            self.add(CheckOutcome::Note, "note", detail);
        }
    }

    /// Adds the members that were not read, the conflicts, and the ports that only some exporters serve.
    fn add_merge(&mut self, inputs: &ClustersetInputs<'_>) {
        let members = inputs.exports.sources.by_cluster.iter();
        let unread = members.filter(|(_, read)| **read == Read::Unread);
        let unread = unread.map(|(cluster, _)| cluster.to_string());
        let silent = inputs.members.silent_without_a_record().map(ToString::to_string);
        for cluster in unread.chain(silent) {
            let detail =
                format!("the exports of {cluster}: its endpoints in the import stay as they are");
            self.add(CheckOutcome::Failed, UNREAD, detail);
        }
        let Some(merged) = &inputs.exports.named.merged else { return };
        // The Conflict condition of this cluster's own export may already list a conflict.
        let is_listed = |message: &str| {
            let mut conditions =
                self.facts.iter().filter(|fact| fact.detail.starts_with("Conflict "));
            conditions.any(|condition| condition.detail.contains(message))
        };
        let conflicts: Vec<&Conflict> =
            merged.conflicts.iter().filter(|conflict| !is_listed(&conflict.message)).collect();
        for conflict in conflicts {
            let detail = format!("{}: {}", conflict.reason, conflict.message);
            self.add(CheckOutcome::Failed, "conflict", detail);
        }
        for (port, clusters) in ports_of_some(&merged.service, &inputs.exports.named.exports) {
            let clusters = join(clusters, ", ");
            self.add(CheckOutcome::Note, "note", format!("port {port} leads to {clusters} alone"));
        }
    }
}

fn describe(condition: &Condition) -> String {
    let Condition { type_, status, reason, message, .. } = condition;
    let message = if message.is_empty() { String::new() } else { format!(": {message}") };
    format!("{type_} {status} ({reason}){message}")
}

fn describe_import(import: &ServiceImport) -> String {
    let ips = &import.ips;
    let ports = &import.spec.ports;
    let parts = [
        Some(import.spec.kind.as_str().to_owned()),
        (!ips.is_empty()).then(|| join(ips, " ")),
        (!ports.is_empty()).then(|| format!("ports {}", join(ports, ", "))),
    ];
    join(parts.into_iter().flatten(), ", ")
}

/// A cluster that exports the name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExporterLine {
    /// Its cluster id.
    pub member: String,
    /// `OWNER_ID` of the installation that publishes the export; `None` if AWS's controller does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The creation time of its ServiceExport.
    pub created: String,
    /// The age of its ServiceExport.
    pub age: String,
    /// The properties of the import that it decides.
    pub decides: Vec<String>,
}

/// Lists the exporters in order of precedence, oldest ServiceExport first.
fn exporters(inputs: &ClustersetInputs<'_>) -> Vec<ExporterLine> {
    let mut exports: Vec<&Export> = inputs.exports.named.exports.iter().collect();
    exports.sort_by_key(|export| (export.created, &export.cluster));
    let merged = inputs.exports.named.merged.as_deref();
    let decided = merged.map(|merged| decisions(&merged.service, &inputs.exports.named.exports));
    let decided = decided.unwrap_or_default();
    let line = |export: &&Export| {
        let decides = decided.iter().filter(|(_, by)| *by == export.cluster);
        ExporterLine {
            member: export.cluster.to_string(),
            owner: owner(inputs, &export.cluster),
            created: export.created.to_string(),
            age: age(export.created, inputs.joined.invocation.now),
            decides: decides.map(|(property, _)| property.clone()).collect(),
        }
    };
    exports.iter().map(line).collect()
}

fn owner(inputs: &ClustersetInputs<'_>, cluster: &ClusterId) -> Option<String> {
    if inputs.members.is_read_in_cluster(cluster, inputs.name) {
        return Some(inputs.joined.invocation.settings.owner_id.clone());
    }
    inputs.members.record_of(cluster, inputs.name).map(|record| record.owner.id.clone())
}

impl Display for ClustersetExplanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (&self.clusterset, &self.member) {
            (Some(clusterset), Some(member)) => {
                writeln!(f, "  clusterset {clusterset}, member {member}")?;
            }
            _ => writeln!(f, "  clusterset")?,
        }
        self.facts.iter().try_for_each(|fact| writeln!(f, "    {fact}"))?;
        self.held_back.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        self.exporters.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        self.endpoints.iter().try_for_each(|line| writeln!(f, "    {line}"))
    }
}

impl Display for ExporterLine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { member, owner, created, age, decides } = self;
        let by = owner.as_deref().unwrap_or("AWS's controller");
        let decides = join_or(decides, ", ", "nothing");
        write!(f, "= exporter   {member} (run by {by}), since {created} ({age}): decides {decides}")
    }
}
