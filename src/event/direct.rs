//! A command of whoever may invoke the function: an `action`, and where it looks. Read strictly, since
//! a mistyped field would silently widen what the command reaches.

use std::fmt;

use serde_json::{Map, Value};

use super::{ClusterName, Error, Scope};

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
    /// Whether to do what is else only planned.
    pub confirm: bool,
}

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Observe, plan and apply.
    Sync,
    /// Observe and plan; nothing is written.
    Plan,
    /// Make instances of others ours.
    Adopt,
    /// Take out all of a cluster.
    Purge,
    /// Sync a cluster whole, whatever it loses.
    Confirm,
    /// Tell who has instances in each Cloud Map service.
    Status,
    /// Tell of one Service what becomes of each of its endpoints, and why.
    Explain,
    /// Check whether the work can be done.
    Doctor,
}

impl Action {
    const ALL: [Self; 8] = [
        Self::Sync,
        Self::Plan,
        Self::Adopt,
        Self::Purge,
        Self::Confirm,
        Self::Status,
        Self::Explain,
        Self::Doctor,
    ];

    /// The word that asks for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Plan => "plan",
            Self::Adopt => "adopt",
            Self::Purge => "purge",
            Self::Confirm => "confirm",
            Self::Status => "status",
            Self::Explain => "explain",
            Self::Doctor => "doctor",
        }
    }

    /// The fields that a command may have. Nothing less than a cluster is confirmed.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Sync | Self::Plan | Self::Explain => {
                &["action", "cluster", "namespace", "service"]
            }
            Self::Adopt => &["action", "cluster", "namespace", "service", "owner", "confirm"],
            Self::Purge => &["action", "cluster", "confirm"],
            Self::Confirm | Self::Status | Self::Doctor => &["action", "cluster"],
        }
    }

    /// All words, for an error.
    pub(super) fn list() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }

    fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == word)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
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
    Ok(Command { action, scope, owner: owner(object)?, confirm: confirm(object)? })
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

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use serde_json::json;

    use super::*;

    fn parse(value: &Value) -> Result<Command, Error> {
        read(value.as_object().expect("an object"))
    }

    #[test]
    fn commands_say_what_to_do_and_where() {
        let rows = [
            (json!({"action": "sync"}), "sync every cluster"),
            (json!({"action": "plan"}), "plan every cluster"),
            (json!({"action": "plan", "cluster": "green"}), "plan green"),
            (json!({"action": "confirm"}), "confirm every cluster"),
            (json!({"action": "confirm", "cluster": "green"}), "confirm green"),
            (json!({"action": "status"}), "status every cluster"),
            (json!({"action": "sync", "namespace": "shop"}), "sync the only cluster/shop"),
            (
                json!({"action": "sync", "cluster": "blue", "namespace": "shop", "service": "web"}),
                "sync blue/shop/web",
            ),
        ];
        for (payload, said) in rows {
            let command = parse(&payload).expect("a command");
            assert_eq!(format!("{} {}", command.action, command.scope), said);
        }
    }

    #[test]
    fn an_unknown_action_is_answered_with_the_known_ones() {
        for action in [json!("porge"), json!("SYNC"), json!(""), json!(null), json!(["sync"])] {
            let error = parse(&json!({"action": action})).expect_err("no such action");
            assert_eq!(
                error.to_string(),
                "the command's action is unknown; known are sync, plan, adopt, purge, confirm, status, explain, doctor"
            );
        }
    }

    #[test]
    fn a_mistyped_field_is_an_error_that_names_it() {
        let error = parse(&json!({"action": "sync", "sevice": "web", "Cluster": "blue"}));
        assert_eq!(
            error.expect_err("unknown fields").to_string(),
            "the command has unknown fields (Cluster, sevice); \
             known are action, cluster, namespace, service"
        );
    }

    #[test]
    fn an_adoption_is_a_plan_until_it_is_confirmed() {
        let rows = [
            (json!({"action": "adopt"}), None, false),
            (json!({"action": "adopt", "confirm": false, "owner": null}), None, false),
            (json!({"action": "adopt", "confirm": true}), None, true),
            (json!({"action": "adopt", "owner": "team-a", "confirm": true}), Some("team-a"), true),
        ];
        for (payload, owner, confirm) in rows {
            let command = parse(&payload).expect("a command");
            assert_eq!((command.owner.as_deref(), command.confirm), (owner, confirm), "{payload}");
        }
    }

    #[test]
    fn what_is_no_owner_and_no_confirmation_is_an_error() {
        let long = "x".repeat(257);
        for (field, value) in [
            ("confirm", json!("true")),
            ("confirm", json!(1)),
            ("owner", json!("")),
            ("owner", json!("two words")),
            ("owner", json!(["team-a"])),
            ("owner", json!(long)),
        ] {
            let mut payload = json!({"action": "adopt"});
            payload[field] = value;
            let error = parse(&payload).expect_err("no such value").to_string();
            assert!(error.starts_with(&format!("the command's {field} must be ")), "{error}");
        }
        for action in ["sync", "plan"] {
            let error = parse(&json!({"action": action, "confirm": true, "owner": "team-a"}));
            assert!(matches!(error, Err(Error::UnknownFields { .. })), "{error:?}");
        }
    }

    #[test]
    fn nothing_less_than_a_cluster_is_confirmed() {
        let error = parse(&json!({"action": "confirm", "cluster": "blue", "namespace": "shop"}));
        assert_eq!(
            error.expect_err("a part of it").to_string(),
            "the command has unknown fields (namespace); known are action, cluster"
        );
    }

    #[test]
    fn a_purge_names_its_cluster_and_nothing_inside_it() {
        let command = parse(&json!({"action": "purge", "cluster": "blue", "confirm": true}));
        assert_eq!(command.map(|it| (it.scope.to_string(), it.confirm)), Ok(("blue".into(), true)));
        let error = parse(&json!({"action": "purge", "confirm": true})).expect_err("no cluster");
        assert_eq!(
            error.to_string(),
            "the command's cluster must be given: a purge takes out all of one cluster"
        );
        let error = parse(&json!({"action": "purge", "cluster": "blue", "namespace": "shop"}));
        assert_eq!(
            error.expect_err("no namespace").to_string(),
            "the command has unknown fields (namespace); known are action, cluster, confirm"
        );
    }

    #[test]
    fn one_service_is_explained_at_a_time() {
        let web = json!({"action": "explain", "namespace": "shop", "service": "web"});
        assert_eq!(parse(&web).expect("a command").scope.to_string(), "the only cluster/shop/web");
        for payload in
            [json!({"action": "explain"}), json!({"action": "explain", "namespace": "shop"})]
        {
            let error = parse(&payload).expect_err("no Service").to_string();
            assert!(error.starts_with("the command's service must be given"), "{error}");
        }
    }

    #[test]
    fn hostile_field_names_are_escaped_and_cut() {
        let mut payload = json!({"action": "sync", "\u{1b}[31m\n": 1});
        payload["x".repeat(5_000)] = json!(1);
        for index in 0..200 {
            payload[format!("y{index}")] = json!(1);
        }
        let text = parse(&payload).expect_err("unknown fields").to_string();
        assert!(!text.contains(char::is_control) && text.len() < 250, "{text}");
    }

    #[test]
    fn an_invalid_scope_is_an_error_that_says_what_would_be_right() {
        let rows = [
            (
                json!({"action": "sync", "cluster": "blue", "service": "web"}),
                "the namespace is missing",
            ),
            (
                json!({"action": "sync", "cluster": "blue", "namespace": "Shop!"}),
                "the namespace is not a valid name: expected at most 63 of a-z, 0-9 and -, \
                 a letter or digit at both ends",
            ),
            (
                json!({"action": "plan", "cluster": ["blue"]}),
                "the cluster is not a valid name: expected a string",
            ),
        ];
        for (payload, cause) in rows {
            let error = parse(&payload).expect_err("an invalid scope");
            assert_eq!(error.source().expect("a source").to_string(), cause);
        }
    }
}
