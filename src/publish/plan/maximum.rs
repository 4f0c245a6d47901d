//! How many instances a Service has under one name at most, and who says so.

use std::fmt;

/// The most instances to keep or register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Maximum {
    /// So many.
    pub count: usize,
    /// Whose number it is.
    pub set_by: SetBy,
}

/// Who limits the number of instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SetBy {
    /// The owner of the Service.
    Annotation,
    /// The installation.
    NamePolicy,
}

/// The smaller of what a Service asks for and what it may have.
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
