//! Reads the records of tools that forward changes of a cluster: kubernetes-event-exporter, Argo Events' resource
//! source, kubewatch, and tools that send a plain object or reference, such as Knative's ApiServerSource in its
//! CloudEvents. The scope is derived from the object in the record.

use serde_json::{Map, Value};

use super::object::{self, EventMetadata};
use super::{Scope, Unusable};
use crate::model::REPORTER;

/// Reads the record of a known forwarder. Returns `None` if no format matches.
pub(super) fn read(record: &Map<String, Value>) -> Option<Result<Scope, Unusable>> {
    if is_own_event(record) {
        return Some(Err(Unusable::OwnEvent));
    }
    event_exporter(record)
        .or_else(|| argo_events(record))
        .or_else(|| kubewatch(record))
        .or_else(|| non_empty_str(record, "kind").map(|_| read_object(record, None, None)))
}

/// Whether the record is or contains an Event that this function created (core/v1 or events.k8s.io/v1). These Events
/// are ignored, since each would start a run.
fn is_own_event(record: &Map<String, Value>) -> bool {
    let inside = ["body", "oldBody", "obj", "oldObj"];
    let inside = inside.into_iter().filter_map(|field| record.get(field)?.as_object());
    let reporter = |object| {
        let controller = non_empty_str(object, "reportingComponent")
            .or(non_empty_str(object, "reportingController"));
        controller.or_else(|| non_empty_str(object.get("source")?.as_object()?, "component"))
    };
    [record].into_iter().chain(inside).any(|object| reporter(object) == Some(REPORTER))
}

/// Reads a record of kubernetes-event-exporter: a v1 Event with the cluster's name, and with labels and owners added to
/// its `involvedObject`:
/// <https://github.com/resmoio/kubernetes-event-exporter/blob/master/pkg/kube/event.go>
fn event_exporter(record: &Map<String, Value>) -> Option<Result<Scope, Unusable>> {
    let object = record.get("involvedObject")?;
    let object = object.as_object().ok_or(Unusable::UnknownShape);
    let scope = object.and_then(|reference| read_object(reference, None, None));
    // kubernetes-event-exporter always writes `clusterName`, and leaves it empty unless a name is configured.
    let is_named = record.get("clusterName").is_some_and(|name| name != "");
    let cluster = || {
        let named =
            is_named.then(|| object::read_text(record, "clusterName", object::check_cluster));
        named.transpose().map(Option::flatten)
    };
    Some(scope.and_then(|scope| Ok(scope.in_cluster(cluster()?))))
}

/// Reads a record of Argo Events' resource source. Its fields are `type`, `body`, `oldBody`, `group`, `version`,
/// `resource` and `metadata`. `metadata` has fields that the event source adds by configuration; `cluster` is read from
/// there:
/// <https://github.com/argoproj/argo-events/blob/master/pkg/eventsources/events/event-data.go>
fn argo_events(record: &Map<String, Value>) -> Option<Result<Scope, Unusable>> {
    let resource = non_empty_str(record, "resource")?;
    matches!(non_empty_str(record, "type")?, "ADD" | "UPDATE" | "DELETE").then_some(())?;
    let body = one_of(record, ["body", "oldBody"])?;
    let group =
        non_empty_str(record, "group").map_or_else(String::new, |group| format!("{group}/"));
    let version = format!("{group}{}", non_empty_str(record, "version").unwrap_or_default());
    let scope = read_object(body, Some(resource), Some(&version));
    let cluster = || match record.get("metadata").and_then(Value::as_object) {
        Some(metadata) => object::read_text(metadata, "cluster", object::check_cluster),
        None => Ok(None),
    };
    Some(scope.and_then(|scope| Ok(scope.in_cluster(cluster()?))))
}

