//! Environment variables, read one by one into typed values; the mistakes are kept and told together.

use std::fmt;

use super::Documented;
use super::documented::RETIRED;

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

/// Reads one variable after another and keeps the mistakes.
pub(crate) struct Reader<F> {
    variable: F,
    documented: &'static [Documented],
    mistakes: Vec<Mistake>,
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// Reads through `variable`; examples are those of `documented`.
    pub(crate) fn new(variable: F, documented: &'static [Documented]) -> Self {
        Self { variable, documented, mistakes: Vec::new() }
    }

    /// A variable that is set to white space counts as not set: templates pass empty parameters on.
    pub(crate) fn read<T: Default>(
        &mut self,
        variable: &'static str,
        parse: impl Fn(Option<&str>) -> Result<T, String>,
    ) -> T {
        let text = (self.variable)(variable);
        let text = text.as_deref().map(str::trim).filter(|text| !text.is_empty());
        parse(text).unwrap_or_else(|problem| {
            let documented = self.documented.iter().find(|setting| setting.variable == variable);
            let example = documented.map_or("", |setting| setting.example);
            self.mistakes.push(Mistake { variable, problem, example });
            T::default()
        })
    }

    /// A warning for each setting of an earlier release that is still there.
    pub(crate) fn retired(&self) -> Vec<String> {
        let is_set = |name: &str| (self.variable)(name).is_some_and(|text| !text.trim().is_empty());
        let set = RETIRED.iter().filter(|(name, _)| is_set(name));
        set.map(|(name, why)| format!("{name} is ignored, since {why}: remove it")).collect()
    }

    /// What was read, unless there was a mistake.
    pub(crate) fn finish<T>(self, settings: T) -> Result<T, Mistakes> {
        if self.mistakes.is_empty() { Ok(settings) } else { Err(Mistakes(self.mistakes)) }
    }
}
