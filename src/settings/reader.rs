//! Parses environment variables one by one into typed values, and collects the mistakes.

use std::fmt;

use super::Documented;
use super::documented::RETIRED;
use crate::error::{printable, shorten_to};

/// The most characters of one problem: some repeat the value.
const LONGEST_PROBLEM: usize = 1_000;

/// An invalid environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    pub variable: &'static str,
    pub problem: String,
    /// A valid value.
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

pub struct Reader<F> {
    variable: F,
    documented: &'static [Documented],
    mistakes: Vec<Mistake>,
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// `variable` returns an environment variable; `documented` has the examples for mistakes.
    pub fn new(variable: F, documented: &'static [Documented]) -> Self {
        Self { variable, documented, mistakes: Vec::new() }
    }

    /// A variable with white space only is not set: templates pass empty parameters on.
    pub fn read<T: Default>(
        &mut self,
        variable: &'static str,
        parse: impl Fn(Option<&str>) -> Result<T, String>,
    ) -> T {
        let text = (self.variable)(variable);
        let text = text.as_deref().map(str::trim).filter(|text| !text.is_empty());
        parse(text).unwrap_or_else(|problem| {
            let documented = self.documented.iter().find(|setting| setting.variable == variable);
            let example = documented.map_or("", |setting| setting.example);
            let problem = shorten_to(&printable(&problem), LONGEST_PROBLEM);
            self.mistakes.push(Mistake { variable, problem, example });
            T::default()
        })
    }

    /// A warning for each setting of an earlier release that is still set.
    pub fn find_retired(&self) -> Vec<String> {
        let is_set = |name: &str| (self.variable)(name).is_some_and(|text| !text.trim().is_empty());
        let set = RETIRED.iter().filter(|(name, _)| is_set(name));
        set.map(|(name, why)| format!("{name} is ignored, since {why}: remove it")).collect()
    }

    /// Returns the settings.
    ///
    /// # Errors
    ///
    /// Returns all mistakes if there is one.
    pub fn finish<T>(self, settings: T) -> Result<T, Mistakes> {
        if self.mistakes.is_empty() { Ok(settings) } else { Err(Mistakes(self.mistakes)) }
    }
}
