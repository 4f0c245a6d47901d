//! Enums whose variants are words of an API, the texts of types that have one line of it, the documentation of a setting, and
//! lists: in sentences, and counted.

use std::collections::BTreeMap;
use std::fmt::Display;

/// An enum that is read, written and displayed by its words.
macro_rules! words {
    (
        $(#[$of_enum:meta])*
        pub enum $name:ident {
            $($(#[$of_variant:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$of_enum])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
        )]
        pub enum $name {
            $($(#[$of_variant])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// The word of the API.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            pub const ALL: [Self; [$(Self::$variant),+].len()] = [$(Self::$variant),+];

            /// The variant of a word.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|it| it.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

/// The text of a value of a type, from its fields: `display!(ServiceRef { namespace, name } => "{namespace}/{name}");`
macro_rules! display {
    ($name:ident $fields:tt => $($text:tt)+) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $name $fields = self;
                write!(f, $($text)+)
            }
        }
    };
}

pub(crate) use {display, words};

/// A setting or an annotation in the documentation.
#[derive(Clone, Copy, Debug)]
pub struct Documented {
    /// The environment variable, or the key after the prefix.
    pub name: &'static str,
    pub meaning: &'static str,
    /// The value or effect if it is not set.
    pub default: &'static str,
    pub example: &'static str,
}

/// The number of times that each item occurs.
pub fn count_each<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    for item in items {
        *counts.entry(item).or_default() += 1;
    }
    counts
}

/// The texts of items with a separator between them.
pub fn join(items: impl IntoIterator<Item = impl Display>, separator: &str) -> String {
    let texts: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    texts.join(separator)
}

/// The same, or a word for none.
pub fn join_or(
    items: impl IntoIterator<Item = impl Display>,
    separator: &str,
    none: &str,
) -> String {
    let mut items = items.into_iter().peekable();
    if items.peek().is_none() { none.to_owned() } else { join(items, separator) }
}

/// The first items of a list and the number of the others: `a, b and 3 more`.
pub fn join_first(items: impl IntoIterator<Item = impl Display>, most: usize) -> String {
    let mut items = items.into_iter();
    let first = join(items.by_ref().take(most), ", ");
    match items.count() {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
