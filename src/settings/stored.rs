//! Settings in Systems Manager's Parameter Store, since Lambda limits the environment to 4 KB: `ssm:/name` references
//! one parameter, `ssm:/path/` all parameters directly under a path. `parameter_store` reads their values; here they
//! replace the text of the variable.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The settings that may be in Parameter Store.
pub const STORABLE: [&str; 2] = ["CLUSTERS", "NAME_POLICY"];
pub(super) const SCHEME: &str = "ssm:";
/// The limit of a parameter's name with its path.
const MAX_NAME: usize = 1011;

/// A reference of a setting to Parameter Store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reference {
    Parameter(String),
    /// Every parameter directly under a path, which ends in `/`.
    Path(String),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Parameter {
    /// The name with its path.
    pub name: String,
    /// Decrypted.
    pub value: String,
}

/// The parameters of each reference.
pub type Parameters = BTreeMap<Reference, Vec<Parameter>>;

/// One of the texts of a setting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    /// The parameter that contains it; `None`: the variable itself.
    pub parameter: Option<&'a str>,
    pub text: &'a str,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parameter(name) => write!(f, "the parameter {name}"),
            Self::Path(path) => write!(f, "the parameters under {path}"),
        }
    }
}

impl Reference {
    /// The reference in a text; `None` if the text is the setting itself.
    ///
    /// # Errors
    /// Returns an error if the reference is malformed.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        let Some(name) = text.trim().strip_prefix(SCHEME) else { return Ok(None) };
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
        let whole = name.starts_with('/') && name.len() > 1 && !name.contains("//");
        if !whole || name.len() > MAX_NAME || !name.chars().all(allowed) {
            return Err(format!(
                "{text:?} is neither ssm:/NAME (one parameter) nor ssm:/PATH/ (all parameters directly under a path)"
            ));
        }
        let path = name.ends_with('/');
        Ok(Some(if path { Self::Path(name.to_owned()) } else { Self::Parameter(name.to_owned()) }))
    }
}

/// All references of the settings.
pub fn references(variable: impl Fn(&str) -> Option<String>) -> BTreeSet<Reference> {
    let texts = STORABLE.into_iter().filter_map(variable);
    texts.filter_map(|text| Reference::parse(&text).ok().flatten()).collect()
}

/// The texts of a setting: its own, or those of its parameters.
pub(super) fn texts<'a>(
    own: Option<&'a str>,
    parameters: &'a Parameters,
) -> Result<Vec<Text<'a>>, String> {
    let Some(text) = own else { return Ok(Vec::new()) };
    let Some(reference) = Reference::parse(text)? else {
        return Ok(vec![Text { parameter: None, text }]);
    };
    let found = parameters.get(&reference).map(Vec::as_slice).unwrap_or_default();
    if found.is_empty() {
        return Err(format!("Parameter Store does not have {reference}"));
    }
    let text = |it: &'a Parameter| Text { parameter: Some(&it.name), text: it.value.trim() };
    Ok(found.iter().map(text).collect())
}

impl Text<'_> {
    /// A problem of the text, with the name of its parameter.
    pub fn problem(&self, problem: &str) -> String {
        match self.parameter {
            Some(name) => format!("parameter {name}: {problem}"),
            None => problem.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_points_at_a_parameter_or_a_path() {
        let parameter = |name: &str| Ok(Some(Reference::Parameter(name.into())));
        let cases = [
            ("blue,green", Ok(None)),
            ("ssm:/clusters", parameter("/clusters")),
            (" ssm:/a/b.c_d-1 ", parameter("/a/b.c_d-1")),
            ("ssm:/a/clusters/", Ok(Some(Reference::Path("/a/clusters/".into())))),
        ];
        for (text, expected) in cases {
            assert_eq!(Reference::parse(text), expected, "{text}");
        }
        for text in ["ssm:", "ssm:/", "ssm:clusters", "ssm://a", "ssm:/a b", "ssm:/a,ssm:/b"] {
            let problem = Reference::parse(text).expect_err(text);
            assert!(problem.contains("ssm:/PATH/"), "{problem}");
        }
    }

    #[test]
    fn only_settings_that_may_be_long_are_looked_for_in_parameter_store() {
        let variable = |name: &str| match name {
            "CLUSTERS" => Some("ssm:/p/".to_owned()),
            "NAME_POLICY" => Some("[]".to_owned()),
            _ => Some("ssm:/never".to_owned()),
        };
        assert_eq!(references(variable), BTreeSet::from([Reference::Path("/p/".into())]));
    }
}
