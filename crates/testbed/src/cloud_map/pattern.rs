//! The patterns of the service model (version 2017-03-14) for names, ids and attributes, each as a predicate.
//! The comment above each is the model's own regular expression.

/// `^(?!arn:)[!-~]{1,1024}$`, with the length of the namespace kind.
pub(super) fn is_namespace_name(name: &str, longest: usize) -> bool {
    !name.starts_with("arn:")
        && (1..=longest).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// `^([a-zA-Z0-9]([a-zA-Z0-9\-]{0,61}[a-zA-Z0-9])?\.)+...$`: at least two DNS labels.
pub(super) fn is_public_domain(name: &str) -> bool {
    name.len() <= 253 && name.contains('.') && name.split('.').all(is_dns_label)
}

fn is_dns_label(label: &str) -> bool {
    let bytes = label.as_bytes();
    (1..=63).contains(&bytes.len())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
        && bytes[0] != b'-'
        && bytes[bytes.len() - 1] != b'-'
}

/// `((?=^.{1,127}$)^([a-zA-Z0-9_][a-zA-Z0-9-_]{0,61}[a-zA-Z0-9_]|[a-zA-Z0-9])(\.(...))*$)|(^\.$)`.
pub(super) fn is_service_name(name: &str) -> bool {
    name == "." || ((1..=127).contains(&name.len()) && name.split('.').all(is_service_label))
}

/// A single character must be a letter or digit; a longer label may also begin and end with an underscore.
fn is_service_label(label: &str) -> bool {
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    match label.as_bytes() {
        [only] => only.is_ascii_alphanumeric(),
        [first, middle @ .., last] => {
            middle.len() <= 61
                && word(first)
                && word(last)
                && middle.iter().all(|byte| word(byte) || *byte == b'-')
        }
        [] => false,
    }
}

/// `^[0-9a-zA-Z_/:.@-]+$`, at most 64.
pub(super) fn is_instance_id(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_/:.@-".contains(&byte))
}

/// `^[a-zA-Z0-9!-~]+$`, at most 255: printable ASCII without the space.
pub(super) fn is_attribute_key(key: &str) -> bool {
    (1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}

/// `^([a-zA-Z0-9!-~][ \ta-zA-Z0-9!-~]*){0,1}[a-zA-Z0-9!-~]{0,1}$`, at most 1024: may be empty, may end with
/// a space, may not begin with one.
pub(super) fn is_attribute_value(value: &str) -> bool {
    value.len() <= 1024
        && value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ' || byte == b'\t')
        && !value.starts_with([' ', '\t'])
}
