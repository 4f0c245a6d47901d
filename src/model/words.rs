//! Words and texts:
//!
//! - the macro of enums whose variants are words of an API (`words`), and of types with one line of text (`display`);
//! - the words of a run: the kind of a change, the policy that limits changes, the state of a loss that exceeds the
//!   limits of the guard, and the number of calls to Cloud Map;
//! - the documentation of a setting;
//! - lists in sentences, and counted items.

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
                Self::ALL.into_iter().find(|variant| variant.as_str() == text)
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

// The words of a run, as tables, logs, counts and metrics print them.

words! {
    /// The kind of a change.
    pub enum Verb {
        CreateNamespace = "create-namespace",
        /// Create a Cloud Map service.
        Create = "create",
        /// Change the TTL of a Cloud Map service.
        Update = "update",
        /// Register a new instance.
        Register = "register",
        /// Replace the attributes of an instance of ours.
        Rewrite = "rewrite",
        /// Put our marks on an instance of another owner.
        Adopt = "adopt",
        Deregister = "deregister",
    }
}

impl Verb {
    /// The sign of its lines in a table, as in Terraform.
    pub fn sign(self) -> char {
        match self {
            Self::CreateNamespace | Self::Create | Self::Register => '+',
            Self::Update | Self::Rewrite | Self::Adopt => '~',
            Self::Deregister => '-',
        }
    }
}

words! {
    /// What the guard does about a loss.
    pub enum GuardState {
        /// A full sync keeps the instances.
        Held = "held",
        /// An earlier run saw the loss at least one wait ago, so the guard lets it pass.
        Lifted = "lifted",
        /// A person confirmed the loss.
        Confirmed = "confirmed",
        /// A targeted sync leaves the loss to the next full sync.
        LeftToFullSync = "left-to-full-sync",
        /// A targeted sync keeps the instances whose loss a full sync holds, or could not note.
        HeldByFullSync = "held-by-full-sync",
        /// The loss is held until the Cloud Map services or clusters that could not be read are read.
        HeldUntilRead = "held-until-read",
    }
}

impl GuardState {
    /// Whether the losing Services keep their instances.
    pub fn holds(self) -> bool {
        !matches!(self, Self::Lifted | Self::Confirmed)
    }
}

words! {
    /// `POLICY`, with the values and meanings of `ExternalDNS`.
    #[derive(Default)]
    pub enum Policy {
        /// Makes all changes.
        #[default]
        Sync = "sync",
        /// Makes all changes, except for the removals that follow the end of a claim.
        UpsertOnly = "upsert-only",
        /// Creates namespaces and services, and registers missing instances; nothing else.
        CreateOnly = "create-only",
    }
}

/// The number of call attempts, including retries, and of throttled attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub calls: usize,
    pub throttles: usize,
}

impl Traffic {
    /// Returns the difference from an earlier count.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let calls = self.calls - earlier.calls;
        let throttles = self.throttles - earlier.throttles;
        Self { calls, throttles }
    }
}

impl std::iter::Sum for Traffic {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |sum, part| Self {
            calls: sum.calls + part.calls,
            throttles: sum.throttles + part.throttles,
        })
    }
}

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

/// Joins the texts of items; returns `none` if there are no items.
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
