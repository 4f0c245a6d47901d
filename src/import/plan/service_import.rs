//! The ServiceImport: its metadata and spec. `status` has the rest.

use std::iter::once;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::basis::Basis;
use super::change::{Change, Content, Kind, ObjectRef, Stage};
use super::derived_service::Derived;
use super::patch;
use super::present::{ImportSpec, Metadata, Texts};
use crate::clusterset::metadata::{is_annotation, is_label};
use crate::model::Family;
use crate::model::clusterset::{ClustersetService, ImportType, Properties};

/// The annotation that names the derived Service.
const DERIVED_SERVICE: &str = "multicluster.kubernetes.io/derived-service";
/// The annotations with the keys of the labels and annotations that came from an export, separated by commas: no others
/// are removed.
const EXPORTED_LABELS: &str = "cloud-map-sync/exported-labels";
const EXPORTED_ANNOTATIONS: &str = "cloud-map-sync/exported-annotations";

impl Metadata {
    /// Whether it is a ServiceImport whose IPs are those of this derived Service of ours.
    pub(super) fn names_derived(&self, service: &str) -> bool {
        self.annotations.get(DERIVED_SERVICE).is_some_and(|name| name == service)
    }
}

/// All annotations of ours.
pub(super) const OWN_ANNOTATIONS: [&str; 3] =
    [DERIVED_SERVICE, EXPORTED_LABELS, EXPORTED_ANNOTATIONS];

pub(super) fn object(basis: &Basis<'_>) -> ObjectRef {
    basis.object(Kind::ServiceImport, &basis.service.name)
}

/// The creation or the patch of the ServiceImport. Its IPs are those of the derived Service, which is made after it, so
/// a new one has them by a patch.
pub(super) fn changes(
    basis: &Basis<'_>,
    service: &ClustersetService,
    derived: Option<&Derived<'_>>,
) -> Vec<Change> {
    let metadata = wanted_metadata(basis, service, derived);
    let spec = wanted_spec(service, derived);
    let update = |content| Change::patch(Stage::UpdateImport, object(basis), content);
    let Some(import) = basis.import() else {
        let detail = format!("{}, {}", spec.kind.as_str(), patch::describe_ports(&spec.ports));
        let body = json_of(&metadata, &spec);
        let create = patch::creation(Stage::CreateImport, object(basis), body, detail);
        let ips = Content { ips: ips_to_write(&[], derived), ..Content::default() };
        return once(create).chain(update(ips)).collect();
    };
    let taken_over = taken_over(basis);
    let mut present = present_metadata(&import.metadata, &metadata);
    present.labels.extend(taken_over.iter().flat_map(|_| basis.owner.label()));
    // Those to be written later are no difference here.
    let kept = derived.filter(|it| !it.families.is_empty()).map(|_| import.spec.ips.clone());
    let spec = ImportSpec { ips: kept.unwrap_or_default(), ..spec };
    let (present, wanted) = (json_of(&present, &import.spec), json_of(&metadata, &spec));
    let body = patch::difference(&present, &wanted).unwrap_or_default();
    let ips = ips_to_write(&import.spec.ips, derived);
    taken_over.into_iter().chain(update(Content { body, ips, owners: None })).collect()
}

/// The label on a ServiceImport of AWS's controller, before anything else of it is changed: the API server lets us
/// change only what carries it.
pub(super) fn taken_over(basis: &Basis<'_>) -> Option<Change> {
    let import = basis.present.import.as_ref().map(|import| &import.metadata);
    let is_gone = |it: &Metadata| it.is_terminating || basis.namespace.is_gone();
    import.filter(|import| basis.is_taken_over(import) && !is_gone(import))?;
    let label = Content::new(json!({"metadata": {"labels": basis.owner.label()}}));
    let change = Change::patch(Stage::CreateImport, object(basis), label)?;
    Some(Change { detail: "taken over from AWS's controller".to_owned(), ..change })
}

/// The deletion of a ServiceImport of ours.
pub(super) fn deletion(basis: &Basis<'_>) -> Option<Change> {
    let detail = match basis.import()?.status.clusters.as_slice() {
        [] => "no cluster exports it".to_owned(),
        clusters => format!("no cluster exports it, last {}", clusters.join(", ")),
    };
    Some(Change::deletion(object(basis), &detail))
}

