//! A command of a direct invocation: an `action`, its scope and further fields. Each action has its own list of allowed
//! fields. Unknown fields are rejected, since a mistyped field would silently widen the scope.

use serde_json::{Map, Value};

use super::{ClusterName, Error, Scope};
use crate::model::{RegistryName, is_region, words};

/// The maximum number of unknown fields that an error shows, and of characters of each.
const SHOWN_FIELDS: usize = 5;
const SHOWN_CHARACTERS: usize = 40;

/// A direct invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the payload")]
pub struct Command {
    /// The action.
    pub action: Action,
    /// The scope.
    pub scope: Scope,
    /// The Region that the cluster must be in; `None` for any Region.
    pub region: Option<String>,
    /// The former owner id of the instances to adopt.
    pub owner: Option<String>,
    /// The Cloud Map to purge; `None` for every Cloud Map of the settings.
    pub registry: Option<RegistryName>,
    /// Whether a `purge` removes only the exports and imports of the cluster, with its records.
    pub only_clusterset: bool,
    /// Whether to carry out the plan of `adopt` or `purge`.
    pub is_confirmed: bool,
    /// Whether a `status` lists only the services that this installation created and that have no instance.
    pub only_unused: bool,
    /// Whether a `sync` reads as much of Cloud Map as the invocation has time for.
    pub fresh: bool,
}

/// Reads a command.
pub(super) fn read(object: &Map<String, Value>) -> Result<Command, Error> {
    let word = object.get("action").and_then(Value::as_str);
    let action = word.and_then(Action::parse).ok_or(Error::UnknownAction)?;
    let known = action.fields();
    let fields = unknown_fields(object, known);
    if !fields.is_empty() {
        return Err(Error::UnknownFields { fields, known });
    }
    let scope = Scope::from_fields(object).map_err(Error::Scope)?;
    if action == Action::Purge && scope.cluster == ClusterName::Every {
        let expected = "given: a purge deregisters all instances of one cluster";
        return Err(Error::InvalidField { field: "cluster", expected });
    }
    if action == Action::Explain && scope.service.is_none() {
        let expected = "given, and its namespace: one Service is explained at a time";
        return Err(Error::InvalidField { field: "service", expected });
    }
    let region = region(object, &scope)?;
    let owner = owner(object)?;
    let registry = registry(object)?;
    let only_clusterset = flag(object, "clusterset")?;
    let is_confirmed = flag(object, "confirm")?;
    let only_unused = flag(object, "created")?;
    let fresh = flag(object, "fresh")?;
    Ok(Command {
        action,
        scope,
        region,
        owner,
        registry,
        only_clusterset,
        is_confirmed,
        only_unused,
        fresh,
    })
}

/// Reads the Region of the scope's cluster. A Region without a named cluster is an error.
fn region(object: &Map<String, Value>, scope: &Scope) -> Result<Option<String>, Error> {
    let expected = "an AWS Region, such as eu-central-1";
    let is_region = |text: &&str| is_region(text);
    let region = field(object, "region", expected, |value| {
        Some(value.as_str().filter(is_region)?.to_owned())
    })?;
    if region.is_some() && !matches!(scope.cluster, ClusterName::Named(_)) {
        let expected = "absent, or given with a cluster";
        return Err(Error::InvalidField { field: "region", expected });
    }
    Ok(region)
}

/// Reads an `OWNER_ID`.
fn owner(object: &Map<String, Value>) -> Result<Option<String>, Error> {
    let is_id =
        |id: &&str| (1..=256).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    let expected = "1 to 256 printable ASCII characters without spaces";
    field(object, "owner", expected, |value| Some(value.as_str().filter(is_id)?.to_owned()))
}

/// Reads the name of a Cloud Map, `ACCOUNT/REGION`.
fn registry(object: &Map<String, Value>) -> Result<Option<RegistryName>, Error> {
    let expected = "ACCOUNT/REGION, such as 111122223333/eu-central-1";
    field(object, "registry", expected, |value| value.as_str().and_then(RegistryName::parse))
}

/// Reads a boolean field, which may be absent. A text or a number is an error, so only `true` confirms.
fn flag(object: &Map<String, Value>, name: &'static str) -> Result<bool, Error> {
    Ok(field(object, name, "true or false", Value::as_bool)?.unwrap_or_default())
}

/// Reads a field that may be absent or null.
fn field<T>(
    object: &Map<String, Value>,
    field: &'static str,
    expected: &'static str,
    parse: impl Fn(&Value) -> Option<T>,
) -> Result<Option<T>, Error> {
    let value = object.get(field).filter(|value| !value.is_null());
    let invalid = Error::InvalidField { field, expected };
    value.map(|value| parse(value).ok_or(invalid)).transpose()
}

fn unknown_fields(object: &Map<String, Value>, known: &[&str]) -> Vec<String> {
    object
        .keys()
        .filter(|field| !known.contains(&field.as_str()))
        .take(SHOWN_FIELDS)
        .map(|field| field.escape_default().take(SHOWN_CHARACTERS).collect())
        .collect()
}

words! {
    /// The action of a command.
    pub enum Action {
        /// Observe, plan and apply.
        Sync = "sync",
        /// Observe and plan; nothing is written.
        Plan = "plan",
        /// Adopt instances of other owners.
        Adopt = "adopt",
        /// Deregister all instances of a cluster.
        Purge = "purge",
        /// Sync a whole cluster, and make the removals that the guard holds.
        Confirm = "confirm",
        /// Count the instances of each owner in each Cloud Map service.
        Status = "status",
        /// Show whether each endpoint of one Service is registered, with the reason.
        Explain = "explain",
        /// Check the function's connections and rights.
        Doctor = "doctor",
    }
}

impl Action {
    /// Lists the fields that a command may have. Commands that write accept `region`, which rejects a cluster of the
    /// same name in another Region. `confirm` has no namespace, since the guard judges the loss of a whole cluster.
    pub(super) fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Plan | Self::Explain => &["action", "cluster", "namespace", "service"],
            Self::Sync => &["action", "cluster", "region", "namespace", "service", "fresh"],
            Self::Adopt => {
                &["action", "cluster", "region", "namespace", "service", "owner", "confirm"]
            }
            Self::Purge => &["action", "cluster", "region", "registry", "clusterset", "confirm"],
            Self::Confirm => &["action", "cluster", "region"],
            Self::Status => &["action", "cluster", "created"],
            Self::Doctor => &["action", "cluster"],
        }
    }

    /// Whether the action takes over or removes instances that others may rely on. An installation may reserve such
    /// actions to a few people.
    pub fn is_administrative(self) -> bool {
        matches!(self, Self::Adopt | Self::Purge | Self::Confirm)
    }

    /// Returns the words of all actions, for an error.
    pub(super) fn list() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }
}
