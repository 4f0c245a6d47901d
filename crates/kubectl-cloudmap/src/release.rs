//! The release of the function beside that of the plugin. Answers of one release can be read by others, but fields that
//! are new may be missing from the tables.

use serde_json::Value;

use cloud_map_sync::report::RELEASE;

/// A hint, if the function is of another release than the plugin.
pub fn hint(answer: &Value) -> Option<String> {
    let of_function = answer["release"].as_str();
    let named = of_function.unwrap_or("an earlier one");
    (of_function != Some(RELEASE)).then(|| {
        format!(
            "note: the function's release is {named}, and this plugin's is {RELEASE}: with the same one no line is missing"
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn another_release_is_named_beside_that_of_the_plugin() {
        assert_eq!(hint(&json!({"release": RELEASE})), None);
        for (answer, named) in
            [(json!({"release": "9.9.9"}), "9.9.9"), (json!({}), "an earlier one")]
        {
            let said = hint(&answer).expect("a hint");
            assert!(said.contains(&format!("is {named}, ")) && said.contains(RELEASE), "{said}");
        }
    }
}
