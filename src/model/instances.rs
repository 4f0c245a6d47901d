//! The instances of one Cloud Map service. A process keeps those that it last read of every service, and each cluster of
//! an invocation plans on them: copies share them until one is changed (copy-on-write).

use std::collections::{BTreeMap, btree_map};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::Attributes;

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

impl From<BTreeMap<String, Attributes>> for Instances {
    fn from(instances: BTreeMap<String, Attributes>) -> Self {
        Self(Arc::new(instances))
    }
}

impl FromIterator<(String, Attributes)> for Instances {
    fn from_iter<I: IntoIterator<Item = (String, Attributes)>>(instances: I) -> Self {
        BTreeMap::from_iter(instances).into()
    }
}

impl<'a> IntoIterator for &'a Instances {
    type Item = (&'a String, &'a Attributes);
    type IntoIter = btree_map::Iter<'a, String, Attributes>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
