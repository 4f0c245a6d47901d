//! Parts of the sentences of reasons.

use crate::model::ServiceRef;

/// Why a name that some would share is not shared.
pub(super) fn not_shared(alone: &[ServiceRef]) -> String {
    if alone.is_empty() {
        return String::new();
    }
    let alone: Vec<String> = alone.iter().map(ServiceRef::to_string).collect();
    let alone = alone.join(", ");
    format!(
        "; it would be shared if all who claim it said claim: shared, and these do not: {alone}"
    )
}

/// When a registration that found no place is tried again, and what stays until then.
pub(super) fn until_next(old: Option<&String>) -> String {
    match old {
        Some(old) => format!(
            "the instance under the former name {old} stays until one is registered under this name, which every run tries again"
        ),
        None => "the next run tries again".to_owned(),
    }
}

/// How many instances stay.
pub(super) fn stay(instances: usize) -> String {
    if instances == 1 {
        "1 instance stays".to_owned()
    } else {
        format!("{instances} instances stay")
    }
}
