//! GetInstance and ListInstances: the control plane's view, which shows a change only after its operation has ended.

use serde_json::{Value, json};

use super::dispatch::Output;
use super::input::Input;
use super::instance::not_found;
use super::namespace_reads::with_token;
use super::page::Page;
use super::state::State;

impl State {
    pub(super) fn get_instance(&mut self, input: Input<'_>) -> Output {
        let id = input.text("InstanceId", 64)?;
        let service_id = self.service_id(input, "ServiceId")?;
        let history = self.services[&service_id].instances.get(id);
        let instance = history
            .and_then(|history| history.listed(self.now))
            .ok_or_else(|| not_found(id, &service_id))?;
        let mut shown = json!({ "Id": id, "Attributes": instance.attributes, "CreatedByAccount": instance.created_by });
        if let Some(creator) = &instance.creator_request_id {
            shown["CreatorRequestId"] = json!(creator);
        }
        Ok(
            json!({ "ResourceOwner": self.owner_of(&self.services[&service_id].namespace), "Instance": shown }),
        )
    }

    pub(super) fn list_instances(&mut self, input: Input<'_>) -> Output {
        Page::check_size(input)?;
        let service_id = self.service_id(input, "ServiceId")?;
        let page =
            Page::read(input, &format!("instances of {service_id}"), self.behaviour.page_limit)?;
        let (page, token) = page.cut(self.services[&service_id].listed(self.now).map(|(id, instance)| {
            (id, json!({ "Id": id, "Attributes": instance.attributes, "CreatedByAccount": instance.created_by }))
        }));
        let page: Vec<Value> = page;
        Ok(with_token(
            json!({ "ResourceOwner": self.owner_of(&self.services[&service_id].namespace), "Instances": page }),
            token,
        ))
    }
}
