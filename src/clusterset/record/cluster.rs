//! The record of a member: the installation and the cluster that hold the cluster id, and the time of the last sync.

use super::Problem;
use crate::model::attributes::{self, CLUSTERSET, DIRECTION, HEARTBEAT};
use crate::model::clusterset::ClustersetId;
use crate::model::{Attributes, Flow, Owner, Timestamp};

/// The record of a member. The time and size of a held loss may be beside it (`model::attributes::SIGHTING`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterRecord {
    /// The installation and the cluster that hold the cluster id.
    pub owner: Owner,
    pub clusterset: ClustersetId,
    /// The last full sync that read the cluster completely, up to some minutes.
    pub heartbeat: Timestamp,
    /// Whether the cluster exports nothing: then no heartbeat is expected of it.
    pub only_imports: bool,
}

/// The direction of a member that only imports. All others have none.
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

    /// Whether the record of a member says that it only imports.
    pub fn says_only_imports(attributes: &Attributes) -> bool {
        attributes.get(DIRECTION) == Some(IMPORT)
    }

    /// A higher schema is accepted: a member must not seem dead to the releases before its own.
    pub(super) fn parse(attributes: &Attributes) -> Result<Self, Problem> {
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
