//! The attributes of one Cloud Map instance. A run holds those of every instance at once, so they are packed: one
//! allocation for each instance, and a number in place of each key that this function writes. Copies share it until one
//! is changed (copy-on-write).

use std::fmt;
use std::sync::Arc;

use super::attributes::WRITTEN;

/// Stands before a key that is spelled out. All lower numbers are places in [`WRITTEN`].
const SPELLED: u8 = u8::MAX;

/// The attributes of one Cloud Map instance, by key.
///
/// Each entry is the number of its key, or a sign and the key, and then the value. A text follows its length. The
/// entries are in the order of their keys, so equal attributes are equal bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Attributes(Arc<[u8]>);

impl Attributes {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        let mut entries = self.iter();
        // A plan asks this of every instance many times, so what is skipped is not checked to be UTF-8.
        while let Some((it, value)) = entries.entry() {
            if it == key.as_bytes() {
                return std::str::from_utf8(value).ok();
            }
        }
        None
    }

    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub fn insert(&mut self, key: impl AsRef<str>, value: impl AsRef<str>) {
        self.extend([(key, value)]);
    }

    pub fn remove(&mut self, key: &str) {
        self.retain(|it, _| it != key);
    }

    /// Keeps the attributes for which `stays` is true.
    pub fn retain(&mut self, mut stays: impl FnMut(&str, &str) -> bool) {
        *self = self.iter().filter(|(key, value)| stays(key, value)).collect();
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// The keys in their order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(key, _)| key)
    }

    /// The attributes in the order of their keys.
    pub fn iter(&self) -> Iter<'_> {
        Iter { rest: &self.0 }
    }
}

impl Default for Attributes {
    fn default() -> Self {
        Self(Arc::new([]))
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl PartialOrd for Attributes {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Attributes {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.iter().cmp(other)
    }
}

/// The attributes of an instance in the order of their keys.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    rest: &'a [u8],
}

impl<'a> Iter<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// The bytes of the next key and its value.
    fn entry(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let key = match self.byte()? {
            SPELLED => self.text()?,
            number => WRITTEN.get(usize::from(number))?.as_bytes(),
        };
        Some((key, self.text()?))
    }

    /// The bytes of a text after its length, of which each byte has seven bits, the lowest first.
    fn text(&mut self) -> Option<&'a [u8]> {
        let mut length = 0;
        for shift in (0..usize::BITS).step_by(7) {
            let byte = self.byte()?;
            length |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        let (text, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(text)
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.entry()?;
        Some((std::str::from_utf8(key).ok()?, std::str::from_utf8(value).ok()?))
    }
}

impl<'a> IntoIterator for &'a Attributes {
    type Item = (&'a str, &'a str);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<K: AsRef<str>, V: AsRef<str>, const N: usize> From<[(K, V); N]> for Attributes {
    fn from(attributes: [(K, V); N]) -> Self {
        attributes.into_iter().collect()
    }
}

/// Of several values of a key the last one counts.
impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(attributes: I) -> Self {
        let all: Vec<(K, V)> = attributes.into_iter().collect();
        let mut sorted: Vec<(&str, &str)> =
            all.iter().map(|(key, value)| (key.as_ref(), value.as_ref())).collect();
        sorted.sort_by_key(|(key, _)| *key);
        let mut packed = Vec::with_capacity(sorted.iter().map(|(_, it)| it.len() + 2).sum());
        for (index, (key, value)) in sorted.iter().enumerate() {
            if sorted.get(index + 1).is_some_and(|(next, _)| next == key) {
                continue;
            }
            let number = WRITTEN.iter().zip(0..SPELLED).find(|(written, _)| *written == key);
            packed.push(number.map_or(SPELLED, |(_, number)| number));
            if number.is_none() {
                push_text(&mut packed, key);
            }
            push_text(&mut packed, value);
        }
        Self(packed.into())
    }
}

impl<K: AsRef<str>, V: AsRef<str>> Extend<(K, V)> for Attributes {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, attributes: I) {
        let added: Vec<(K, V)> = attributes.into_iter().collect();
        if !added.is_empty() {
            let added = added.iter().map(|(key, value)| (key.as_ref(), value.as_ref()));
            *self = self.iter().chain(added).collect();
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "seven bits of the length")]
fn push_text(packed: &mut Vec<u8>, text: &str) {
    let mut length = text.len();
    while length >= 0x80 {
        packed.push(length as u8 | 0x80);
        length >>= 7;
    }
    packed.push(length as u8);
    packed.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::model::attributes::{IPV4, SCHEMA};

    fn key() -> impl Strategy<Value = String> {
        let written = prop::sample::select(WRITTEN).prop_map(str::to_owned);
        prop_oneof![written, "[a-e]{0,2}", ".{0,3}"]
    }

    proptest! {
        /// The attributes are a map of texts, whatever the keys and the values.
        #[test]
        fn attributes_are_a_map(
            pairs in prop::collection::vec((key(), ".{0,3}|[x-z]{120,140}"), 0..12),
            others in prop::collection::vec((key(), "[ab]"), 0..4),
            removed in key(),
        ) {
            let mut map: BTreeMap<String, String> = pairs.iter().cloned().collect();
            let mut packed: Attributes = pairs.into_iter().collect();
            let other: BTreeMap<String, String> = others.iter().cloned().collect();
            prop_assert_eq!(packed.cmp(&others.iter().cloned().collect()), map.cmp(&other));
            packed.extend(others.clone());
            map.extend(others);
            let before = packed.clone();
            packed.remove(&removed);
            map.remove(&removed);
            prop_assert_eq!(packed == before, !before.contains_key(&removed));
            let texts = map.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            prop_assert_eq!(packed.iter().collect::<Vec<_>>(), texts.collect::<Vec<_>>());
            prop_assert_eq!((packed.len(), packed.is_empty()), (map.len(), map.is_empty()));
            for (key, value) in &map {
                prop_assert_eq!(packed.get(key), Some(value.as_str()));
            }
        }
    }

    #[test]
    fn texts_of_every_length_are_kept() {
        for length in [0, 127, 128, 16_383, 16_384, 100_000] {
            let text = "x".repeat(length);
            let attributes = Attributes::from([(&text, "a"), (&format!("{text}y"), &text)]);
            assert_eq!(attributes.get(&text), Some("a"), "{length}");
            assert_eq!(attributes.get(&format!("{text}y")), Some(text.as_str()), "{length}");
        }
    }

    #[test]
    fn keys_that_this_function_writes_take_one_byte_each() {
        let attributes = Attributes::from([(IPV4, "10.0.0.1"), (SCHEMA, "1")]);
        assert_eq!(attributes.0.len(), 1 + 1 + 8 + 1 + 1 + 1);
        assert!(WRITTEN.len() < usize::from(SPELLED));
    }
}
