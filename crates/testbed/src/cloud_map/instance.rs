//! Registers and deregisters instances: accepted now, done when the operation ends. GetInstance and ListInstances have
//! the control plane's view, which shows a change only after its operation has ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::id::last_part;
use super::input::{Input, Page, absent};
use super::namespace::with_token;
use super::operation::{Effect, Failure, Targets};
use super::resource::{Instance, RecordType};
use super::service::LONGEST_ARN;
use super::state::State;
use super::wire::{ApiError, Checked};
use super::{attribute, id};

const LONGEST_DNS_LABEL: usize = 63;

impl State {
    pub fn register_instance(&mut self, input: Input<'_>) -> Checked<Value> {
        let instance_id = input.text("InstanceId", 64)?;
        if !id::is_instance_id(instance_id) {
            let constraint = "Member must satisfy regular expression pattern: ^[0-9a-zA-Z_/:.@-]+$";
            return Err(ApiError::constraint("InstanceId", instance_id, constraint));
        }
        // Assumed (no_attributes): Attributes must be there, as in the model, and may be empty.
        let given = input.map("Attributes")?.ok_or_else(|| absent("Attributes"))?;
        // Assumed (used_request_id): a request id that was used before has no effect.
        let creator_request_id = input.optional_text("CreatorRequestId", 64)?;
        if let Some(targets) = self.targets_in_deleted_service(input, instance_id)? {
            let instance = self.new_instance(given, creator_request_id);
            let effect = Effect::Register { instance, adds: false };
            return self.submit(effect, targets, creator_request_id);
        }
        let service_id = self.service_id(input, "ServiceId")?;
        let service = &self.services[&service_id];
        let kind = self.namespaces[&service.namespace].kind;
        let attributes = attribute::check(given, service, kind, &self.behaviour)?;
        let targets = self.targets(&service_id, instance_id);
        self.refuse_duplicate(&targets)?;
        let adds = self.services[&service_id].instance(instance_id).is_none();
        self.refuse_above_limits(&targets, adds)?;
        let instance = self.new_instance(attributes, creator_request_id);
        self.submit(Effect::Register { instance, adds }, targets, creator_request_id)
    }

    fn new_instance(
        &self,
        attributes: BTreeMap<String, String>,
        creator_request_id: Option<&str>,
    ) -> Arc<Instance> {
        Arc::new(Instance {
            attributes,
            created_by: self.account.clone(),
            creator_request_id: creator_request_id.map(str::to_owned),
        })
    }

    /// What a registration in a service that was deleted works on: it is accepted, and its operation fails
    /// (aws/aws-app-mesh-controller-for-k8s, pull request 119).
    fn targets_in_deleted_service(
        &self,
        input: Input<'_>,
        instance_id: &str,
    ) -> Checked<Option<Targets>> {
        let id = last_part(input.text("ServiceId", LONGEST_ARN)?);
        let deleted = self.former_names.iter().find(|(_, former)| *former == id);
        let is_there = self.services.contains_key(id);
        let deleted = deleted.filter(|_| !is_there);
        Ok(deleted.map(|((namespace, _), _)| Targets::instance(namespace, id, instance_id)))
    }

    pub fn deregister_instance(&mut self, input: Input<'_>) -> Checked<Value> {
        let instance_id = input.text("InstanceId", 64)?;
        let service_id = self.service_id(input, "ServiceId")?;
        let targets = self.targets(&service_id, instance_id);
        self.refuse_duplicate(&targets)?;
        // An instance that is registered but not propagated yet counts as not found, and so does one that is gone.
        let service = &self.services[&service_id];
        let history = service.instances.get(instance_id);
        if service.instance(instance_id).is_none()
            || history.and_then(|history| history.listed(self.now)).is_none()
        {
            return Err(not_found(instance_id, &service_id));
        }
        self.submit(Effect::Deregister, targets, None)
    }

    fn targets(&self, service_id: &str, instance_id: &str) -> Targets {
        Targets::instance(&self.services[service_id].namespace, service_id, instance_id)
    }

    pub fn finish_register(
        &mut self,
        service_id: &str,
        id: &str,
        instance: Arc<Instance>,
        ended: Instant,
    ) -> Result<(), Failure> {
        let list_lag = self.behaviour.list_lag;
        let discover_lag = self.behaviour.discover_lag;
        let rewrite_raises_revision = self.behaviour.rewrite_raises_revision;
        let service = self.services.get_mut(service_id).ok_or_else(|| Failure::gone(service_id))?;
        // The id becomes a label of the SRV record's target, and Route 53 refuses longer ones.
        // Assumed (long_id_with_srv): a longer id is accepted, and its operation fails.
        if id.len() > LONGEST_DNS_LABEL
            && service.dns.as_ref().is_some_and(|dns| dns.has(RecordType::Srv))
        {
            let message = format!("{id} is longer than a DNS label");
            return Err(Failure { code: "INVALID_CHANGE_BATCH", message });
        }
        if service.instance(id).is_none() || rewrite_raises_revision {
            service.raise_revision(ended + discover_lag);
        }
        service.start_health(id, &instance.attributes);
        self.put(service_id, id, ended, (ended + list_lag, ended + discover_lag), Some(instance));
        Ok(())
    }

    pub fn finish_deregister(
        &mut self,
        service_id: &str,
        id: &str,
        ended: Instant,
    ) -> Result<(), Failure> {
        let list_lag = self.behaviour.list_lag;
        let discover_lag = self.behaviour.discover_lag;
        let service = self.services.get_mut(service_id).ok_or_else(|| Failure::gone(service_id))?;
        service.raise_revision(ended + discover_lag);
        self.put(service_id, id, ended, (ended + list_lag, ended + discover_lag), None);
        Ok(())
    }
}

/// The error for an instance that is not there, or not there yet.
pub fn not_found(instance_id: &str, service_id: &str) -> ApiError {
    ApiError::missing("InstanceNotFound", &format!("The instance {instance_id} in {service_id}"))
}

impl State {
    pub fn get_instance(&mut self, input: Input<'_>) -> Checked<Value> {
        let id = input.text("InstanceId", 64)?;
        let service_id = self.service_id(input, "ServiceId")?;
        let history = self.services[&service_id].instances.get(id);
        let instance = history
            .and_then(|history| history.listed(self.now))
            .ok_or_else(|| not_found(id, &service_id))?;
        let mut shown = show_instance(id, instance);
        if let Some(creator) = &instance.creator_request_id {
            shown["CreatorRequestId"] = json!(creator);
        }
        let owner = self.owner_of(&self.services[&service_id].namespace);
        Ok(json!({ "ResourceOwner": owner, "Instance": shown }))
    }

    pub fn list_instances(&mut self, input: Input<'_>) -> Checked<Value> {
        Page::check_size(input)?;
        let service_id = self.service_id(input, "ServiceId")?;
        let page =
            Page::read(input, &format!("instances of {service_id}"), self.behaviour.page_limit)?;
        let service = &self.services[&service_id];
        let shown = service.listed(self.now);
        let shown = shown.filter(|(id, _)| !self.behaviour.unlisted.contains(id.as_str()));
        let listed = shown.map(|(id, instance)| (id, show_instance(id, instance)));
        let (page, token) = page.cut(listed);
        let owner = self.owner_of(&service.namespace);
        Ok(with_token(json!({ "ResourceOwner": owner, "Instances": page }), token))
    }
}

fn show_instance(id: &str, instance: &Instance) -> Value {
    json!({ "Id": id, "Attributes": instance.attributes, "CreatedByAccount": instance.created_by })
}
