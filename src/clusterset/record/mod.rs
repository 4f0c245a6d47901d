//! The records of a member: one for each of its exports ([`ExportRecord`]), and one for itself ([`ClusterRecord`]). A
//! record is an instance without an address. It is in an HTTP namespace of the clusterset, in the Cloud Map service
//! that has the cluster id as its name. AWS's controllers ignore it, since it has no `CLUSTERSET_ID`.
//!
//! A Service is exported while its record is registered. An unusable record is therefore never treated as a missing
//! one: [`read`] returns an error that names the record, and the import stays unchanged.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::id::{self, CLUSTER_RECORD, EXPORT_RECORD};
use crate::error::{printable, shorten, shorten_to};
use crate::model::attributes::{CLUSTERSET, DIRECTION, EMPTY, EXPORT, HEARTBEAT, SCHEMA_VERSION};
use crate::model::{
    Attributes, ClusterId, ClustersetId, Export, ExportedPort, Family, Flow, ImportType,
    InternalTrafficPolicy, Marks, Namespace, Owner, Properties, Protocol, Registry, ServiceKey,
    ServiceRef, SessionAffinity, Timestamp, attributes, is_dns_label, is_label_key, is_label_word,
    join, join_first,
};

/// The prefix of the namespaces of records. No Kubernetes namespace has a dot in its name.
const PREFIX: &str = "clusterset.";

/// Returns the name of the namespace that contains all records of a clusterset.
pub fn namespace(clusterset: &ClustersetId) -> String {
    format!("{PREFIX}{clusterset}")
}

/// Returns the clusterset whose records a namespace contains.
pub fn clusterset_of(namespace: &str) -> Option<ClustersetId> {
    namespace.strip_prefix(PREFIX).and_then(ClustersetId::parse)
}

/// Whether a namespace contains the records of a clusterset.
pub fn is_namespace(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Takes the records out of a registry as it was read: they have marks, but are not endpoints.
pub fn leave_out_records(registry: &mut Registry) {
    let Registry { namespaces, services, .. } = registry;
    services.retain(|key, _| !is_of_records(namespaces, key));
}

/// Whether a Cloud Map service contains records.
pub fn is_of_records(namespaces: &BTreeMap<String, Namespace>, key: &ServiceKey) -> bool {
    namespaces.get(&key.namespace).is_some_and(|namespace| is_namespace(&namespace.name))
}

/// Splits a registry into three registries, in the order in which a purge deregisters what they have: the records of
/// exports, the instances, and the cluster records.
pub fn in_order_of_removal(registry: &Registry) -> [Registry; 3] {
    let [mut exports, mut instances, mut clusters] =
        [registry, registry, registry].map(Clone::clone);
    leave_out_records(&mut instances);
    for (records, is_of_cluster) in [(&mut exports, false), (&mut clusters, true)] {
        let Registry { namespaces, services, .. } = records;
        services.retain(|key, _| is_of_records(namespaces, key));
        for all in services.values_mut().filter_map(|service| service.instances.as_mut()) {
            all.retain(|id, _| (id == CLUSTER_RECORD) == is_of_cluster);
        }
    }
    [exports, instances, clusters]
}

/// A record of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    Cluster(ClusterRecord),
    Export(ExportRecord),
}

/// A record that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record {id} of cluster {cluster}{} cannot be used: {problem}", in_brackets(.service.as_ref()))]
pub struct UnusableRecord {
    pub cluster: ClusterId,
    /// The id of the instance.
    pub id: String,
    /// The Service in its marks, if it is an export record.
    pub service: Option<ServiceRef>,
    pub problem: Problem,
}

fn in_brackets(service: Option<&ServiceRef>) -> String {
    service.map(|service| format!(" ({service})")).unwrap_or_default()
}

impl UnusableRecord {
    /// Whether it may be the record of this Service, by its id or its marks. If the marks are lost, the id alone
    /// decides.
    pub fn may_be_of(&self, service: &ServiceRef) -> bool {
        self.id == id::export_record(service) || self.service.as_ref() == Some(service)
    }
}

/// The reason why a record cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("it has no mark of an exporter, or no ARN of an EKS cluster")]
    Unmarked,
    /// A later release wrote the record: it may use other JSON under a higher schema version.
    #[error("a later release wrote it (schema {0}, and this release reads {SCHEMA_VERSION})")]
    LaterSchema(u32),
    #[error("its marks name no Service of Kubernetes")]
    NoService,
    #[error("its id is not that of the Service in its marks")]
    OtherId,
    #[error("it lacks the attribute {0}")]
    Missing(&'static str),
    /// The parser's message, with the position.
    #[error("its JSON is invalid: {0}")]
    Json(String),
    #[error("its {field} {:?} is not valid", shorten(.value))]
    Invalid { field: String, value: String },
}

