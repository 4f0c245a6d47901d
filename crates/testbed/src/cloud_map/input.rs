//! The members of a request's JSON body, read with the constraints of the service model. A member that breaks a
//! constraint is an InvalidInput that names it; one of the wrong JSON type is a SerializationException.
//!
//! Assumed (members_of_another_type): the name SerializationException, which other services of AWS have.
//! Assumed (input_is_checked_first): a request is checked before anything that it names is looked up.
//!
//! Pages and filters of the List calls. As in the real service, a page is filtered after it was cut, so an empty page
//! can have a next token. A token contains its list and the last key of its page.
//!
//! Assumed (invented_token): a token that no list gave is InvalidInput.
//! Assumed (token_of_another_list): a token is good for its own list alone.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::wire::{ApiError, Checked};

/// A JSON object whose members are asked for by name; `null` counts as absent.
#[derive(Clone, Copy)]
pub struct Input<'a>(pub &'a Map<String, Value>);

impl<'a> Input<'a> {
    fn member(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A string of at most `longest` characters.
    pub fn optional_text(self, name: &str, longest: usize) -> Checked<Option<&'a str>> {
        let Some(value) = self.member(name) else { return Ok(None) };
        let text = value.as_str().ok_or_else(|| wrong_type(name))?;
        if text.chars().count() > longest {
            let constraint = format!("Member must have length less than or equal to {longest}");
            return Err(ApiError::constraint(name, text, &constraint));
        }
        Ok(Some(text))
    }

    /// A string that must be there.
    pub fn text(self, name: &str, longest: usize) -> Checked<&'a str> {
        self.optional_text(name, longest)?.ok_or_else(|| absent(name))
    }

    /// One of the given words.
    pub fn choice(self, name: &str, words: &[&str]) -> Checked<Option<&'a str>> {
        let Some(word) = self.optional_text(name, 1024)? else { return Ok(None) };
        if words.contains(&word) {
            return Ok(Some(word));
        }
        let constraint = format!("Member must satisfy enum value set: [{}]", words.join(", "));
        Err(ApiError::constraint(name, word, &constraint))
    }

    /// A whole number within bounds.
    pub fn integer(self, name: &str, bounds: RangeInclusive<i64>) -> Checked<Option<i64>> {
        let Some(value) = self.member(name) else { return Ok(None) };
        let number = value.as_i64().ok_or_else(|| wrong_type(name))?;
        let (least, most) = bounds.into_inner();
        let bound = match number {
            number if number < least => format!("greater than or equal to {least}"),
            number if number > most => format!("less than or equal to {most}"),
            _ => return Ok(Some(number)),
        };
        let constraint = format!("Member must have value {bound}");
        Err(ApiError::constraint(name, &number.to_string(), &constraint))
    }

    /// A nested object.
    pub fn object(self, name: &str) -> Checked<Option<Input<'a>>> {
        let Some(value) = self.member(name) else { return Ok(None) };
        value.as_object().map(|object| Some(Input(object))).ok_or_else(|| wrong_type(name))
    }

    /// A list of objects; an absent one is empty.
    pub fn objects(self, name: &str) -> Checked<Vec<Input<'a>>> {
        self.list(name)?
            .unwrap_or_default()
            .iter()
            .map(|item| item.as_object().map(Input).ok_or_else(|| wrong_type(name)))
            .collect()
    }

    /// A list of strings.
    pub fn texts(self, name: &str) -> Checked<Option<Vec<&'a str>>> {
        let Some(items) = self.list(name)? else { return Ok(None) };
        items
            .iter()
            .map(|item| item.as_str().ok_or_else(|| wrong_type(name)))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    fn list(self, name: &str) -> Checked<Option<&'a [Value]>> {
        let Some(value) = self.member(name) else { return Ok(None) };
        value.as_array().map(|items| Some(items.as_slice())).ok_or_else(|| wrong_type(name))
    }

    /// A map from strings to strings.
    pub fn map(self, name: &str) -> Checked<Option<BTreeMap<String, String>>> {
        let Some(object) = self.object(name)? else { return Ok(None) };
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
pub fn absent(name: &str) -> ApiError {
    ApiError::constraint(name, "null", "Member must not be null")
}

fn wrong_type(name: &str) -> ApiError {
    ApiError::new(400, "SerializationException", format!("Member {name} has the wrong JSON type"))
}

/// What a call asked for.
pub struct Page {
    list: String,
    after: Option<String>,
    size: usize,
}

impl Page {
    /// Reads MaxResults and NextToken; `list` names the list, so that a token of another is refused.
    pub fn read(input: Input<'_>, list: &str, limit: usize) -> Checked<Self> {
        let asked = Self::check_size(input)?.unwrap_or(100);
        let after = match input.optional_text("NextToken", 4096)? {
            Some(token) => Some(
                key_of(token, list)
                    .ok_or_else(|| ApiError::invalid("The NextToken is not valid"))?,
            ),
            None => None,
        };
        Ok(Self { list: list.to_owned(), after, size: asked.min(limit) })
    }

    /// Refuses a size that no page can have, before the thing is looked up whose list it is.
    pub fn check_size(input: Input<'_>) -> Checked<Option<usize>> {
        let asked = input.integer("MaxResults", 1..=100)?;
        Ok(asked.and_then(|asked| usize::try_from(asked).ok()))
    }

    /// The page out of all items, which come in the order of their keys, and the token of the next one.
    pub fn cut<K: AsRef<str>, T>(
        &self,
        items: impl Iterator<Item = (K, T)>,
    ) -> (Vec<T>, Option<String>) {
        let begun = |key: &K| self.after.as_deref().is_none_or(|after| key.as_ref() > after);
        let mut items = items.filter(|(key, _)| begun(key)).peekable();
        let mut page = Vec::new();
        let mut last = None;
        while page.len() < self.size
            && let Some((key, item)) = items.next()
        {
            page.push(item);
            last = Some(key);
        }
        let more = items.peek().is_some();
        (page, last.filter(|_| more).map(|key| token(&self.list, key.as_ref())))
    }
}

fn token(list: &str, key: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{list}\n{key}"))
}

fn key_of(token: &str, list: &str) -> Option<String> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    text.strip_prefix(list)?.strip_prefix('\n').map(str::to_owned)
}

