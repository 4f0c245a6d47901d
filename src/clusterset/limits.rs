//! Cloud Map's limits for the attributes of an instance, for tests (`RegisterInstance` in the API reference).

use crate::model::Attributes;
use crate::model::attributes::is_of_aws;

/// # Panics
/// Panics if Cloud Map would refuse the attributes, or if a value ends with white space. Cloud Map accepts such a
/// value, but the function never writes one.
pub fn assert_accepted(attributes: &Attributes) {
    let is_graphic = |byte: &u8| (b'!'..=b'~').contains(byte);
    for (key, value) in attributes {
        assert!((1..=255).contains(&key.len()), "{key}");
        assert!(!is_of_aws(key) || key.starts_with("AWS_"), "{key}");
        assert!(key.as_bytes().iter().all(is_graphic), "{key}");
        assert!(value.len() <= 1024, "{key} has {}", value.len());
        let inner = |byte: &u8| is_graphic(byte) || matches!(byte, b' ' | b'\t');
        assert!(value.as_bytes().iter().all(inner), "{key}={value}");
        let ends = [value.as_bytes().first(), value.as_bytes().last()];
        assert!(ends.into_iter().flatten().all(is_graphic), "{key}={value}");
    }
    let own = attributes.keys().filter(|key| !key.starts_with("AWS_")).count();
    assert!(own <= 30, "{own} attributes");
    let size: usize = attributes.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert!(size <= 5000, "{size} characters");
}
