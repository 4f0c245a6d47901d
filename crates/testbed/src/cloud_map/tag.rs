//! Tags of namespaces and services: at most 50 on one resource, though a request may list 200.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::input::{Input, absent};
use super::state::State;
use super::wire::{ApiError, Checked};

const LONGEST_ARN: usize = 1011;
const TAGS_PER_RESOURCE: usize = 50;
const TAGS_PER_REQUEST: usize = 200;

/// The tags that a request carries.
/// Assumed (reserved_tags): a key that begins with aws: or is given twice is InvalidInput.
pub fn read(input: Input<'_>) -> Checked<BTreeMap<String, String>> {
    let listed = input.objects("Tags")?;
    if listed.len() > TAGS_PER_REQUEST {
        return Err(ApiError::invalid(format!("Tags has more than {TAGS_PER_REQUEST} members")));
    }
    let mut tags = BTreeMap::new();
    for tag in listed {
        let key = tag.text("Key", 128)?;
        let value = tag.text("Value", 256)?;
        if key.is_empty() || key.starts_with("aws:") || tags.contains_key(key) {
            return Err(ApiError::invalid(format!(
                "The tag key '{key}' is empty, reserved or given twice"
            )));
        }
        tags.insert(key.to_owned(), value.to_owned());
    }
    Ok(tags)
}

/// Refuses more tags than a resource can have.
pub fn refuse_too_many(tags: &BTreeMap<String, String>, resource: &str) -> Checked<()> {
    if tags.len() <= TAGS_PER_RESOURCE {
        return Ok(());
    }
    let message = format!("A resource can have at most {TAGS_PER_RESOURCE} tags");
    Err(ApiError::new(400, "TooManyTagsException", message).with("ResourceName", resource))
}

impl State {
    pub fn tag_resource(&mut self, input: Input<'_>) -> Checked<Value> {
        let arn = input.text("ResourceARN", LONGEST_ARN)?;
        if input.objects("Tags")?.is_empty() {
            return Err(absent("Tags"));
        }
        let new = read(input)?;
        let tags = self.tags_of(arn)?;
        let mut union = tags.clone();
        union.extend(new);
        refuse_too_many(&union, arn)?;
        *tags = union;
        Ok(json!({}))
    }

    pub fn list_tags_for_resource(&mut self, input: Input<'_>) -> Checked<Value> {
        let tags = self.tags_of(input.text("ResourceARN", LONGEST_ARN)?)?;
        let tags: Vec<_> =
            tags.iter().map(|(key, value)| json!({"Key": key, "Value": value})).collect();
        Ok(json!({ "Tags": tags }))
    }

    /// The tags behind an ARN.
    /// Assumed (tags_by_id): an id in place of the ARN is InvalidInput.
    fn tags_of(&mut self, arn: &str) -> Checked<&mut BTreeMap<String, String>> {
        if !arn.starts_with("arn:") {
            return Err(ApiError::invalid(format!("'{arn}' is not an ARN")));
        }
        let tags = match (self.known_namespace(arn), self.known_service(arn)) {
            (Some(id), _) => self.namespaces.get_mut(id).map(|namespace| &mut namespace.tags),
            (_, Some(id)) => self.services.get_mut(id).map(|service| &mut service.tags),
            _ => None,
        };
        tags.ok_or_else(|| ApiError::missing("ResourceNotFoundException", arn))
    }
}
