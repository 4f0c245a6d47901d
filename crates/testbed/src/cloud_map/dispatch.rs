//! One call from the accepted request to the reply: guard, fault, rate limit, the operation itself, record, guard. As
//! in the real service, a throttled call has no effect, and a refused call counts as made and is in the record.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::Request;
use serde_json::{Value, json};

use super::fault::FaultKind;
use super::id::last_part;
use super::input::Input;
use super::operation::Fate;
use super::resource::NamespaceKind;
use super::state::{Call, State};
use super::wire::{Accepted, Answer, Checked, Damage};
use super::{fault, wire};

/// A list whose entries lack a member.
fn entries_without(mut body: Value, member: &str) -> Value {
    let lists = body.as_object_mut().into_iter().flatten();
    for entry in lists.filter_map(|(_, list)| list.as_array_mut()).flatten() {
        entry.as_object_mut().expect("an entry is an object").remove(member);
    }
    body
}

/// An answer whose members have other types than the model says.
fn of_wrong_types(mut body: Value) -> Value {
    for (_, member) in body.as_object_mut().into_iter().flatten() {
        *member = if member.is_array() { json!("a text") } else { json!([7]) };
    }
    body
}

impl State {
    /// Serves one request.
    pub fn serve(&mut self, operation: &str, request: &Request<Bytes>) -> Answer {
        self.touch();
        match wire::accept(operation, request) {
            Ok(accepted) => self.serve_accepted(&accepted),
            Err(error) => self.answer(Err(error)),
        }
    }

    fn serve_accepted(&mut self, accepted: &Accepted) -> Answer {
        let (service, instance) = Self::subject(accepted);
        self.guard_call(accepted, service.as_deref(), instance.as_deref());
        let of_service = service.as_deref();
        let of_instance = instance.as_deref();
        let fault = fault::due(&mut self.faults, &accepted.operation, of_service, of_instance);
        let answer = self.serve_with(accepted, fault.as_ref());
        let status = if answer.damage == Damage::Reset { 0 } else { answer.status };
        let call = Call { operation: accepted.operation.clone(), service, instance, status };
        self.revision += u64::from(call.is_write());
        self.calls.push(call);
        self.touch();
        self.guard.compare(&format!("after {}", accepted.operation), &self.services);
        self.check_watches(&format!("after {}", accepted.operation));
        answer
    }

    /// The service and the instance that a call is about, for the record, the faults and the guard.
    fn subject(accepted: &Accepted) -> (Option<String>, Option<String>) {
        let member = |name: &str| accepted.members.get(name)?.as_str();
        let service = match accepted.operation.as_str() {
            "CreateService" => member("Name"),
            "DiscoverInstances" | "DiscoverInstancesRevision" => member("ServiceName"),
            "GetService" | "UpdateService" | "DeleteService" => member("Id"),
            _ => member("ServiceId"),
        };
        (
            service.map(|service| last_part(service).to_owned()),
            member("InstanceId").map(str::to_owned),
        )
    }

    fn guard_call(&mut self, accepted: &Accepted, service: Option<&str>, instance: Option<&str>) {
        let operation = accepted.operation.as_str();
        let (Some(service), Some(instance)) = (service, instance) else { return };
        if !matches!(operation, "RegisterInstance" | "DeregisterInstance") {
            return;
        }
        let of_id = self.services.get(service);
        let present = of_id.and_then(|service| service.instance(instance));
        let listed = of_id.and_then(|service| service.instances.get(instance)?.listed(self.now));
        let attributes = Input(&accepted.members).map("Attributes").ok().flatten();
        self.guard.before(operation, service, instance, present, listed, attributes.as_ref());
    }

