//! The members of a request's JSON body, read with the constraints of the service model. A member that breaks a
//! constraint is an InvalidInput that names it; one of the wrong JSON type is a SerializationException.
//!
//! Assumed (members_of_another_type): the name SerializationException, which other services of AWS have.
//! Assumed (input_is_checked_first): a request is checked before anything that it names is looked up.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::error::ApiError;

/// A JSON object whose members are asked for by name; `null` counts as absent.
#[derive(Clone, Copy)]
pub(super) struct Input<'a>(pub(super) &'a Map<String, Value>);

impl<'a> Input<'a> {
    fn member(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A string of at most `longest` characters.
    pub(super) fn optional_text(
        self,
        name: &str,
        longest: usize,
    ) -> Result<Option<&'a str>, ApiError> {
        let Some(value) = self.member(name) else {
            return Ok(None);
        };
        let text = value.as_str().ok_or_else(|| wrong_type(name))?;
        if text.chars().count() > longest {
            let constraint = format!("Member must have length less than or equal to {longest}");
            return Err(ApiError::constraint(name, text, &constraint));
        }
        Ok(Some(text))
    }

    /// A string that must be there.
    pub(super) fn text(self, name: &str, longest: usize) -> Result<&'a str, ApiError> {
        self.optional_text(name, longest)?.ok_or_else(|| absent(name))
    }

    /// One of the given words.
    pub(super) fn choice(self, name: &str, words: &[&str]) -> Result<Option<&'a str>, ApiError> {
        let Some(word) = self.optional_text(name, 1024)? else {
            return Ok(None);
        };
        if words.contains(&word) {
            return Ok(Some(word));
        }
        let constraint = format!("Member must satisfy enum value set: [{}]", words.join(", "));
        Err(ApiError::constraint(name, word, &constraint))
    }

    /// A whole number within bounds.
    pub(super) fn integer(
        self,
        name: &str,
        bounds: RangeInclusive<i64>,
    ) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.member(name) else {
            return Ok(None);
        };
        let number = value.as_i64().ok_or_else(|| wrong_type(name))?;
        let refuse =
            |constraint: String| Err(ApiError::constraint(name, &number.to_string(), &constraint));
        if number < *bounds.start() {
            return refuse(format!(
                "Member must have value greater than or equal to {}",
                bounds.start()
            ));
        }
        if number > *bounds.end() {
            return refuse(format!(
                "Member must have value less than or equal to {}",
                bounds.end()
            ));
        }
        Ok(Some(number))
    }

    /// A nested object.
    pub(super) fn object(self, name: &str) -> Result<Option<Input<'a>>, ApiError> {
        let Some(value) = self.member(name) else {
            return Ok(None);
        };
        value.as_object().map(|object| Some(Input(object))).ok_or_else(|| wrong_type(name))
    }

    /// A list of objects; an absent one is empty.
    pub(super) fn objects(self, name: &str) -> Result<Vec<Input<'a>>, ApiError> {
        self.list(name)?
            .unwrap_or_default()
            .iter()
            .map(|item| item.as_object().map(Input).ok_or_else(|| wrong_type(name)))
            .collect()
    }

    /// A list of strings.
    pub(super) fn texts(self, name: &str) -> Result<Option<Vec<&'a str>>, ApiError> {
        let Some(items) = self.list(name)? else {
            return Ok(None);
        };
        items
            .iter()
            .map(|item| item.as_str().ok_or_else(|| wrong_type(name)))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    fn list(self, name: &str) -> Result<Option<&'a [Value]>, ApiError> {
        let Some(value) = self.member(name) else {
            return Ok(None);
        };
        value.as_array().map(|items| Some(items.as_slice())).ok_or_else(|| wrong_type(name))
    }

    /// A map from strings to strings.
    pub(super) fn map(self, name: &str) -> Result<Option<BTreeMap<String, String>>, ApiError> {
        let Some(object) = self.object(name)? else {
            return Ok(None);
        };
        let pair = |(key, value): (&String, &Value)| {
            value
                .as_str()
                .map(|text| (key.clone(), text.to_owned()))
                .ok_or_else(|| wrong_type(name))
        };
        object.0.iter().map(pair).collect::<Result<_, _>>().map(Some)
    }
}

/// The error for a member that must be there and is not.
pub(super) fn absent(name: &str) -> ApiError {
    ApiError::constraint(name, "null", "Member must not be null")
}

fn wrong_type(name: &str) -> ApiError {
    ApiError::new(400, "SerializationException", format!("Member {name} has the wrong JSON type"))
}