/// Reads an instance in the Cloud Map service of a cluster. Returns `None` if this release knows no record with its id.
///
/// # Errors
/// Returns the problem if the instance is a record but cannot be used.
pub fn read(
    cluster: &ClusterId,
    id: &str,
    attributes: &Attributes,
) -> Result<Option<Record>, Box<UnusableRecord>> {
    let record = if id == CLUSTER_RECORD {
        ClusterRecord::parse(attributes).map(Record::Cluster)
    } else if id.starts_with(EXPORT_RECORD) {
        ExportRecord::parse(cluster, id, attributes).map(Record::Export)
    } else {
        return Ok(None);
    };
    record.map(Some).map_err(|problem| {
        let service = (id != CLUSTER_RECORD).then(|| service_of(attributes)).flatten();
        let cluster = cluster.clone();
        let id = id.to_owned();
        Box::new(UnusableRecord { cluster, id, service, problem })
    })
}

/// Returns the Service in the marks of a record, if its name is valid in Kubernetes.
fn service_of(attributes: &Attributes) -> Option<ServiceRef> {
    let service = Owner::of(attributes)?.service_of(attributes)?;
    service.can_exist().then_some(service)
}

// The cluster record: the installation and the cluster that own the cluster id, and the time of the last sync.

/// The record of a member about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterRecord {
    /// The installation and the cluster that own the cluster id.
    pub owner: Owner,
    pub clusterset: ClustersetId,
    /// The time of the last full sync that read the cluster completely. It may lag by some minutes.
    pub heartbeat: Timestamp,
    /// Whether the cluster only imports. No heartbeat is expected of it.
    pub only_imports: bool,
}

/// The value of the direction of a member that only imports. Other members have no direction.
const IMPORT: &str = "import";

impl ClusterRecord {
    pub fn write(&self) -> Attributes {
        let mut attributes = attributes::of_no_service(&self.owner);
        attributes.extend([
            (CLUSTERSET, self.clusterset.to_string()),
            (HEARTBEAT, self.heartbeat.to_string()),
        ]);
        attributes.extend(self.only_imports.then(|| (DIRECTION.to_owned(), IMPORT.to_owned())));
        attributes
    }

    /// Whether a cluster record says that the member only imports.
    pub fn says_only_imports(attributes: &Attributes) -> bool {
        attributes.get(DIRECTION) == Some(IMPORT)
    }

    /// Reads a cluster record. It accepts a higher schema version, so that earlier releases do not report a member of a
    /// later release as stale.
    ///
    /// # Errors
    /// Returns the problem if the record cannot be used.
    pub fn parse(attributes: &Attributes) -> Result<Self, Problem> {
        let owner = Owner::of(attributes).filter(|owner| owner.flow == Flow::Exports);
        Ok(Self {
            owner: owner.ok_or(Problem::Unmarked)?,
            clusterset: parse(attributes, CLUSTERSET, ClustersetId::parse)?,
            heartbeat: parse(attributes, HEARTBEAT, |text| text.parse().ok())?,
            only_imports: Self::says_only_imports(attributes),
        })
    }
}

fn parse<T>(
    attributes: &Attributes,
    key: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, Problem> {
    let text = attributes.get(key).ok_or(Problem::Missing(key))?;
    parse(text).ok_or_else(|| Problem::Invalid { field: key.to_owned(), value: text.to_owned() })
}

// The export record. It contains the properties once instead of in every instance, and keeps the export alive while no
// endpoint is ready.

/// The record of an export. The name of its Cloud Map service is the cluster id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportRecord {
    /// The exporting installation and cluster.
    pub owner: Owner,
    pub service: ServiceRef,
    /// The export with all properties. A property that it lacks is written with the API's default.
    pub export: Export,
    /// Whether Cloud Map has no endpoint of the export. The Cloud Map service of the endpoints may then not exist.
    pub is_empty: bool,
}

/// The error if an export does not fit in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error(
    "the properties of its {ports} ports have {characters} characters without labels and annotations, and a record has \
     {}",
    MAXIMUM
)]
pub struct ExportTooLarge {
    pub ports: usize,
    pub characters: usize,
}

