//! The attributes for registering an instance of ours again, and Cloud Map's limits for them.

use super::health;
use crate::clusterset::attributes::is_written;
use crate::model::attributes::{
    self, ANNOTATED, AVAILABILITY_ZONE, INITIAL_HEALTH, REGION, SCHEMA,
};
use crate::model::{Attributes, Flow, Health};

/// Whether we set and repair an attribute of an instance of ours. A mark lists the attributes from annotations. All other
/// attributes were added by hand.
fn is_managed(key: &str, present: &Attributes) -> bool {
    let aws = key.starts_with("AWS_") && key != INITIAL_HEALTH;
    let annotated = present.get(ANNOTATED).is_some_and(|keys| keys.split(',').any(|it| it == key));
    let exported = Flow::Exports.is_of(present) && is_written(key);
    let place = [AVAILABILITY_ZONE, REGION].contains(&key);
    aws || annotated || exported || place || attributes::is_known_mark(key)
}

/// The attributes to register. `RegisterInstance` replaces the whole map, so attributes added by hand are sent again.
pub fn carry_over(present: &Attributes, wanted: &Attributes) -> Attributes {
    let others = present.iter().filter(|(key, _)| !is_managed(key, present));
    let mut rewritten: Attributes = others.collect();
    // A registration resets the health, and a registered instance without health reports is ready.
    health::set_initial(&mut rewritten, Health::Healthy);
    rewritten.extend(wanted);
    rewritten.insert(SCHEMA, attributes::schema_over(present.get(SCHEMA)));
    rewritten
}

/// The limit of Cloud Map that the attributes exceed: 30 custom attributes, 5,000 characters in all.
pub fn beyond_limits(attributes: &Attributes) -> Option<String> {
    let own = attributes.keys().filter(|key| !key.starts_with("AWS_")).count();
    let size: usize = attributes.iter().map(|(key, value)| key.len() + value.len()).sum();
    match (own > 30, size > 5000) {
        (true, _) => Some(format!("{own} attributes, and Cloud Map allows 30")),
        (_, true) => Some(format!("{size} characters of attributes, and Cloud Map allows 5,000")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_from_annotations_go_with_them_and_others_stay() {
        let of = |keys: &[(&str, &str)]| -> Attributes {
            keys.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let present = of(&[("a", "1"), ("b", "2"), ("by-hand", "3"), (ANNOTATED, "a,b")]);
        let again = carry_over(&present, &of(&[("b", "4"), (ANNOTATED, "b")]));
        let found = ["a", "b", "by-hand", ANNOTATED].map(|key| again.get(key));
        assert_eq!(found, [None, Some("4"), Some("3"), Some("b")]);
    }

    #[test]
    fn cloud_map_takes_30_attributes_beside_its_own_and_5000_characters() {
        let own = |index| (format!("key-{index:02}"), "x".to_owned());
        let with_own = |count| {
            let aws = ("AWS_INSTANCE_IPV4".to_owned(), "10.0.0.1".to_owned());
            (0..count).map(own).chain([aws]).collect::<Attributes>()
        };
        assert_eq!(beyond_limits(&with_own(30)), None);
        let too_many = "31 attributes, and Cloud Map allows 30";
        assert_eq!(beyond_limits(&with_own(31)).as_deref(), Some(too_many));
        let of_size = |size: usize| Attributes::from([("key".to_owned(), "x".repeat(size - 3))]);
        assert_eq!(beyond_limits(&of_size(5000)), None);
        let too_long = "5001 characters of attributes, and Cloud Map allows 5,000";
        assert_eq!(beyond_limits(&of_size(5001)).as_deref(), Some(too_long));
    }
}
