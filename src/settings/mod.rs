//! The function's own settings: environment variables, read once at cold start into one typed value.
//! All mistakes are reported together, each with the variable's name, what was wrong and an example.
//! This is the only reader of these variables; `AWS_*` are read by the SDK and the Lambda runtime.

mod clusters;

use std::fmt;

use crate::model::NamespaceReference;
use crate::plan::Policy;

pub use clusters::{Cluster, Role};

/// Everything an installation can set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `CLUSTERS`: the EKS clusters to keep in step, at least one.
    pub clusters: Vec<Cluster>,
    /// `CLOUD_MAP_NAMESPACES`: the Cloud Map namespaces to look at; empty: all that are visible.
    pub cloud_map_namespaces: Vec<NamespaceReference>,
    /// `OWNER_ID`: the mark of this installation's instances.
    pub owner_id: String,
    /// `ANNOTATION_PREFIX`: what the annotations on Services begin with, `/` included.
    pub annotation_prefix: String,
    /// `POLICY`: what the function may change.
    pub policy: Policy,
    /// `DRY_RUN`: plan and report, write nothing.
    pub dry_run: bool,
}

/// One environment variable that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The variable's name.
    pub variable: &'static str,
    /// What is wrong with its value.
    pub problem: String,
    /// A value that would be right.
    pub example: &'static str,
}

/// Every mistake in the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mistakes(pub Vec<Mistake>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        write!(f, "{count} mistake{} in the settings", if count == 1 { "" } else { "s" })?;
        for Mistake { variable, problem, example } in &self.0 {
            write!(f, "; {variable}: {problem} (example: {variable}={example})")?;
        }
        Ok(())
    }
}

/// One setting as the documentation lists it.
#[derive(Clone, Copy, Debug)]
pub struct Documented {
    /// The environment variable.
    pub variable: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// What holds where it is not set.
    pub default: &'static str,
    /// A value that is right.
    pub example: &'static str,
}

/// Every setting, in the order of the documentation. Messages take their examples from here.
pub const DOCUMENTED: [Documented; 6] = [
    Documented {
        variable: "CLUSTERS",
        meaning: "EKS clusters to keep in step: names or ARNs separated by commas, or a JSON list \
                  of names, ARNs and objects `{cluster, roleArn?, externalId?, registryRoleArn?, \
                  registryRegion?, defaultNamespace?}`",
        default: "required",
        example: "blue,green",
    },
    Documented {
        variable: "CLOUD_MAP_NAMESPACES",
        meaning: "Cloud Map namespaces to look at, by name, id or ARN, separated by commas",
        default: "all that are visible",
        example: "prod.local,ns-abcdefghijklmnop",
    },
    Documented {
        variable: "OWNER_ID",
        meaning: "the mark of this installation's instances; two installations need different ones",
        default: "`cloud-map-sync`",
        example: "team-a",
    },
    Documented {
        variable: "ANNOTATION_PREFIX",
        meaning: "what the annotations on Services begin with",
        default: "`cloudmap.controller/`",
        example: "discovery.example.com/",
    },
    Documented {
        variable: "POLICY",
        meaning: "`sync`: everything; `upsert-only`: never ends a claim's instances; \
                  `create-only`: never rewrites or deregisters",
        default: "`sync`",
        example: "upsert-only",
    },
    Documented {
        variable: "DRY_RUN",
        meaning: "`true`: plan and report, write nothing",
        default: "`false`",
        example: "true",
    },
];

impl Settings {
    /// Reads the settings through `variable`, which answers with an environment variable's value.
    /// `region` is the function's own, for clusters named without one.
    ///
    /// # Errors
    /// With every mistake at once.
    pub fn read(
        variable: impl Fn(&str) -> Option<String>,
        region: Option<&str>,
    ) -> Result<Self, Mistakes> {
        let mut reader = Reader { variable, mistakes: Vec::new() };
        let settings = Self {
            clusters: reader.read("CLUSTERS", |text| clusters::parse(text, region)),
            cloud_map_namespaces: reader.read("CLOUD_MAP_NAMESPACES", namespaces),
            owner_id: reader.read("OWNER_ID", owner_id),
            annotation_prefix: reader.read("ANNOTATION_PREFIX", annotation_prefix),
            policy: reader.read("POLICY", policy),
            dry_run: reader.read("DRY_RUN", boolean),
        };
        if reader.mistakes.is_empty() { Ok(settings) } else { Err(Mistakes(reader.mistakes)) }
    }
}

/// Reads one variable after another and keeps the mistakes.
struct Reader<F> {
    variable: F,
    mistakes: Vec<Mistake>,
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// A variable that is set to white space counts as not set: templates pass empty parameters on.
    fn read<T: Default>(
        &mut self,
        variable: &'static str,
        parse: impl Fn(Option<&str>) -> Result<T, String>,
    ) -> T {
        let text = (self.variable)(variable);
        let text = text.as_deref().map(str::trim).filter(|text| !text.is_empty());
        parse(text).unwrap_or_else(|problem| {
            let documented = DOCUMENTED.iter().find(|setting| setting.variable == variable);
            let example = documented.map_or("", |setting| setting.example);
            self.mistakes.push(Mistake { variable, problem, example });
            T::default()
        })
    }
}

