//! The verb `admission`: prints the policy by which an API server refuses a Service with a wrong annotation
//! (`deploy/admission.yaml`), for another prefix of the annotations, or as a warning.

use crate::arguments::Admission;

/// The file for the default prefix.
const POLICY: &str = include_str!("../../../deploy/admission.yaml");
const PREFIX: &str = "cloudmap.controller/";

/// The policy for these arguments.
pub fn policy(arguments: &Admission) -> String {
    // The usage in its head stays as it is.
    let (head, objects) = POLICY.split_once("\napiVersion").unwrap_or_default();
    let mut objects = objects.replace(PREFIX, &arguments.prefix);
    if arguments.warn {
        objects = objects.replace("validationActions: [Deny]", "validationActions: [Warn]");
    }
    format!("{head}\napiVersion{objects}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(prefix: &str, warn: bool) -> String {
        policy(&Admission { prefix: prefix.to_owned(), warn })
    }

    #[test]
    fn default_prefix_is_that_of_the_file() {
        assert_eq!(printed(PREFIX, false), POLICY);
    }

    #[test]
    fn another_prefix_stands_in_every_expression() {
        let other = printed("discovery.example.com/", true);
        let (_, objects) = other.split_once("\napiVersion").expect("objects");
        assert!(!objects.contains("cloudmap.controller"));
        assert!(
            objects.contains("'discovery.example.com/hostname' in object.metadata.annotations")
        );
        assert!(objects.contains("validationActions: [Warn]") && !objects.contains("[Deny]"));
    }
}