/// Reads the data of a kubewatch CloudEvent. `obj` usually lacks `kind` and `apiVersion`, because kubewatch's typed
/// client omits them. The record has the kind, or the resource for a custom resource:
/// <https://github.com/robusta-dev/kubewatch/blob/master/pkg/handlers/cloudevent/cloudevent.go>
fn kubewatch(record: &Map<String, Value>) -> Option<Result<Scope, Unusable>> {
    non_empty_str(record, "operation")?;
    let kind = non_empty_str(record, "kind")?;
    let object = one_of(record, ["obj", "oldObj"])?;
    Some(read_object(object, Some(kind), non_empty_str(record, "apiVersion")))
}

/// Reads an object, or a reference, which has no `metadata`. The object's own kind and version take precedence over
/// `kind` and `api_version`.
fn read_object(
    object: &Map<String, Value>,
    kind: Option<&str>,
    api_version: Option<&str>,
) -> Result<Scope, Unusable> {
    let kind = non_empty_str(object, "kind")
        .or(kind)
        .ok_or(Unusable::IncompleteScope { missing: "kind" })?;
    let names = match object.get("metadata") {
        Some(metadata) => metadata.as_object().ok_or(Unusable::UnknownShape)?,
        None => object,
    };
    let api_version = non_empty_str(object, "apiVersion").or(api_version);
    object::scope(kind, api_version, &EventMetadata::read(names)?)
}

fn one_of<'a>(record: &'a Map<String, Value>, fields: [&str; 2]) -> Option<&'a Map<String, Value>> {
    fields.into_iter().find_map(|field| record.get(field)?.as_object())
}

