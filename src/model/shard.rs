//! A part of a cluster's Services. The hash of its name decides the part of a Service, so that every process divides a
//! cluster in the same way.

use std::fmt;

use super::ServiceRef;
use super::fingerprint::fingerprint;

/// One of `count` parts, in text form `0/4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    index: u8,
    count: u8,
}

impl Shard {
    pub const MOST: u8 = 64;

    /// All parts of a division into `count`.
    pub fn all(count: u8) -> impl Iterator<Item = Self> {
        (0..count).map(move |index| Self { index, count })
    }

    /// Parses the text form.
    pub fn parse(text: &str) -> Option<Self> {
        let (index, count) = text.split_once('/')?;
        let (index, count) = (index.parse().ok()?, count.parse().ok()?);
        (index < count && count <= Self::MOST).then_some(Self { index, count })
    }

    pub fn contains(self, service: &ServiceRef) -> bool {
        let hash = fingerprint::<2>(&[&service.namespace, &service.name]);
        let number = u16::from_str_radix(&hash, 16).unwrap_or_default();
        number % u16::from(self.count) == u16::from(self.index)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_belongs_to_one_part_of_about_the_same_size() {
        let services: Vec<_> =
            (0..1000).map(|index| ServiceRef::new("shop", format!("web-{index}"))).collect();
        let of = |shard: Shard| services.iter().filter(|service| shard.contains(service)).count();
        let sizes: Vec<usize> = Shard::all(4).map(of).collect();
        assert_eq!(sizes.iter().sum::<usize>(), 1000);
        assert!(sizes.iter().all(|size| (200..300).contains(size)), "{sizes:?}");
    }

    #[test]
    fn a_part_is_read_as_it_is_written_and_nothing_else_is() {
        for shard in Shard::all(Shard::MOST) {
            assert_eq!(Shard::parse(&shard.to_string()), Some(shard));
        }
        for text in ["", "1", "4/4", "0/0", "-1/4", "0/65", "1/2/3", "a/b", " 0/4"] {
            assert_eq!(Shard::parse(text), None, "{text:?}");
        }
    }
}
