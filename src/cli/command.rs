//! What the function is asked for: an action and where, as its direct invocation takes them.

use std::fmt;

use serde_json::{Map, Value};

use super::place::Place;

/// One direct invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The action's word.
    pub action: &'static str,
    /// Where.
    pub place: Place,
}

impl Command {
    /// The payload: what is not named is not in it.
    pub fn payload(&self) -> Value {
        let Place { cluster, namespace, service } = self.place.clone();
        let named = [("cluster", cluster), ("namespace", namespace), ("service", service)];
        let named = named.into_iter().filter_map(|(key, value)| Some((key, value?)));
        let fields = [("action", self.action.to_owned())].into_iter().chain(named);
        let fields = fields.map(|(key, value)| (key.to_owned(), Value::String(value)));
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
    use crate::event::{self, Invocation};

    #[test]
    fn the_function_reads_each_command_as_it_was_meant() {
        let place = |cluster: Option<&str>, namespace: Option<&str>, service: Option<&str>| {
            let [cluster, namespace, service] =
                [cluster, namespace, service].map(|name| name.map(str::to_owned));
            Place { cluster, namespace, service }
        };
        let rows = [
            ("plan", place(None, None, None), "plan every cluster"),
            ("sync", place(Some("blue"), None, None), "sync blue"),
            ("plan", place(Some("blue"), Some("shop"), None), "plan blue/shop"),
            ("sync", place(Some("blue"), Some("shop"), Some("web")), "sync blue/shop/web"),
        ];
        for (action, place, meant) in rows {
            let payload = Command { action, place }.payload();
            let Ok(Invocation::Direct(command)) = event::read(&payload) else {
                panic!("{payload}")
            };
            assert_eq!(format!("{} {}", command.action, command.scope), meant);
        }
    }
}