impl ExportRecord {
    /// # Errors
    /// Returns an error if the export does not fit, even without labels and annotations.
    pub fn write(&self) -> Result<Attributes, ExportTooLarge> {
        let export = as_recorded(&self.export);
        let text = ascii(&write_json(&export));
        let ports = export.ports.len();
        let characters = text.len();
        if characters > MAXIMUM {
            return Err(ExportTooLarge { ports, characters });
        }
        let marks = Marks { service: self.service.clone(), pod: None };
        let mut attributes = marks.write(&self.owner);
        attributes.extend(split(&text));
        attributes.extend(self.is_empty.then(|| (EMPTY.to_owned(), true.to_string())));
        Ok(attributes)
    }

    fn parse(cluster: &ClusterId, id: &str, attributes: &Attributes) -> Result<Self, Problem> {
        let owner = Owner::of(attributes).filter(|owner| owner.flow == Flow::Exports);
        let owner = owner.ok_or(Problem::Unmarked)?;
        let schema = attributes::schema(attributes);
        if schema > SCHEMA_VERSION {
            return Err(Problem::LaterSchema(schema));
        }
        let service = service_of(attributes).ok_or(Problem::NoService)?;
        if id != id::export_record(&service) {
            return Err(Problem::OtherId);
        }
        let export = read_json(&join_pieces(attributes)?, cluster)?;
        let is_empty = attributes.get(EMPTY) == Some("true");
        Ok(Self { owner, service, export, is_empty })
    }
}

/// Returns the export as its record has it: without labels and annotations if they do not fit. Imports always use this
/// version, so that every member imports the same.
pub fn as_recorded(export: &Export) -> Export {
    let mut recorded = export.clone();
    if let Some(properties) = &mut recorded.properties
        && (!properties.labels.is_empty() || !properties.annotations.is_empty())
        && ascii(&write_json(export)).len() > MAXIMUM
    {
        (properties.labels, properties.annotations) = Default::default();
    }
    recorded
}

// The JSON of an export. Its fields and values are named as in a Kubernetes Service, and the fields are in alphabetical
// order, so that equal exports have equal texts. A later release may add fields, which this one ignores.

/// The maximum length of the parser's message, in characters.
const LONGEST_PROBLEM: usize = 300;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Json {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
    created: Timestamp,
    internal_traffic_policy: Option<InternalTrafficPolicy>,
    ip_families: Vec<Family>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    ports: Vec<Port>,
    session_affinity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_affinity_timeout: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traffic_distribution: Option<String>,
    #[serde(rename = "type")]
    kind: ImportType,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Port {
    #[serde(skip_serializing_if = "Option::is_none")]
    app_protocol: Option<String>,
    #[serde(default)]
    name: String,
    #[serde(rename = "port")]
    number: u16,
    protocol: Protocol,
}

/// Returns the compact JSON of an export.
fn write_json(export: &Export) -> String {
    let properties = export.properties.clone().unwrap_or_default();
    let affinity = properties.session_affinity;
    let port = |ExportedPort { name, protocol, number, app_protocol }| Port {
        app_protocol,
        name,
        number,
        protocol,
    };
    let json = Json {
        annotations: properties.annotations,
        created: export.created,
        internal_traffic_policy: Some(properties.internal_traffic_policy),
        ip_families: export.families.clone(),
        labels: properties.labels,
        ports: export.ports.iter().cloned().map(port).collect(),
        session_affinity: Some(affinity.as_str().to_owned()),
        session_affinity_timeout: match affinity {
            SessionAffinity::ClientIp(timeout) => timeout,
            SessionAffinity::None => None,
        },
        traffic_distribution: properties.traffic_distribution,
        kind: export.kind,
    };
    // Strings, numbers and maps with string keys always serialize.
    serde_json::to_string(&json).unwrap_or_default()
}

/// Reads the export of a cluster from the JSON of its record. An absent property gets the API's default.
fn read_json(text: &str, cluster: &ClusterId) -> Result<Export, Problem> {
    let json = parse_json(text)?;
    let ports = json.ports.into_iter().enumerate().map(|(index, port)| port.read(index));
    let ports = ports.collect::<Result<Vec<_>, _>>()?;
    let affinity = json.session_affinity.unwrap_or_else(|| "None".to_owned());
    let timeout = json.session_affinity_timeout;
    let affinities = [SessionAffinity::None, SessionAffinity::ClientIp(timeout)];
    let known = affinities.into_iter().find(|known| known.as_str() == affinity);
    let field = "sessionAffinity".to_owned();
    let session_affinity = known.ok_or(Problem::Invalid { field, value: affinity })?;
    Ok(Export {
        cluster: cluster.clone(),
        created: json.created,
        kind: json.kind,
        ports,
        families: json.ip_families,
        properties: Some(Properties {
            session_affinity,
            internal_traffic_policy: json.internal_traffic_policy.unwrap_or_default(),
            traffic_distribution: json.traffic_distribution,
            labels: json.labels,
            annotations: json.annotations,
        }),
    })
}

impl Port {
    fn read(self, index: usize) -> Result<ExportedPort, Problem> {
        let Self { app_protocol, name, number, protocol } = self;
        let field = |key: &str| format!("ports[{index}].{key}");
        if number == 0 {
            return Err(Problem::Invalid { field: field("port"), value: "0".to_owned() });
        }
        if !name.is_empty() && !is_dns_label(&name) {
            return Err(Problem::Invalid { field: field("name"), value: name });
        }
        Ok(ExportedPort { name, protocol, number, app_protocol })
    }
}

fn parse_json(text: &str) -> Result<Json, Problem> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let json = serde_path_to_error::deserialize(&mut deserializer);
    let json = json.map_err(|error| problem(&error))?;
    deserializer.end().map_err(|error| problem(&error))?;
    Ok(json)
}

