//! What a message asks the function to look at, and the message.

use serde_json::{Value, json};

use crate::model::ServiceRef;

/// Where something changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Anywhere in the cluster: nobody watched for a while, or more changed than can be listed.
    Cluster,
    /// One Service, or the endpoints behind it.
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
    use crate::event::{self, Invocation};

    #[test]
    fn the_function_reads_each_message_as_what_it_was_sent_for() {
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
