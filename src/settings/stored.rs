//! Settings whose text is not in the environment, which ends at 4 KB, but in Systems Manager's Parameter
//! Store: `ssm:/name` is one parameter, `ssm:/path/` all that are directly under a path. What they say
//! is read elsewhere (`parameter_store`); here it takes the place of the variable's own text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The settings that may stand in Parameter Store.
pub const STORABLE: [&str; 2] = ["CLUSTERS", "NAME_POLICY"];
const SCHEME: &str = "ssm:";
/// A parameter's name with its path.
const LONGEST_NAME: usize = 1011;

/// What a setting points at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reference {
    /// One parameter, by its name.
    Parameter(String),
    /// Every parameter directly under a path, which ends in `/`.
    Path(String),
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Parameter {
    /// Its whole name.
    pub name: String,
    /// Its value, decrypted.
    pub value: String,
}

/// What Parameter Store says under each reference.
pub type Parameters = BTreeMap<Reference, Vec<Parameter>>;

/// A setting's text, or one of several.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    /// The parameter that holds it; none: the variable itself.
    pub parameter: Option<&'a str>,
    /// Without white space around it.
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
    /// What a setting's text points at; none where the text is the setting itself.
    ///
    /// # Errors
    /// Where it points at nothing that can be a parameter.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        let Some(name) = text.trim().strip_prefix(SCHEME) else { return Ok(None) };
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
        let whole = name.starts_with('/') && name.len() > 1 && !name.contains("//");
        if !whole || name.len() > LONGEST_NAME || !name.chars().all(allowed) {
            return Err(format!(
                "{text:?} is neither ssm:/NAME, a parameter, nor ssm:/PATH/, all directly under a path"
            ));
        }
        let path = name.ends_with('/');
        Ok(Some(if path { Self::Path(name.to_owned()) } else { Self::Parameter(name.to_owned()) }))
    }
}

/// Everything that the settings point at.
pub fn references(variable: impl Fn(&str) -> Option<String>) -> BTreeSet<Reference> {
    let texts = STORABLE.into_iter().filter_map(variable);
    texts.filter_map(|text| Reference::parse(&text).ok().flatten()).collect()
}

/// The texts of a setting: its own, or those that it points at.
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
        return Err(format!("Parameter Store has nothing as {reference}"));
    }
    let text = |it: &'a Parameter| Text { parameter: Some(&it.name), text: it.value.trim() };
    Ok(found.iter().map(text).collect())
}

impl Text<'_> {
    /// What is wrong with it, with the parameter where it stands in one.
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