/// Makes the parser's message short and printable: it repeats keys and values, and any client of Cloud Map can write
/// these.
fn problem(error: &dyn std::fmt::Display) -> Problem {
    Problem::Json(shorten_to(&printable(&error.to_string()), LONGEST_PROBLEM))
}

// Stores the JSON of a record in the values of attributes. Cloud Map allows 1,024 characters of printable ASCII in a
// value, and a space or tab anywhere except at its start.

/// The length of a piece, in characters.
const PIECE: usize = 1000;
/// The maximum length of all pieces together. Marks and keys take up to 750 of the 5,000 characters of an instance.
const MAXIMUM: usize = PIECE * EXPORT.len();

/// Converts compact JSON to printable ASCII without a space at either end of a piece. Every character that is escaped
/// here is inside a string.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        let is_at_end = [0, PIECE - 1].contains(&(text.len() % PIECE));
        match character {
            ' ' if is_at_end => escape(character, &mut text),
            ' '..='~' => text.push(character),
            _ => escape(character, &mut text),
        }
    }
    text
}

fn escape(character: char, text: &mut String) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        text.extend(format!("\\u{unit:04x}").chars());
    }
}

/// Splits a printable text of at most [`MAXIMUM`] characters into attributes.
fn split(text: &str) -> impl Iterator<Item = (String, String)> {
    let pieces = text.as_bytes().chunks(PIECE).map(String::from_utf8_lossy);
    EXPORT.iter().zip(pieces).map(|(key, piece)| ((*key).to_owned(), piece.into_owned()))
}

/// Joins the pieces. A missing piece at the end leaves incomplete JSON, which the parser reports.
fn join_pieces(attributes: &Attributes) -> Result<String, Problem> {
    let last = EXPORT.iter().rposition(|key| attributes.contains_key(key)).unwrap_or(0);
    let piece = |key: &&'static str| attributes.get(key).ok_or(Problem::Missing(key));
    EXPORT.iter().take(last + 1).map(piece).collect()
}

// The labels and annotations that an export states and an import can have. No API server has validated those of a
// ServiceExport or a record, and the API server refuses a whole ServiceImport for one invalid text.

/// The number of keys that a message names.
const NAMED: usize = 10;

/// Whether Kubernetes accepts a label.
pub fn is_label(key: &str, value: &str) -> bool {
    is_label_key(key) && (value.is_empty() || is_label_word(value))
}

/// Whether Kubernetes accepts an annotation with this key. The API server ignores the key's case.
pub fn is_annotation(key: &str) -> bool {
    is_label_key(&key.to_lowercase())
}

/// Returns a sentence about the labels and annotations of an export that Kubernetes does not accept, so that imports
/// lack them. `None` if there are none.
pub fn left_out_metadata(properties: &Properties) -> Option<String> {
    let labels = properties.labels.iter().filter(|(key, value)| !is_label(key, value));
    let labels: Vec<&String> = labels.map(|(key, _)| key).collect();
    let annotations = properties.annotations.keys().filter(|key| !is_annotation(key)).collect();
    let kinds = [("labels", labels), ("annotations", annotations)];
    let kinds = kinds.into_iter().filter(|(_, keys)| !keys.is_empty());
    let names = |keys: Vec<&String>| join_first(keys.iter().map(|key| format!("{key:?}")), NAMED);
    let parts = join(kinds.map(|(kind, keys)| format!("{kind} {}", names(keys))), " and ");
    (!parts.is_empty())
        .then(|| format!("{parts} are left out of imports: no Kubernetes object can have them"))
}
