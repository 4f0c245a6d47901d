//! The forms of names in Kubernetes (k8s.io/apimachinery pkg/util/validation).

/// The longest label of a name, and the longest value of a label.
const LONGEST_LABEL: usize = 63;
const LONGEST_SUBDOMAIN: usize = 253;

/// `web-1`: a label of RFC 1123.
pub fn is_label(name: &str) -> bool {
    let inner = |character: char| is_lower_alphanumeric(character) || character == '-';
    name.len() <= LONGEST_LABEL
        && name.starts_with(is_lower_alphanumeric)
        && name.ends_with(is_lower_alphanumeric)
        && name.chars().all(inner)
}

/// The names of Services: a label that begins with a letter (RFC 1035).
pub fn is_letter_label(name: &str) -> bool {
    is_label(name) && name.starts_with(|character: char| character.is_ascii_lowercase())
}

/// `web.1`: labels with dots between, where only the whole has a limit.
pub fn is_subdomain(name: &str) -> bool {
    let label = |label: &str| {
        label.starts_with(is_lower_alphanumeric)
            && label.ends_with(is_lower_alphanumeric)
            && label.chars().all(|character| is_lower_alphanumeric(character) || character == '-')
    };
    name.len() <= LONGEST_SUBDOMAIN && name.split('.').all(label)
}

/// `app` or `example.com/app`: the keys of labels and annotations.
pub fn is_qualified_name(value: &str) -> bool {
    let (prefix, name) = match value.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, value),
    };
    prefix.is_none_or(is_subdomain) && !name.is_empty() && is_label_value(name)
}

/// The value of a label, which may be empty.
pub fn is_label_value(value: &str) -> bool {
    let alphanumeric = |character: char| character.is_ascii_alphanumeric();
    value.is_empty()
        || value.len() <= LONGEST_LABEL
            && value.starts_with(alphanumeric)
            && value.ends_with(alphanumeric)
            && value.chars().all(|character| alphanumeric(character) || "-_.".contains(character))
}

fn is_lower_alphanumeric(character: char) -> bool {
    character.is_ascii_lowercase() || character.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_a_name_takes_what_the_server_takes() {
        let long = "a".repeat(64);
        let forms: [(&str, [bool; 5]); 9] = [
            // label, label with a letter first, subdomain, key, value
            ("web-1", [true, true, true, true, true]),
            ("1web", [true, false, true, true, true]),
            ("web.1", [false, false, true, true, true]),
            ("Web_1", [false, false, false, true, true]),
            ("web-", [false, false, false, false, false]),
            ("example.com/web", [false, false, false, true, false]),
            ("Example/web", [false, false, false, false, false]),
            ("", [false, false, false, false, true]),
            (&long, [false, false, true, false, false]),
        ];
        for (name, expected) in forms {
            let found = [
                is_label(name),
                is_letter_label(name),
                is_subdomain(name),
                is_qualified_name(name),
                is_label_value(name),
            ];
            assert_eq!(found, expected, "{name:?}");
        }
    }
}
