//! A change in Cloud Map by another party, as CloudTrail records the call and EventBridge delivers it. It only says where
//! to look: the account, the Region, the time and the ids are read, each checked for its form, and nothing else.

use serde_json::Value;

use super::Unusable;
use crate::model::{Timestamp, display, is_account, is_region};

/// The source of these events. No other sender than AWS can write it to a bus.
const SOURCE: &str = "aws.servicediscovery";
const KIND: &str = "AWS API Call via CloudTrail";
const RECORDER: &str = "servicediscovery.amazonaws.com";
/// The longest id of an instance.
const LONGEST_ID: usize = 64;

/// A recorded call that has changed Cloud Map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The account of the service; of one that is named by its id alone that of the caller.
    pub account: String,
    pub region: String,
    /// The time of the call.
    pub time: Timestamp,
    /// The id of the service; `None` if the call was about a namespace.
    pub service: Option<String>,
    /// Whether the call was about the service itself, so that what is remembered of it may be wrong.
    pub changes_service: bool,
    /// The id of the instance that the call was about.
    pub instance: Option<String>,
}

display!(Drift { service, account, region, .. } => "drift of {} in {account}/{region}",
    service.as_deref().unwrap_or("a namespace"));

/// Reads an event of Cloud Map; `None` if it is one of something else.
pub(super) fn read(event: &Value) -> Option<Result<Drift, Unusable>> {
    let is_of_cloud_map = event.get("source").and_then(Value::as_str) == Some(SOURCE);
    is_of_cloud_map.then(|| parse(event).ok_or(Unusable::UnknownCall))
}

fn parse(event: &Value) -> Option<Drift> {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str);
    let is_call = text("/detail-type") == Some(KIND)
        && text("/detail/eventSource") == Some(RECORDER)
        && event.pointer("/detail/errorCode").is_none();
    let name = text("/detail/eventName").filter(|_| is_call)?;
    let id = match name {
        "RegisterInstance" | "DeregisterInstance" => {
            Some(text("/detail/requestParameters/serviceId")?)
        }
        "UpdateService" | "DeleteService" => Some(text("/detail/requestParameters/id")?),
        "CreateService" => {
            let arn = text("/detail/responseElements/service/arn");
            Some(arn.or(text("/detail/responseElements/service/id"))?)
        }
        "TagResource" | "UntagResource" => Some(text("/detail/requestParameters/resourceARN")?),
        "CreateHttpNamespace"
        | "CreatePrivateDnsNamespace"
        | "CreatePublicDnsNamespace"
        | "DeleteNamespace" => None,
        _ => return None,
    };
    let (place, service) = id.map_or(Some((None, None)), subject)?;
    let place = place.or(text("/account").zip(text("/region")));
    let (account, region) = place.filter(|(it, region)| is_account(it) && is_region(region))?;
    let instance = text("/detail/requestParameters/instanceId").filter(|it| is_id(it));
    Some(Drift {
        account: account.to_owned(),
        region: region.to_owned(),
        time: text("/detail/eventTime")?.parse().ok()?,
        service: service.map(str::to_owned),
        changes_service: matches!(name, "CreateService" | "UpdateService"),
        instance: instance.map(str::to_owned),
    })
}

/// The account and the Region of an ARN, and the id of a service; `None` for a namespace.
type DriftSubject<'a> = (Option<(&'a str, &'a str)>, Option<&'a str>);

/// The subject that an id or an ARN names.
fn subject(text: &str) -> Option<DriftSubject<'_>> {
    let is_service = |id: &str| id.starts_with("srv-") && is_id(id);
    let Some(arn) = text.strip_prefix("arn:") else {
        return is_service(text).then_some((None, Some(text)));
    };
    let parts: Vec<&str> = arn.splitn(5, ':').collect();
    let [_, "servicediscovery", region, account, resource] = parts.as_slice() else {
        return None;
    };
    let place = Some((*account, *region));
    match resource.split_once('/')? {
        ("service", id) if is_service(id) => Some((place, Some(id))),
        ("namespace", id) if is_id(id) => Some((place, None)),
        _ => None,
    }
}

