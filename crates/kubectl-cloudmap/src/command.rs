//! The request to the function: an action with its scope, as the payload of a direct invocation. `runner` sends it
//! to the function.

use std::fmt;

use serde_json::{Map, Value};

use super::place::Place;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub action: &'static str,
    pub place: Place,
    /// The former owner id of the instances to adopt.
    pub owner: Option<String>,
    /// The Cloud Map to purge; absent: all.
    pub registry: Option<String>,
    /// Whether to carry out the plan.
    pub confirm: bool,
    /// Whether the status is of what the installation created, and has no instance.
    pub created: bool,
}

impl Command {
    /// A command without optional fields.
    pub fn new(action: &'static str, place: Place) -> Self {
        Self { action, place, owner: None, registry: None, confirm: false, created: false }
    }

    /// Whether the function refuses a cluster of the same name in another Region. It reads no Region with other actions,
    /// whose answers show the ARN.
    fn writes(&self) -> bool {
        matches!(self.action, "adopt" | "confirm" | "purge" | "sync")
    }

    /// The payload. Absent values have no field.
    pub fn payload(&self) -> Value {
        let Place { cluster, region, namespace, service } = self.place.clone();
        let fields = [
            ("action", Some(self.action.to_owned())),
            ("cluster", cluster),
            ("region", region.filter(|_| self.writes())),
            ("namespace", namespace),
            ("service", service),
            ("owner", self.owner.clone()),
            ("registry", self.registry.clone()),
        ];
        let named =
            fields.into_iter().filter_map(|(key, value)| Some((key, Value::String(value?))));
        let flags = [("confirm", self.confirm), ("created", self.created)];
        let flags = flags.into_iter().filter(|(_, is_set)| *is_set);
        let fields = named.chain(flags.map(|(key, _)| (key, Value::Bool(true))));
        let fields = fields.map(|(key, value)| (key.to_owned(), value));
        Value::Object(fields.collect::<Map<_, _>>())
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.action, self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_map_sync::event::{self, Invocation};

    #[test]
    fn the_function_reads_each_command_as_intended() {
        let place = |cluster: Option<&str>, namespace: Option<&str>, service: Option<&str>| {
            let [cluster, namespace, service] =
                [cluster, namespace, service].map(|name| name.map(str::to_owned));
            Place { cluster, namespace, service, region: None }
        };
        let rows = [
            ("plan", place(None, None, None), "plan every cluster"),
            ("cleanup", place(None, None, None), "cleanup every cluster"),
            ("sync", place(Some("blue"), None, None), "sync blue"),
            ("plan", place(Some("blue"), Some("shop"), None), "plan blue/shop"),
            ("sync", place(Some("blue"), Some("shop"), Some("web")), "sync blue/shop/web"),
        ];
        for (action, place, meant) in rows {
            let command = read(&Command::new(action, place));
            assert_eq!(format!("{} {}", command.action, command.scope), meant);
        }
        let blue = place(Some("blue"), None, None);
        let owner = Some("team-a".to_owned());
        let adopt = read(&Command { owner, ..Command::new("adopt", blue.clone()) });
        assert_eq!((adopt.owner.as_deref(), adopt.confirm), (Some("team-a"), false));
        let registry = Some("111122223333/eu-central-1".to_owned());
        let purge = Command { registry, confirm: true, ..Command::new("purge", blue.clone()) };
        let purge = read(&purge);
        assert!(purge.registry.is_some());
        assert_eq!((purge.scope.to_string().as_str(), purge.confirm), ("blue", true));
        assert_eq!(read(&Command::new("confirm", blue.clone())).scope.to_string(), "blue");
        let created = |created| read(&Command { created, ..Command::new("status", blue.clone()) });
        assert_eq!([created(false).created, created(true).created], [false, true]);
        let region = Some("eu-west-1".to_owned());
        let blue = Place { region: region.clone(), ..blue };
        for action in ["adopt", "confirm", "purge", "sync"] {
            assert_eq!(read(&Command::new(action, blue.clone())).region, region, "{action}");
        }
        for action in ["plan", "status", "doctor"] {
            assert_eq!(read(&Command::new(action, blue.clone())).region, None, "{action}");
        }
    }

    fn read(command: &Command) -> event::Command {
        match event::read(&command.payload()) {
            Ok(Invocation::Direct(read)) => read,
            other => panic!("{command}: {other:?}"),
        }
    }
}