    fn serve_with(&mut self, accepted: &Accepted, fault: Option<&FaultKind>) -> Answer {
        let output = if fault.is_none_or(FaultKind::takes_effect) {
            self.perform(accepted, fault)
        } else {
            Ok(Value::Null)
        };
        let output = match fault {
            Some(FaultKind::Empty) => output.map(|_| json!({})),
            Some(FaultKind::Without(member)) => output.map(|body| entries_without(body, member)),
            Some(FaultKind::WrongType) => output.map(of_wrong_types),
            fault => fault.and_then(|fault| fault.error(&accepted.operation)).map_or(output, Err),
        };
        let mut answer = self.answer(output);
        match fault {
            Some(FaultKind::Reset | FaultKind::DropAfterEffect) => answer.damage = Damage::Reset,
            Some(FaultKind::Silence(wait)) => (answer.damage, answer.wait) = (Damage::Reset, *wait),
            Some(FaultKind::Cut) => answer.damage = Damage::Cut,
            Some(FaultKind::TruncatedJson) => answer.damage = Damage::Half,
            Some(FaultKind::Late(wait)) => answer.wait = *wait,
            _ => {}
        }
        answer
    }

    fn perform(&mut self, accepted: &Accepted, fault: Option<&FaultKind>) -> Checked<Value> {
        let discovery = matches!(
            accepted.operation.as_str(),
            "DiscoverInstances" | "DiscoverInstancesRevision"
        );
        if discovery != accepted.on_data_host
            && !(discovery && self.behaviour.discovery_on_any_host)
        {
            return Err(wire::unknown_operation());
        }
        if let Some(quotas) = &self.behaviour.quotas
            && !self.buckets.take(quotas, &accepted.operation, self.now)
        {
            self.throttled += 1;
            let plane =
                if discovery { fault::request_limit_exceeded } else { fault::rate_exceeded };
            return Err(plane());
        }
        self.operations.next = match fault {
            Some(FaultKind::OperationFails(code)) => Some(Fate::Fails(code)),
            Some(FaultKind::OperationDenied(right)) => Some(Fate::Denied(right)),
            Some(FaultKind::OperationHangs) => Some(Fate::Hangs),
            _ => None,
        };
        let output = self.call(&accepted.operation, Input(&accepted.members));
        self.operations.next = None;
        output
    }

    fn call(&mut self, operation: &str, input: Input<'_>) -> Checked<Value> {
        match operation {
            "CreateHttpNamespace" => self.create_namespace(input, NamespaceKind::Http),
            "CreatePrivateDnsNamespace" => self.create_namespace(input, NamespaceKind::DnsPrivate),
            "CreatePublicDnsNamespace" => self.create_namespace(input, NamespaceKind::DnsPublic),
            "DeleteNamespace" => self.delete_namespace(input),
            "GetNamespace" => self.get_namespace(input),
            "ListNamespaces" => self.list_namespaces(input),
            "CreateService" => self.create_service(input),
            "UpdateService" => self.update_service(input),
            "DeleteService" => self.delete_service(input),
            "GetService" => self.get_service(input),
            "ListServices" => self.list_services(input),
            "RegisterInstance" => self.register_instance(input),
            "DeregisterInstance" => self.deregister_instance(input),
            "GetInstance" => self.get_instance(input),
            "ListInstances" => self.list_instances(input),
            "DiscoverInstances" => self.discover_instances(input),
            "DiscoverInstancesRevision" => self.discover_instances_revision(input),
            "GetOperation" => self.get_operation(input),
            "TagResource" => self.tag_resource(input),
            "ListTagsForResource" => self.list_tags_for_resource(input),
            _ => Err(wire::unknown_operation()),
        }
    }

    fn answer(&mut self, output: Checked<Value>) -> Answer {
        let (status, body) = match output {
            Ok(body) => (200, body),
            Err(error) if self.behaviour.statuses_of_the_model => {
                (error.status_of_the_model(), error.body())
            }
            Err(error) => (error.status, error.body()),
        };
        let damage = Damage::None;
        let wait = Duration::ZERO;
        Answer { status, body, damage, wait, request_id: self.ids.request() }
    }
}
