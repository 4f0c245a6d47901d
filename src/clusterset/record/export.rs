//! The record of an export: its properties, once instead of in every instance, and its existence while no endpoint is
//! ready.

use super::{Problem, json, pieces, service_of};
use crate::clusterset::id;
use crate::model::attributes::{self, EMPTY, SCHEMA_VERSION};
use crate::model::clusterset::{ClusterId, Export, Properties};
use crate::model::{Attributes, Flow, Marks, Owner, ServiceRef};

/// The record of an export. Its cluster is the name of the Cloud Map service that it is registered in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportRecord {
    /// The exporting installation and cluster.
    pub owner: Owner,
    pub service: ServiceRef,
    /// With all properties: an export without them is written with the defaults of the API.
    pub export: Export,
    /// Whether Cloud Map has none of its endpoints: then their service may be gone.
    pub is_empty: bool,
}

/// The attributes of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenExport {
    pub attributes: Attributes,
    /// Whether the labels and annotations were left out, since they do not fit.
    pub lacks_labels: bool,
}

/// An export does not fit in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error(
    "the properties of its {ports} ports have {characters} characters without labels and annotations, and a record has \
     {}",
    pieces::MAXIMUM
)]
pub struct ExportTooLarge {
    pub ports: usize,
    pub characters: usize,
}

impl ExportRecord {
    /// # Errors
    /// Returns an error if the export does not fit, even without labels and annotations.
    pub fn write(&self) -> Result<WrittenExport, ExportTooLarge> {
        let (text, lacks_labels) = self.text()?;
        let marks = Marks { service: self.service.clone(), pod: None };
        let mut attributes = marks.write(&self.owner);
        attributes.extend(pieces::split(&text));
        attributes.extend(self.is_empty.then(|| (EMPTY.to_owned(), true.to_string())));
        Ok(WrittenExport { attributes, lacks_labels })
    }

    /// The JSON that fits, and whether labels and annotations were left out of it.
    fn text(&self) -> Result<(String, bool), ExportTooLarge> {
        let whole = pieces::printable(&json::write(&self.export));
        if whole.len() <= pieces::MAXIMUM {
            return Ok((whole, false));
        }
        let export = without_labels(&self.export);
        let text = pieces::printable(&json::write(&export));
        let (ports, characters) = (export.ports.len(), text.len());
        let fits = characters <= pieces::MAXIMUM;
        if fits { Ok((text, true)) } else { Err(ExportTooLarge { ports, characters }) }
    }

    pub(super) fn parse(
        cluster: &ClusterId,
        id: &str,
        attributes: &Attributes,
    ) -> Result<Self, Problem> {
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
        let export = json::read(&pieces::join(attributes)?, cluster)?;
        let is_empty = attributes.get(EMPTY) == Some("true");
        Ok(Self { owner, service, export, is_empty })
    }
}

/// The export as its record has it, without labels and annotations that do not fit: every member imports the same.
pub fn as_recorded(export: &Export) -> Export {
    let is_small = |it: &Properties| it.labels.is_empty() && it.annotations.is_empty();
    let fits = export.properties.as_ref().is_none_or(is_small)
        || pieces::printable(&json::write(export)).len() <= pieces::MAXIMUM;
    if fits { export.clone() } else { without_labels(export) }
}

fn without_labels(export: &Export) -> Export {
    let properties = export.properties.clone().unwrap_or_default();
    let (labels, annotations) = Default::default();
    let properties = Some(Properties { labels, annotations, ..properties });
    Export { properties, ..export.clone() }
}
