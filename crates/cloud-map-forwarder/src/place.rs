//! The place of a change, and the message about it: a sync of one Service, or of the whole cluster. The function's
//! `event` reads these messages.

use serde_json::{Value, json};

use cloud_map_sync::model::ServiceRef;

/// The place of a change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The whole cluster, after a time without a watch, or with more changes than can be pending.
    Cluster,
    /// One Service, or its endpoints.
    Service(ServiceRef),
}

impl Place {
    /// The message about it.
    pub fn message(&self, cluster: &str) -> Value {
        match self {
            Self::Cluster => json!({"action": "sync", "cluster": cluster}),
            Self::Service(ServiceRef { namespace, name }) => {
                json!({"cluster": cluster, "namespace": namespace, "service": name})
            }
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cluster => f.write_str("the whole cluster"),
            Self::Service(service) => service.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_map_sync::event::{self, Invocation};

    #[test]
    fn the_function_reads_each_message_as_intended() {
        let rows = [
            (Place::Cluster, "blue"),
            (Place::Service(ServiceRef::new("shop", "web")), "blue/shop/web"),
        ];
        for (place, scope) in rows {
            let body = place.message("blue").to_string();
            let record = json!({"messageId": "1", "eventSource": "aws:sqs", "body": body});
            let read = event::read(&json!({"Records": [record]})).expect("a batch");
            let Invocation::Queue(messages) = read else { panic!("{read:?}") };
            let reading = messages[0].reading.as_ref().expect("usable");
            assert_eq!(reading.to_string(), scope);
        }
    }
}
