//! The unfinished work of a run, requeued: a part of a cluster, the number of attempts, and the Services that the guard
//! held in the run. A message can only add held Services: there is no field for a confirmed loss.

use serde_json::{Map, Value};

use super::{Unusable, name};
use crate::model::{Held, ServiceRef, Shard};

/// Unfinished work of an earlier run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Continuation {
    /// The part of the cluster.
    pub shard: Shard,
    /// The number of times it was requeued.
    pub attempt: u8,
    /// The Services that the guard held in that run.
    pub held: Held,
}

impl Continuation {
    /// The last attempt. Lambda's recursive loop detection stops a longer chain of invocations.
    pub const LAST_ATTEMPT: u8 = 8;

    /// Reads the fields `shard` and `hop`.
    pub(super) fn from_fields(object: &Map<String, Value>) -> Result<Option<Self>, Unusable> {
        let Some(shard) = object.get("shard") else { return Ok(None) };
        let invalid = |field, expected| Unusable::InvalidName { field, expected };
        let shard = shard.as_str().and_then(Shard::parse);
        let shard = shard.ok_or(invalid("shard", "a part such as 0/4"))?;
        let attempt = object.get("hop").and_then(Value::as_u64);
        let attempt = attempt.and_then(|it| u8::try_from(it).ok());
        let attempt = attempt.filter(|it| *it <= Self::LAST_ATTEMPT);
        let attempt = attempt.ok_or(invalid("hop", "a number up to 8"))?;
        let held = object.get("held").map_or(Some(Held::default()), held);
        let held = held.ok_or(invalid("held", "\"all\" or Services such as \"shop/web\""))?;
        Ok(Some(Self { shard, attempt, held }))
    }

    /// The value of the field `held`. Marks in Cloud Map may contain names that no Service can have and no message may
    /// contain: all Services are held then.
    #[must_use]
    pub fn held_as_json(held: &Held) -> Value {
        let Held::Services(services) = held else { return ALL.into() };
        let names: Value = services.iter().map(ToString::to_string).collect();
        if self::held(&names).as_ref() == Some(held) { names } else { ALL.into() }
    }
}

/// The word for all Services in the field `held`.
const ALL: &str = "all";

fn held(value: &Value) -> Option<Held> {
    if value == ALL {
        return Some(Held::All);
    }
    let service = |text: &Value| {
        let (namespace, service) = text.as_str()?.split_once('/')?;
        Some(ServiceRef::new(name::namespace(namespace).ok()?, name::service(service).ok()?))
    };
    value.as_array()?.iter().map(service).collect::<Option<_>>().map(Held::Services)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::Scope;

    #[test]
    fn a_continuation_is_read_completely_or_rejected() {
        let read = |value: Value| {
            let scope = Scope::from_own_message(value.as_object().expect("an object"));
            scope.map(|scope| scope.continuation.map(|rest| (rest.shard.to_string(), rest.attempt)))
        };
        assert_eq!(read(json!({"cluster": "blue"})), Ok(None));
        let rest = read(json!({"cluster": "blue", "shard": "1/4", "hop": 8}));
        assert_eq!(rest, Ok(Some(("1/4".to_owned(), 8))));
        for (bad, named) in [
            (json!({"cluster": "blue", "shard": "4/4", "hop": 1}), "shard"),
            (json!({"cluster": "blue", "shard": 1, "hop": 1}), "shard"),
            (json!({"cluster": "blue", "shard": "1/4"}), "hop"),
            (json!({"cluster": "blue", "shard": "1/4", "hop": 9}), "hop"),
            (json!({"namespace": "shop", "shard": "1/4", "hop": 1}), "shard"),
        ] {
            let read = read(bad.clone());
            assert!(
                matches!(read, Err(Unusable::InvalidName { field, .. }) if field == named),
                "{bad}: {read:?}"
            );
        }
    }

    #[test]
    fn held_services_are_read_as_written_and_never_as_fewer() {
        let read = |held: &Value| {
            let message = json!({"cluster": "blue", "shard": "1/4", "hop": 1, "held": held});
            let scope = Scope::from_own_message(message.as_object().expect("an object"));
            scope.map(|scope| scope.continuation.expect("a continuation").held)
        };
        let service = |name| ServiceRef::new("shop", name);
        let services = Held::Services([service("web"), service("cart")].into());
        for held in [Held::default(), services, Held::All] {
            assert_eq!(read(&Continuation::held_as_json(&held)), Ok(held));
        }
        let impossible = Held::Services([service("web"), service("../nodes")].into());
        assert_eq!(read(&Continuation::held_as_json(&impossible)), Ok(Held::All));
        for bad in
            [json!(null), json!("shop/web"), json!(["web"]), json!(["shop/We b"]), json!([7])]
        {
            let read = read(&bad);
            assert!(matches!(read, Err(Unusable::InvalidName { field: "held", .. })), "{bad}");
        }
    }
}