fn non_empty_str<'a>(record: &'a Map<String, Value>, field: &str) -> Option<&'a str> {
    let text = record.get(field)?.as_str()?;
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scope_of(record: &Value) -> Result<String, Unusable> {
        let record = record.as_object().expect("an object");
        read(record).expect("a forwarder's record").map(|scope| scope.to_string())
    }

    fn slice() -> Value {
        json!({"namespace": "shop", "name": "web-x7k2p", "labels": {"kubernetes.io/service-name": "web"}})
    }

    #[test]
    fn an_exporter_record_names_its_cluster_unless_it_was_never_set() {
        let mut record = json!({
            "action": "Binding", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
            "clusterName": "blue",
            "involvedObject": {"kind": "Service", "namespace": "shop", "name": "web", "apiVersion": "v1"}
        });
        assert_eq!(scope_of(&record).as_deref(), Ok("blue/shop/web"));
        record["clusterName"] = json!("");
        assert_eq!(scope_of(&record).as_deref(), Ok("the only cluster/shop/web"));
        record["clusterName"] = json!("a\u{0}b");
        assert_eq!(scope_of(&record).map_err(|e| e.reason()), Err("invalid_name"));
        record["involvedObject"] = json!({"namespace": "shop"});
        assert_eq!(scope_of(&record).map_err(|e| e.reason()), Err("incomplete_scope"));
        record["involvedObject"] = json!("shop/web");
        assert_eq!(scope_of(&record).map_err(|e| e.reason()), Err("unknown_shape"));
    }

    #[test]
    fn argo_events_has_the_old_body_if_there_is_no_new_one() {
        let body = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": slice()});
        let bare = json!({"metadata": slice()});
        for (new, old) in [(&body, &json!(null)), (&json!(null), &body), (&bare, &body)] {
            let record = json!({
                "type": "DELETE", "body": new, "oldBody": old,
                "group": "discovery.k8s.io", "version": "v1", "resource": "endpointslices"
            });
            assert_eq!(scope_of(&record).as_deref(), Ok("the only cluster/shop/web"));
        }
    }

    #[test]
    fn the_new_state_of_an_object_wins_over_the_old() {
        let new = json!({"metadata": {"namespace": "shop", "name": "web"}});
        let old = json!({"metadata": {"namespace": "shop", "name": "cart"}});
        let argo = json!({"type": "UPDATE", "body": new, "oldBody": old, "resource": "services"});
        let kubewatch =
            json!({"operation": "update", "kind": "Service", "obj": new, "oldObj": old});
        for record in [argo, kubewatch] {
            assert_eq!(scope_of(&record).as_deref(), Ok("the only cluster/shop/web"));
        }
    }

    #[test]
    fn the_senders_api_group_is_used_if_the_object_has_none() {
        let knative = json!({
            "type": "ADD", "body": {"metadata": {"namespace": "shop", "name": "web"}},
            "group": "serving.knative.dev", "version": "v1", "resource": "services"
        });
        let kind = "services.serving.knative.dev".to_owned();
        assert_eq!(scope_of(&knative), Err(Unusable::UnknownKind { kind }));
    }

    #[test]
    fn argo_events_names_the_cluster_in_its_own_metadata() {
        let mut record = json!({
            "type": "ADD", "body": {"metadata": {"namespace": "shop", "name": "web"}},
            "group": "", "version": "v1", "resource": "services", "metadata": {"cluster": "blue"}
        });
        assert_eq!(scope_of(&record).as_deref(), Ok("blue/shop/web"));
        record["metadata"]["cluster"] = json!("");
        assert_eq!(scope_of(&record).map_err(|e| e.reason()), Err("invalid_name"));
    }

    #[test]
    fn kubewatch_names_the_kind_beside_the_object() {
        let typed = json!({
            "operation": "delete", "kind": "Service", "apiVersion": "v1",
            "obj": {"metadata": {"namespace": "shop", "name": "web"}}, "oldObj": null
        });
        let custom = json!({
            "operation": "update", "kind": "endpointslices", "apiVersion": "discovery.k8s.io/v1",
            "obj": {"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "metadata": slice()}
        });
        for record in [typed, custom] {
            assert_eq!(scope_of(&record).as_deref(), Ok("the only cluster/shop/web"));
        }
    }

    #[test]
    fn events_of_this_function_are_dropped_in_every_shape() {
        let about =
            json!({"kind": "Service", "namespace": "shop", "name": "web", "apiVersion": "v1"});
        let exported = |reporter: &str, component: &str| {
            json!({
                "kind": "Event", "metadata": {"name": "web.1", "namespace": "shop"}, "clusterName": "blue",
                "reportingComponent": reporter, "source": {"component": component}, "involvedObject": about,
            })
        };
        let new = json!({
            "kind": "Event", "apiVersion": "events.k8s.io/v1", "metadata": {"name": "web.1", "namespace": "shop"},
            "reportingController": "cloud-map-sync", "regarding": about,
        });
        let argo = json!({"type": "ADD", "resource": "events", "version": "v1", "body": new});
        let kubewatch = json!({"operation": "create", "kind": "event", "obj": new});
        let named = exported("cloud-map-sync", "");
        let old = exported("", "cloud-map-sync");
        for record in [named, old, new.clone(), argo, kubewatch] {
            assert_eq!(scope_of(&record), Err(Unusable::OwnEvent), "{record}");
        }
        let kubelet_event = exported("kubelet", "cloud-map-sync");
        assert_eq!(scope_of(&kubelet_event).as_deref(), Ok("blue/shop/web"));
    }

    #[test]
    fn an_object_and_a_reference_to_it_give_the_same_scope() {
        let mut reference = slice();
        reference["kind"] = json!("EndpointSlice");
        let object = json!({"kind": "EndpointSlice", "metadata": slice()});
        assert_eq!(scope_of(&reference), scope_of(&object));
        assert_eq!(scope_of(&object).as_deref(), Ok("the only cluster/shop/web"));
    }

    #[test]
    fn records_without_a_forwarders_fields_are_not_read() {
        let rows = [
            json!({}),
            json!({"cluster": "blue", "namespace": "shop"}),
            json!({"type": "ADD", "resource": "services"}),
            json!({"type": "MODIFIED", "resource": "services", "body": {}}),
            json!({"kind": 7}),
        ];
        for record in rows {
            assert_eq!(read(record.as_object().expect("an object")), None, "{record}");
        }
    }
}
