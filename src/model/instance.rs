//! The attributes of one Cloud Map instance. An observation, its plan and its report contain the same thousands of
//! instances, so copies share their attributes until one is changed (copy-on-write).

use std::collections::{BTreeMap, btree_map};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// The attributes of one Cloud Map instance, by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attributes(Arc<BTreeMap<String, String>>);

impl Attributes {
    pub fn new() -> Self {
        Self::default()
    }
}

impl Deref for Attributes {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Attributes {
    fn deref_mut(&mut self) -> &mut Self::Target {
        Arc::make_mut(&mut self.0)
    }
}

impl<const N: usize> From<[(String, String); N]> for Attributes {
    fn from(attributes: [(String, String); N]) -> Self {
        attributes.into_iter().collect()
    }
}

impl FromIterator<(String, String)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(attributes: I) -> Self {
        Self(Arc::new(attributes.into_iter().collect()))
    }
}

impl Extend<(String, String)> for Attributes {
    fn extend<I: IntoIterator<Item = (String, String)>>(&mut self, attributes: I) {
        Arc::make_mut(&mut self.0).extend(attributes);
    }
}

impl IntoIterator for Attributes {
    type Item = (String, String);
    type IntoIter = btree_map::IntoIter<String, String>;

    fn into_iter(self) -> Self::IntoIter {
        Arc::unwrap_or_clone(self.0).into_iter()
    }
}

impl<'a> IntoIterator for &'a Attributes {
    type Item = (&'a String, &'a String);
    type IntoIter = btree_map::Iter<'a, String, String>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
