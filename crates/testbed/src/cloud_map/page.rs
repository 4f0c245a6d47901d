//! Pages and filters of the List calls. As in the real service, a page is filtered after it was cut, so an empty page
//! can have a next token. A token contains its list and the last key of its page.
//!
//! Assumed (invented_token): a token that no list gave is InvalidInput.
//! Assumed (token_of_another_list): a token is good for its own list alone.

use super::error::ApiError;
use super::input::{Input, absent};

/// What a call asked for.
pub(super) struct Page {
    list: String,
    after: Option<String>,
    size: usize,
}

impl Page {
    /// Reads MaxResults and NextToken; `list` names the list, so that a token of another is refused.
    pub(super) fn read(input: Input<'_>, list: &str, limit: usize) -> Result<Self, ApiError> {
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
    pub(super) fn check_size(input: Input<'_>) -> Result<Option<usize>, ApiError> {
        let asked = input.integer("MaxResults", 1..=100)?;
        Ok(asked.and_then(|asked| usize::try_from(asked).ok()))
    }

    /// The page out of all items, which come in the order of their keys, and the token of the next one.
    pub(super) fn cut<K: AsRef<str>, T>(
        &self,
        items: impl Iterator<Item = (K, T)>,
    ) -> (Vec<T>, Option<String>) {
        let begun = |key: &K| self.after.as_deref().is_none_or(|after| key.as_ref() > after);
        let mut items = items.filter(|(key, _)| begun(key)).peekable();
        let (mut page, mut last) = (Vec::new(), None);
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
    let digit = |value: u8| char::from_digit(value.into(), 16).expect("four bits are a digit");
    format!("{list}\n{key}").bytes().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn key_of(token: &str, list: &str) -> Option<String> {
    let pairs = token
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
    let text = String::from_utf8(pairs.collect::<Option<_>>()?).ok()?;
    text.strip_prefix(list)?.strip_prefix('\n').map(str::to_owned)
}

/// One filter of a List call.
pub(super) struct Filter {
    pub(super) name: String,
    condition: String,
    pub(super) values: Vec<String>,
}

impl Filter {
    /// Reads the filters; `allowed` are their names with the conditions that each supports.
    pub(super) fn read(
        input: Input<'_>,
        allowed: &[(&str, &[&str])],
    ) -> Result<Vec<Self>, ApiError> {
        input
            .objects("Filters")?
            .into_iter()
            .map(|filter| Self::read_one(filter, allowed))
            .collect()
    }

    fn read_one(input: Input<'_>, allowed: &[(&str, &[&str])]) -> Result<Self, ApiError> {
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
    pub(super) fn passes(&self, text: &str) -> bool {
        match self.condition.as_str() {
            "BEGINS_WITH" => self.values.iter().any(|value| text.starts_with(value)),
            _ => self.values.iter().any(|value| value == text),
        }
    }
}
