//! The names of the objects that an import makes in a cluster. `clusterset::id` makes them; here they are recognized.

/// Whether a Service has the name of a derived one (`clusterset::id`).
pub fn is_derived_service(name: &str) -> bool {
    name.strip_prefix("derived-").is_some_and(is_hash)
}

/// Whether an `EndpointSlice` has the name of one of an import (`clusterset::id`).
pub fn is_imported_slice(name: &str) -> bool {
    let mut parts = name.strip_prefix("imported-").unwrap_or_default().split('-');
    let (hash, source, number) = (parts.next(), parts.next(), parts.next());
    let is_hex = |text: &str| text.len() == 8 && text.bytes().all(|it| it.is_ascii_hexdigit());
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    hash.is_some_and(is_hash)
        && source.is_some_and(is_hex)
        && number.is_some_and(is_number)
        && parts.next().is_none()
}

/// Ten digits in base32hex.
fn is_hash(text: &str) -> bool {
    text.len() == 10 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'v'))
}
