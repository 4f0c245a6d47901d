//! The instances of a Cloud Map service with their attributes, the checks of their addresses, and the fingerprints in
//! ids and notes.
//!
//! A run holds the attributes of every instance at once, so they are packed: one allocation for each instance, and a
//! number in place of each key that this function writes. A process keeps the instances that it last read of every
//! service, and each cluster of an invocation plans on them. Copies share the attributes and the instances until one
//! copy is changed (copy-on-write).

use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::attributes;

/// The byte before a key that is spelled out. A lower byte is the index of a key in [`attributes::WRITTEN`].
const SPELLED: u8 = u8::MAX;

/// The attributes of one Cloud Map instance, by key.
///
/// Each entry is a key and its value. A key that this function writes is one byte, its index; any other key is a marker
/// byte and a text. A text is its length and its bytes. The entries are sorted by key, so equal attributes are equal
/// bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Attributes {
    packed: Arc<[u8]>,
    /// The offset of the value of [`attributes::CLUSTER`] in the packed bytes. `None` if there is no such key.
    cluster: Option<NonZeroUsize>,
}

impl Attributes {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        let mut entries = self.iter();
        // A plan calls this for every instance many times, so skipped entries are not checked to be UTF-8.
        while let Some((found, value)) = entries.entry() {
            if found == key.as_bytes() {
                return std::str::from_utf8(value).ok();
            }
        }
        None
    }

    /// Returns the mark of the cluster, by its stored offset: every plan of a cluster reads this mark on all instances
    /// of the registry.
    pub fn cluster(&self) -> Option<&str> {
        let mut entries = Iter { rest: self.packed.get(self.cluster?.get()..)? };
        std::str::from_utf8(entries.text()?).ok()
    }

    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub fn insert(&mut self, key: impl AsRef<str>, value: impl AsRef<str>) {
        self.extend([(key, value)]);
    }

    pub fn remove(&mut self, key: &str) {
        self.retain(|other, _| other != key);
    }

    /// Keeps the attributes for which `stays` is true.
    pub fn retain(&mut self, mut stays: impl FnMut(&str, &str) -> bool) {
        *self = self.iter().filter(|(key, value)| stays(key, value)).collect();
    }

    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
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
        Iter { rest: &self.packed }
    }
}

impl Default for Attributes {
    fn default() -> Self {
        Self { packed: Arc::new([]), cluster: None }
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
            number => attributes::WRITTEN.get(usize::from(number))?.as_bytes(),
        };
        Some((key, self.text()?))
    }

    /// Reads the bytes of a text after its length. Each byte of the length has seven bits, the lowest first.
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

