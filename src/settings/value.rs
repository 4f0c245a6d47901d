//! The values of single settings, each with its rule. `None` is a variable that is not set.

use crate::model::NamespaceReference;
use crate::plan::Policy;

/// Namespaces separated by commas.
pub fn namespaces(text: Option<&str>) -> Result<Vec<NamespaceReference>, String> {
    let items = text.unwrap_or_default().split(',').map(str::trim).filter(|item| !item.is_empty());
    items
        .map(|item| {
            let problem = || format!("{item:?} is no name, id or ARN of a Cloud Map namespace");
            NamespaceReference::parse(item).ok_or_else(problem)
        })
        .collect()
}

/// The id becomes an attribute's value and a tag's value: printable ASCII, at most 256 characters.
pub fn owner_id(text: Option<&str>) -> Result<String, String> {
    let text = text.unwrap_or("cloud-map-sync");
    let printable = text.bytes().all(|byte| (b'!'..=b'~').contains(&byte));
    if printable && text.len() <= 256 {
        Ok(text.to_owned())
    } else {
        Err("it must be 1 to 256 printable ASCII characters without spaces".to_owned())
    }
}

/// The prefix must be one that Kubernetes accepts in a key: a DNS subdomain and `/`.
pub fn annotation_prefix(text: Option<&str>) -> Result<String, String> {
    let text = text.unwrap_or("cloudmap.controller/");
    let domain = text.strip_suffix('/').unwrap_or(text);
    let label = |label: &str| {
        let inner = label.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        !label.is_empty() && inner && !label.starts_with('-') && !label.ends_with('-')
    };
    if domain.len() <= 253 && domain.split('.').all(label) {
        Ok(format!("{domain}/"))
    } else {
        Err(format!("{text:?} is no lower-case DNS name with a '/' after it"))
    }
}

/// One of the policies' names.
pub fn policy(text: Option<&str>) -> Result<Policy, String> {
    let Some(text) = text else {
        return Ok(Policy::default());
    };
    let found = Policy::ALL.into_iter().find(|policy| policy.to_string() == text);
    found.ok_or_else(|| format!("{text:?} is none of sync, upsert-only, create-only"))
}

/// `true` or `false`.
pub fn boolean(text: Option<&str>) -> Result<bool, String> {
    match text {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => Err(format!("{other:?} is neither true nor false")),
    }
}
