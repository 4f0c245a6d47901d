//! The attributes of an instance that differ: the registered and the wanted attributes are compared, and each
//! difference has both values.

use std::collections::BTreeSet;
use std::fmt;

use crate::model::Attributes;
use crate::model::attributes::{INITIAL_HEALTH, SCHEMA};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub attribute: String,
    /// The registered value.
    pub present: Option<String>,
    /// The value that it should have.
    pub wanted: Option<String>,
}

impl Difference {
    /// The attributes that differ. The version in the marks and the initial health are not compared.
    pub fn between(present: &Attributes, wanted: &Attributes) -> Vec<Self> {
        let keys: BTreeSet<&str> = present.keys().chain(wanted.keys()).collect();
        let differing = keys.into_iter().filter(|key| *key != SCHEMA && *key != INITIAL_HEALTH);
        differing
            .filter(|key| present.get(key) != wanted.get(key))
            .map(|key| Self {
                attribute: key.to_owned(),
                present: present.get(key).map(str::to_owned),
                wanted: wanted.get(key).map(str::to_owned),
            })
            .collect()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        write!(f, "{} {} -> {}", self.attribute, text(&self.present), text(&self.wanted))
    }
}
