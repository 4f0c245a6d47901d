//! The largest number of instances of a Service under one name, and its source: an annotation of the Service or a rule
//! of `NAME_POLICY`. The smaller number applies.

use std::fmt;

/// The most instances to keep or register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Maximum {
    pub count: usize,
    /// The source of the number.
    pub set_by: SetBy,
}

/// The source of a maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SetBy {
    /// An annotation of the Service.
    Annotation,
    /// A rule of the installation's `NAME_POLICY`.
    NamePolicy,
}

/// The smaller of the annotated number and the allowed number.
pub fn smallest(annotated: Option<usize>, allowed: Option<usize>) -> Option<Maximum> {
    let annotated = annotated.map(|count| Maximum { count, set_by: SetBy::Annotation });
    let allowed = allowed.map(|count| Maximum { count, set_by: SetBy::NamePolicy });
    annotated.into_iter().chain(allowed).min()
}

impl fmt::Display for SetBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Annotation => "max-instances of the Service",
            Self::NamePolicy => "maxInstances of NAME_POLICY",
        })
    }
}
