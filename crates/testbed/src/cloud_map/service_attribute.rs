//! Attributes of a service itself (not of its instances): at most 30, upserted, deleted with the service.

use serde_json::json;

use super::dispatch::Output;
use super::error::ApiError;
use super::input::{Input, absent};
use super::state::State;

const ATTRIBUTES_PER_SERVICE: usize = 30;

impl State {
    pub(super) fn get_service_attributes(&mut self, input: Input<'_>) -> Output {
        let id = self.service_id(input, "ServiceId")?;
        let namespace = &self.services[&id].namespace;
        Ok(json!({ "ServiceAttributes": {
            "ServiceArn": self.service_arn(namespace, &id),
            "ResourceOwner": self.owner_of(namespace),
            "Attributes": self.services[&id].attributes,
        }}))
    }

    pub(super) fn update_service_attributes(&mut self, input: Input<'_>) -> Output {
        let new = input.map("Attributes")?.ok_or_else(|| absent("Attributes"))?;
        refuse_size(new.len())?;
        if let Some((key, _)) =
            new.iter().find(|(key, value)| key.len() > 255 || value.len() > 1024)
        {
            return Err(ApiError::invalid(format!(
                "The service attribute {key} is longer than 255 and 1024 characters"
            )));
        }
        let id = self.service_id(input, "ServiceId")?;
        let mut union = self.services[&id].attributes.clone();
        union.extend(new);
        if union.len() > ATTRIBUTES_PER_SERVICE {
            let message = format!("A service can have at most {ATTRIBUTES_PER_SERVICE} attributes");
            return Err(ApiError::new(400, "ServiceAttributesLimitExceededException", message));
        }
        self.services.get_mut(&id).expect("its id was just found").attributes = union;
        Ok(json!({}))
    }

    pub(super) fn delete_service_attributes(&mut self, input: Input<'_>) -> Output {
        let keys = input.texts("Attributes")?.ok_or_else(|| absent("Attributes"))?;
        refuse_size(keys.len())?;
        let id = self.service_id(input, "ServiceId")?;
        let service = self.services.get_mut(&id).expect("its id was just found");
        service.attributes.retain(|key, _| !keys.contains(&key.as_str()));
        Ok(json!({}))
    }
}

fn refuse_size(size: usize) -> Result<(), ApiError> {
    if (1..=ATTRIBUTES_PER_SERVICE).contains(&size) {
        return Ok(());
    }
    Err(ApiError::invalid(format!(
        "Attributes must have 1 to {ATTRIBUTES_PER_SERVICE} members, not {size}"
    )))
}