fn namespaces(text: Option<&str>) -> Result<Vec<NamespaceReference>, String> {
    let items = text.unwrap_or_default().split(',').map(str::trim).filter(|item| !item.is_empty());
    items
        .map(|item| {
            let problem = || format!("{item:?} is no name, id or ARN of a Cloud Map namespace");
            NamespaceReference::parse(item).ok_or_else(problem)
        })
        .collect()
}

/// The id becomes an attribute's value and a tag's value: printable ASCII, at most 256 characters.
fn owner_id(text: Option<&str>) -> Result<String, String> {
    let text = text.unwrap_or("cloud-map-sync");
    let printable = text.bytes().all(|byte| (b'!'..=b'~').contains(&byte));
    if printable && text.len() <= 256 {
        Ok(text.to_owned())
    } else {
        Err("it must be 1 to 256 printable ASCII characters without spaces".to_owned())
    }
}

/// The prefix must be one that Kubernetes accepts in a key: a DNS subdomain and `/`.
fn annotation_prefix(text: Option<&str>) -> Result<String, String> {
    let text = text.unwrap_or("cloudmap.controller/");
    let domain = text.strip_suffix('/').unwrap_or(text);
    let label = |label: &str| {
        let inner = label.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        !label.is_empty() && inner && !label.starts_with('-') && !label.ends_with('-')
    };
    if domain.len() <= 253 && domain.split('.').all(label) {
        Ok(format!("{domain}/"))
    } else {
        Err(format!("{text:?} is no lower-case DNS name with a '/' after it"))
    }
}

fn policy(text: Option<&str>) -> Result<Policy, String> {
    let Some(text) = text else {
        return Ok(Policy::default());
    };
    let found = Policy::ALL.into_iter().find(|policy| policy.to_string() == text);
    found.ok_or_else(|| format!("{text:?} is none of sync, upsert-only, create-only"))
}

fn boolean(text: Option<&str>) -> Result<bool, String> {
    match text {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => Err(format!("{other:?} is neither true nor false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, Mistakes> {
        let find = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Settings::read(find, Some("eu-central-1"))
    }

    #[test]
    fn only_the_clusters_are_required() {
        let settings = read(&[("CLUSTERS", "blue"), ("POLICY", " ")]).expect("valid");
        assert_eq!(settings.owner_id, "cloud-map-sync");
        assert_eq!(settings.annotation_prefix, "cloudmap.controller/");
        assert_eq!(settings.policy, Policy::Sync);
        assert!(!settings.dry_run && settings.cloud_map_namespaces.is_empty());
    }

    #[test]
    fn every_setting_is_read() {
        let settings = read(&[
            ("CLUSTERS", "blue, green"),
            ("CLOUD_MAP_NAMESPACES", "prod.local, ns-1"),
            ("OWNER_ID", "team-a"),
            ("ANNOTATION_PREFIX", "discovery.example.com"),
            ("POLICY", "create-only"),
            ("DRY_RUN", "true"),
        ]);
        let settings = settings.expect("valid");
        assert_eq!(settings.clusters.len(), 2);
        assert_eq!(settings.cloud_map_namespaces.len(), 2);
        assert_eq!(settings.annotation_prefix, "discovery.example.com/");
        assert_eq!((settings.owner_id.as_str(), settings.policy), ("team-a", Policy::CreateOnly));
        assert!(settings.dry_run);
    }

    #[test]
    fn all_mistakes_are_reported_together_with_examples() {
        let mistakes = read(&[
            ("CLOUD_MAP_NAMESPACES", "a b"),
            ("OWNER_ID", "two words"),
            ("ANNOTATION_PREFIX", "Upper/"),
            ("POLICY", "delete"),
            ("DRY_RUN", "yes"),
        ]);
        let text = mistakes.expect_err("all are wrong").to_string().replace("; ", "\n");
        insta::assert_snapshot!(text, @r#"
        6 mistakes in the settings
        CLUSTERS: it is not set, and there is nothing to keep in step without it (example: CLUSTERS=blue,green)
        CLOUD_MAP_NAMESPACES: "a b" is no name, id or ARN of a Cloud Map namespace (example: CLOUD_MAP_NAMESPACES=prod.local,ns-abcdefghijklmnop)
        OWNER_ID: it must be 1 to 256 printable ASCII characters without spaces (example: OWNER_ID=team-a)
        ANNOTATION_PREFIX: "Upper/" is no lower-case DNS name with a '/' after it (example: ANNOTATION_PREFIX=discovery.example.com/)
        POLICY: "delete" is none of sync, upsert-only, create-only (example: POLICY=upsert-only)
        DRY_RUN: "yes" is neither true nor false (example: DRY_RUN=true)
        "#);
    }

    #[test]
    fn every_documented_example_is_accepted() {
        for setting in DOCUMENTED {
            let variables = [("CLUSTERS", "blue"), (setting.variable, setting.example)];
            let start = usize::from(setting.variable == "CLUSTERS");
            read(&variables[start..]).expect(setting.variable);
        }
    }
}
