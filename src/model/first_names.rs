//! The first of some names, and the number of the others: a line of a report about a thousand Services must not name
//! them all, since there may be a thousand such lines.

use std::fmt;
use std::sync::Arc;

/// The number of names that are spelled out.
const NAMED: usize = 5;

/// Some names for a sentence, the first five and the number of the others. Copies share the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FirstNames(Arc<str>);

impl FirstNames {
    /// `None` if there are no names.
    pub fn of<N: fmt::Display>(names: impl IntoIterator<Item = N>) -> Option<Self> {
        let mut names = names.into_iter();
        let first: Vec<String> = names.by_ref().take(NAMED).map(|name| name.to_string()).collect();
        let named = first.join(", ");
        let text = match names.count() {
            0 if first.is_empty() => return None,
            0 => named,
            1 => format!("{named} and 1 other"),
            others => format!("{named} and {others} others"),
        };
        Some(Self(text.into()))
    }
}

impl fmt::Display for FirstNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_names_are_spelled_out_and_the_others_are_counted() {
        for (count, expected) in [
            (0, None),
            (1, Some("0")),
            (5, Some("0, 1, 2, 3, 4")),
            (6, Some("0, 1, 2, 3, 4 and 1 other")),
            (1000, Some("0, 1, 2, 3, 4 and 995 others")),
        ] {
            let names = FirstNames::of(0..count).map(|names| names.to_string());
            assert_eq!(names.as_deref(), expected);
        }
    }
}
