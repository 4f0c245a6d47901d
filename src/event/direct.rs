//! A command of whoever may invoke the function: an `action`, and where it looks. Read strictly, since
//! a mistyped field would silently widen what the command reaches.

use serde_json::{Map, Value};

use super::{Action, ClusterName, Error, Scope};
use crate::model::RegistryName;

/// How much of unknown fields an error shows.
const SHOWN_FIELDS: usize = 5;
const SHOWN_CHARACTERS: usize = 40;

/// A direct invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// What to do.
    pub action: Action,
    /// Where.
    pub scope: Scope,
    /// The owner id of the instances to adopt, one from before.
    pub owner: Option<String>,
    /// The only Cloud Map to purge, if not all.
    pub registry: Option<RegistryName>,
    /// Whether to do what is else only planned.
    pub confirm: bool,
}

/// Reads a command.
pub(super) fn read(object: &Map<String, Value>) -> Result<Command, Error> {
    let word = object.get("action").and_then(Value::as_str);
    let action = word.and_then(Action::from_word).ok_or(Error::UnknownAction)?;
    let known = action.fields();
    let fields = unknown_fields(object, known);
    if !fields.is_empty() {
        return Err(Error::UnknownFields { fields, known });
    }
    let scope = Scope::from_fields(object).map_err(Error::Scope)?;
    if action == Action::Purge && scope.cluster == ClusterName::Every {
        let expected = "given: a purge takes out all of one cluster";
        return Err(Error::InvalidField { field: "cluster", expected });
    }
    if action == Action::Explain && scope.service.is_none() {
        let expected = "given, and its namespace: one Service is explained at a time";
        return Err(Error::InvalidField { field: "service", expected });
    }
    let (owner, registry, confirm) = (owner(object)?, registry(object)?, confirm(object)?);
    Ok(Command { action, scope, owner, registry, confirm })
}

/// What may be an `OWNER_ID`.
fn owner(object: &Map<String, Value>) -> Result<Option<String>, Error> {
    match object.get("owner") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(id))
            if (1..=256).contains(&id.len()) && id.bytes().all(|it| it.is_ascii_graphic()) =>
        {
            Ok(Some(id.clone()))
        }
        Some(_) => {
            let expected = "1 to 256 printable ASCII characters without spaces";
            Err(Error::InvalidField { field: "owner", expected })
        }
    }
}

/// Which Cloud Map it is about.
fn registry(object: &Map<String, Value>) -> Result<Option<RegistryName>, Error> {
    let name = match object.get("registry") {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value.as_str().and_then(RegistryName::parse),
    };
    let expected = "ACCOUNT/REGION, such as 111122223333/eu-central-1";
    name.map(Some).ok_or(Error::InvalidField { field: "registry", expected })
}

/// Nothing but the word itself confirms.
fn confirm(object: &Map<String, Value>) -> Result<bool, Error> {
    match object.get("confirm") {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(confirmed)) => Ok(*confirmed),
        Some(_) => Err(Error::InvalidField { field: "confirm", expected: "true or false" }),
    }
}

fn unknown_fields(object: &Map<String, Value>, known: &[&str]) -> Vec<String> {
    object
        .keys()
        .filter(|field| !known.contains(&field.as_str()))
        .take(SHOWN_FIELDS)
        .map(|field| field.escape_default().take(SHOWN_CHARACTERS).collect())
        .collect()
}