/// One filter of a List call.
pub struct Filter {
    pub name: String,
    condition: String,
    pub values: Vec<String>,
}

impl Filter {
    /// Reads the filters; `allowed` are their names with the conditions that each supports.
    pub fn read(input: Input<'_>, allowed: &[(&str, &[&str])]) -> Checked<Vec<Self>> {
        input
            .objects("Filters")?
            .into_iter()
            .map(|filter| Self::read_one(filter, allowed))
            .collect()
    }

    fn read_one(input: Input<'_>, allowed: &[(&str, &[&str])]) -> Checked<Self> {
        let names: Vec<&str> = allowed.iter().map(|(name, _)| *name).collect();
        let name = input.choice("Name", &names)?.ok_or_else(|| absent("Name"))?;
        let conditions = allowed
            .iter()
            .find(|(allowed, _)| *allowed == name)
            .map_or(&[][..], |(_, conditions)| conditions);
        let condition = input.choice("Condition", &["EQ", "IN", "BETWEEN", "BEGINS_WITH"])?;
        let condition = condition.or(conditions.first().copied()).unwrap_or("EQ");
        if !conditions.contains(&condition) {
            return Err(ApiError::invalid(format!(
                "The condition {condition} is not supported for the filter {name}"
            )));
        }
        let values = input.texts("Values")?.ok_or_else(|| absent("Values"))?;
        let fits = if condition == "IN" { !values.is_empty() } else { values.len() == 1 };
        if !fits || values.iter().any(|value| value.is_empty() || value.len() > 255) {
            return Err(ApiError::invalid(format!(
                "The values of the filter {name} do not fit the condition {condition}"
            )));
        }
        let values = values.into_iter().map(str::to_owned).collect();
        Ok(Self { name: name.to_owned(), condition: condition.to_owned(), values })
    }

    /// Whether a text passes.
    pub fn passes(&self, text: &str) -> bool {
        match self.condition.as_str() {
            "BEGINS_WITH" => self.values.iter().any(|value| text.starts_with(value)),
            _ => self.values.iter().any(|value| value == text),
        }
    }
}