fn is_id(text: &str) -> bool {
    let is_of_id = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= LONGEST_ID && text.bytes().all(is_of_id)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SERVICE: &str = "srv-p5zdwlg5uvvzjita";

    fn event(name: &str, parameters: &Value, response: &Value) -> Value {
        json!({
            "detail-type": KIND, "source": SOURCE, "account": "111122223333", "region": "eu-central-1",
            "detail": {
                "eventSource": RECORDER, "eventName": name, "eventTime": "2026-11-21T10:00:00Z",
                "requestParameters": parameters, "responseElements": response,
            }
        })
    }

    fn read_to_text(event: &Value) -> Result<String, &'static str> {
        read(event).expect("of Cloud Map").map(|it| it.to_string()).map_err(|it| it.reason())
    }

    #[test]
    fn every_call_names_its_service_or_none() {
        let operation = json!({ "operationId": "op" });
        let own = "drift of srv-p5zdwlg5uvvzjita in 111122223333/eu-central-1";
        let of_other = "drift of srv-p5zdwlg5uvvzjita in 444455556666/eu-west-1";
        let namespace = "drift of a namespace in 111122223333/eu-central-1";
        let arn = format!("arn:aws:servicediscovery:eu-west-1:444455556666:service/{SERVICE}");
        let of_namespace = "arn:aws:servicediscovery:eu-central-1:111122223333:namespace/ns-1";
        let rows = [
            ("RegisterInstance", json!({"serviceId": SERVICE, "instanceId": "ip-1"}), own),
            ("DeregisterInstance", json!({"serviceId": arn, "instanceId": "ip-1"}), of_other),
            ("UpdateService", json!({"id": SERVICE, "service": {}}), own),
            ("DeleteService", json!({"id": arn}), of_other),
            ("TagResource", json!({"resourceARN": arn, "tags": []}), of_other),
            ("UntagResource", json!({"resourceARN": of_namespace}), namespace),
            ("CreateHttpNamespace", json!({"name": "prod"}), namespace),
            ("CreatePrivateDnsNamespace", json!({"name": "prod.local"}), namespace),
            ("CreatePublicDnsNamespace", json!({"name": "example.com"}), namespace),
            ("DeleteNamespace", json!({"id": "ns-1"}), namespace),
        ];
        for (name, parameters, expected) in rows {
            assert_eq!(
                read_to_text(&event(name, &parameters, &operation)).as_deref(),
                Ok(expected),
                "{name}"
            );
        }
        let created = event("CreateService", &json!({}), &json!({"service": {"id": SERVICE}}));
        assert_eq!(read_to_text(&created).as_deref(), Ok(own));
    }

    #[test]
    fn only_a_call_about_the_service_itself_outdates_what_is_remembered_of_it() {
        let drift = |name: &str, parameters: &Value| {
            let response = json!({"service": {"id": SERVICE}});
            read(&event(name, parameters, &response)).expect("of Cloud Map").expect("a drift")
        };
        let instance = drift(
            "RegisterInstance",
            &json!({"serviceId": SERVICE, "instanceId": "export-0123456789abcdef0123"}),
        );
        assert!(!instance.changes_service);
        assert_eq!(instance.instance.as_deref(), Some("export-0123456789abcdef0123"));
        assert!(drift("UpdateService", &json!({"id": SERVICE})).changes_service);
        assert!(drift("CreateService", &json!({})).changes_service);
    }

    #[test]
    fn what_is_no_recorded_change_is_unusable_and_not_repeated() {
        let good = event("UpdateService", &json!({"id": SERVICE}), &json!({"operationId": "op"}));
        assert!(read_to_text(&good).is_ok());
        let changes: [(&str, Value); 16] = [
            ("/detail-type", json!("AWS Console Sign In via CloudTrail")),
            ("/detail", json!("{}")),
            ("/detail", json!(null)),
            ("/detail/eventSource", json!("route53.amazonaws.com")),
            ("/detail/eventName", json!("ListServices")),
            ("/detail/eventName", json!("DiscoverInstances")),
            ("/detail/eventName", json!(7)),
            ("/detail/eventTime", json!("yesterday")),
            ("/detail/requestParameters", json!(null)),
            ("/detail/requestParameters/id", json!("ns-hunter2")),
            ("/detail/requestParameters/id", json!("srv-../hunter2")),
            ("/detail/requestParameters/id", json!("srv-\u{202e}hunter2")),
            ("/detail/requestParameters/id", json!("arn:aws:ecs:eu-west-1:1:service/srv-hunter2")),
            ("/detail/requestParameters/id", json!(format!("srv-{}", "x".repeat(100)))),
            ("/account", json!("hunter2")),
            ("/region", json!("https://hunter2.example.com/")),
        ];
        for (pointer, value) in changes {
            let mut event = good.clone();
            *event.pointer_mut(pointer).expect("a field of it") = value;
            assert_eq!(read_to_text(&event), Err("unknown_call"), "{event}");
            let unusable = read(&event).expect("of Cloud Map").expect_err("unusable");
            assert!(!format!("{unusable} {unusable:?}").contains("hunter2"));
        }
        let mut failed = good;
        failed["detail"]["errorCode"] = json!("AccessDenied");
        assert_eq!(read_to_text(&failed), Err("unknown_call"));
    }

    #[test]
    fn event_of_something_else_is_not_read() {
        for event in [json!({"source": "aws.eks"}), json!({"source": 7}), json!([]), json!(null)] {
            assert_eq!(read(&event), None, "{event}");
        }
    }
}
