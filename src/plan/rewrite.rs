//! What is registered over an instance of ours, and how that differs from what stands there.

use std::collections::BTreeSet;

use super::Difference;
use crate::model::Attributes;
use crate::model::attributes::{self, AVAILABILITY_ZONE, INITIAL_HEALTH, REGION, SCHEMA};

/// Whether we set and repair an attribute. Anything else on an instance of ours somebody added.
fn is_managed(key: &str) -> bool {
    let aws = key.starts_with("AWS_") && key != INITIAL_HEALTH;
    aws || attributes::is_known_mark(key) || [AVAILABILITY_ZONE, REGION].contains(&key)
}

/// What to register: `RegisterInstance` replaces the whole map, so what others added is sent again.
pub fn carry_over(present: &Attributes, wanted: &Attributes) -> Attributes {
    let others = present.iter().filter(|(key, _)| !is_managed(key));
    let mut rewritten: Attributes =
        others.map(|(key, value)| (key.clone(), value.clone())).collect();
    rewritten.extend(wanted.clone());
    rewritten.insert(SCHEMA.to_owned(), attributes::schema_over(present.get(SCHEMA)));
    rewritten
}

/// The attributes that differ. The version of the marks alone is no difference.
pub fn differences(present: &Attributes, wanted: &Attributes) -> Vec<Difference> {
    let keys: BTreeSet<&String> = present.keys().chain(wanted.keys()).collect();
    let differing = keys.into_iter().filter(|key| *key != SCHEMA);
    differing
        .filter(|key| present.get(*key) != wanted.get(*key))
        .map(|key| Difference {
            attribute: key.clone(),
            present: present.get(key).cloned(),
            wanted: wanted.get(key).cloned(),
        })
        .collect()
}