/// The labels that came from an export.
pub(super) fn exported_labels(metadata: &Metadata) -> Texts {
    patch::only(&metadata.labels, keys(metadata, EXPORTED_LABELS))
}

/// The annotations that came from an export.
pub(super) fn exported_annotations(metadata: &Metadata) -> Texts {
    patch::only(&metadata.annotations, keys(metadata, EXPORTED_ANNOTATIONS))
}

fn keys<'a>(metadata: &'a Metadata, annotation: &str) -> impl Iterator<Item = &'a str> {
    metadata.annotations.get(annotation).into_iter().flat_map(|keys| keys.split(','))
}

/// Keys that exporters leave out belong to this API and to us.
fn is_reserved(key: &str) -> bool {
    ["cloud-map-sync/", "multicluster."].iter().any(|prefix| key.starts_with(prefix))
}

fn wanted_metadata(
    basis: &Basis<'_>,
    service: &ClustersetService,
    derived: Option<&Derived<'_>>,
) -> Metadata {
    let Properties { mut labels, mut annotations, .. } = service.properties.clone();
    labels.retain(|key, value| !is_reserved(key) && is_label(key, value));
    annotations.retain(|key, _| !is_reserved(key) && is_annotation(key));
    let exported = [(EXPORTED_LABELS, &labels), (EXPORTED_ANNOTATIONS, &annotations)];
    let exported = exported.map(|(key, texts)| {
        let keys: Vec<&str> = texts.keys().map(String::as_str).collect();
        (key.to_owned(), keys.join(","))
    });
    labels.extend(basis.owner.label());
    annotations.extend(exported.into_iter().filter(|(_, keys)| !keys.is_empty()));
    annotations.extend(derived.map(|it| (DERIVED_SERVICE.to_owned(), it.name.clone())));
    Metadata { labels, annotations, ..Metadata::default() }
}

/// The part of the present metadata that is compared.
fn present_metadata(present: &Metadata, wanted: &Metadata) -> Metadata {
    let labels = keys(present, EXPORTED_LABELS).chain(wanted.labels.keys().map(String::as_str));
    let annotations = keys(present, EXPORTED_ANNOTATIONS)
        .chain(wanted.annotations.keys().map(String::as_str))
        .chain(OWN_ANNOTATIONS);
    let labels = patch::only(&present.labels, labels);
    let annotations = patch::only(&present.annotations, annotations);
    Metadata { labels, annotations, ..Metadata::default() }
}

/// The spec without IPs. If this cluster has none of the exported families, it states them: another plan, for which no
/// export can be read, knows no others.
fn wanted_spec(service: &ClustersetService, derived: Option<&Derived<'_>>) -> ImportSpec {
    let served = derived.map(|it| &it.families).filter(|families| !families.is_empty());
    let families = match service.kind {
        ImportType::ClusterSetIp => served.unwrap_or(&service.families).clone(),
        ImportType::Headless => service.families.clone(),
    };
    ImportSpec {
        kind: service.kind,
        ports: service.ports.clone(),
        ips: Vec::new(),
        families,
        properties: service.properties.clone(),
    }
}

fn json_of(metadata: &Metadata, spec: &ImportSpec) -> Value {
    let mut fields = patch::spec(&spec.ports, &spec.families, &spec.properties);
    fields["type"] = json!(spec.kind);
    fields["ips"] = json!(spec.ips);
    let metadata = json!({"labels": metadata.labels, "annotations": metadata.annotations});
    json!({"metadata": metadata, "spec": patch::without_empty(fields)})
}

/// The families of the IPs to write; `None` if the present ones are right.
fn ips_to_write(present: &[IpAddr], derived: Option<&Derived<'_>>) -> Option<Vec<Family>> {
    let derived = derived.filter(|it| !it.families.is_empty())?;
    let is_right = derived.known_ips().is_some_and(|ips| ips == present);
    (!is_right).then(|| derived.families.clone())
}