/// The last value of a key takes precedence.
impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(attributes: I) -> Self {
        let all: Vec<(K, V)> = attributes.into_iter().collect();
        let mut sorted: Vec<(&str, &str)> =
            all.iter().map(|(key, value)| (key.as_ref(), value.as_ref())).collect();
        sorted.sort_by_key(|(key, _)| *key);
        let mut packed = Vec::with_capacity(sorted.iter().map(|(_, value)| value.len() + 2).sum());
        let mut cluster = None;
        for (index, (key, value)) in sorted.iter().enumerate() {
            if sorted.get(index + 1).is_some_and(|(next, _)| next == key) {
                continue;
            }
            let number =
                attributes::WRITTEN.iter().zip(0..SPELLED).find(|(written, _)| *written == key);
            packed.push(number.map_or(SPELLED, |(_, number)| number));
            if number.is_none() {
                push_text(&mut packed, key);
            }
            if *key == attributes::CLUSTER {
                cluster = NonZeroUsize::new(packed.len());
            }
            push_text(&mut packed, value);
        }
        Self { packed: packed.into(), cluster }
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

/// The attributes of each instance of a service, by the instance's id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instances(Arc<BTreeMap<String, Attributes>>);

impl Deref for Instances {
    type Target = BTreeMap<String, Attributes>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Instances {
    fn deref_mut(&mut self) -> &mut Self::Target {
        Arc::make_mut(&mut self.0)
    }
}

impl FromIterator<(String, Attributes)> for Instances {
    fn from_iter<I: IntoIterator<Item = (String, Attributes)>>(instances: I) -> Self {
        Self(Arc::new(BTreeMap::from_iter(instances)))
    }
}

impl<'a> IntoIterator for &'a Instances {
    type Item = (&'a String, &'a Attributes);
    type IntoIter = btree_map::Iter<'a, String, Attributes>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// A value that is read by a call of its own, with the outcome of that call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MaybeRead<T> {
    #[default]
    Unread,
    /// The error of the read.
    Unreadable(String),
    Read(T),
}

impl<T> MaybeRead<T> {
    /// The error if it could not be read.
    pub fn problem(&self) -> Option<&String> {
        if let Self::Unreadable(problem) = self { Some(problem) } else { None }
    }
}

/// Whether other hosts can use an address. Kubernetes allows some unusable addresses in an `EndpointSlice`, and any
/// client of Cloud Map can register one.
pub fn is_publishable(address: IpAddr) -> bool {
    let special = address.is_loopback() || address.is_multicast() || address.is_unspecified();
    let local = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.to_ipv4_mapped().is_some(),
    };
    !special && !local
}

/// Returns the address in a text with leading zeros, in decimal as kube-proxy reads it. Other programs read it in
/// octal.
pub fn without_leading_zeros(text: &str) -> Option<Ipv4Addr> {
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let octets = text.split('.').map(|part| part.parse().ok().filter(|_| digits(part)));
    let octets: [u8; 4] = octets.collect::<Option<Vec<u8>>>()?.try_into().ok()?;
    Some(octets.into())
}

/// Whether Cloud Map accepts the address in a service with a Route 53 health check, which calls each instance from the
/// internet. Cloud Map refuses at least 10.0.0.0/8 and 192.0.2.0/24; the other networks of RFC 1918 are as private. If
/// Cloud Map refuses another address, the registration fails.
pub fn is_checkable(address: Ipv4Addr) -> bool {
    !address.is_private() && !matches!(address.octets(), [192, 0, 2, _])
}

/// Returns the first `BYTES` bytes of a SHA-256 of the parts, in hexadecimal digits. Each part is hashed after its
/// length, so that `a/b` + `c` differs from `a` + `b/c`.
pub fn fingerprint<const BYTES: usize>(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let mut digits = String::with_capacity(2 * BYTES);
    for byte in &hash.finalize()[..BYTES] {
        for digit in [byte >> 4, byte & 15] {
            digits.extend(char::from_digit(u32::from(digit), 16));
        }
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::attributes::{IPV4, SCHEMA};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn key() -> impl Strategy<Value = String> {
        let written = prop::sample::select(attributes::WRITTEN).prop_map(str::to_owned);
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
            prop_assert_eq!(packed.cluster(), packed.get(attributes::CLUSTER));
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
        assert_eq!(attributes.packed.len(), 1 + 1 + 8 + 1 + 1 + 1);
        assert!(attributes::WRITTEN.len() < usize::from(SPELLED));
    }

    #[test]
    fn leading_zeros_are_left_out() {
        let meant = |text: &str| without_leading_zeros(text).map(|it| it.to_string());
        assert_eq!(meant("010.001.000.005").as_deref(), Some("10.1.0.5"));
        for text in ["", "10.1.0", "10.1.0.5.6", "10.1.0.256", "+10.1.0.5", "10..0.5", "fd00::1"] {
            assert_eq!(meant(text), None, "{text}");
        }
    }

    #[test]
    fn private_addresses_are_not_checkable() {
        let checkable = ["9.255.255.255", "11.0.0.0", "172.32.0.0", "100.64.0.1", "192.0.3.1"];
        let never = ["10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.9.9", "192.168.0.1"];
        let is_checkable = |text: &str| is_checkable(text.parse().expect("an address"));
        for text in checkable {
            assert!(is_checkable(text), "{text}");
        }
        for text in never.into_iter().chain(["192.0.2.0", "192.0.2.255"]) {
            assert!(!is_checkable(text), "{text}");
        }
    }

    #[test]
    fn an_address_that_means_something_else_on_each_host_is_not_published() {
        let published = ["10.0.1.5", "100.64.0.1", "169.253.255.255", "fd00::1", "2600:1f14::7"];
        let never = [
            "127.0.0.1",
            "127.8.8.8",
            "169.254.169.254",
            "224.0.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "::ffff:10.0.1.5",
        ];
        let is_published = |text: &str| is_publishable(text.parse().expect("an address"));
        for text in published {
            assert!(is_published(text), "{text}");
        }
        for text in never {
            assert!(!is_published(text), "{text}");
        }
    }
}
