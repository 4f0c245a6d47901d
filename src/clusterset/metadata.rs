//! The labels and annotations that an export states and an import can have. A ServiceExport has texts that no API server
//! has checked, and so has a record: an object with one that is not valid would be refused as a whole.

use crate::model::{Properties, is_label_key, is_label_word, join, join_first};

/// The number of keys that a message names.
const NAMED: usize = 10;

/// Whether an object can have the label.
pub fn is_label(key: &str, value: &str) -> bool {
    is_label_key(key) && (value.is_empty() || is_label_word(value))
}

/// Whether an object can have an annotation with this key: the API server ignores its case.
pub fn is_annotation(key: &str) -> bool {
    is_label_key(&key.to_lowercase())
}

/// A sentence about the labels and annotations that every import of an export lacks, since no object can have them.
pub fn left_out(properties: &Properties) -> Option<String> {
    let labels = properties.labels.iter().filter(|(key, value)| !is_label(key, value));
    let labels: Vec<&String> = labels.map(|(key, _)| key).collect();
    let annotations = properties.annotations.keys().filter(|key| !is_annotation(key)).collect();
    let kinds = [("labels", labels), ("annotations", annotations)];
    let kinds = kinds.into_iter().filter(|(_, keys)| !keys.is_empty());
    let names = |keys: Vec<&String>| join_first(keys.iter().map(|key| format!("{key:?}")), NAMED);
    let parts = join(kinds.map(|(kind, keys)| format!("{kind} {}", names(keys))), " and ");
    (!parts.is_empty())
        .then(|| format!("{parts} are left out of imports: no Kubernetes object can have them"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn texts(texts: &[(&str, &str)]) -> BTreeMap<String, String> {
        texts.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn labels_and_annotations_that_no_object_can_have_are_named() {
        let cases: [(&[_], &[_], _); 5] = [
            (&[("team", "shop"), ("example.com/empty", "")], &[("note", "any text, ä")], None),
            (&[], &[("Example.com/Note", "x")], None),
            (&[("a b", "x")], &[], Some("labels \"a b\"")),
            (&[("team", "no spaces")], &[], Some("labels \"team\"")),
            (&[("", "x")], &[("a/b/c", "x")], Some("labels \"\" and annotations \"a/b/c\"")),
        ];
        for (labels, annotations, expected) in cases {
            let (labels, annotations) = (texts(labels), texts(annotations));
            let sentence = left_out(&Properties { labels, annotations, ..Properties::default() });
            let sentence =
                sentence.as_deref().map(|it| it.split(" are left out").next().unwrap_or(it));
            assert_eq!(sentence, expected);
        }
    }

    #[test]
    fn message_names_ten_keys() {
        let labels = (0..12).map(|number| (format!("{number:02} "), String::new())).collect();
        let sentence =
            left_out(&Properties { labels, ..Properties::default() }).expect("a sentence");
        assert!(sentence.contains("\"09 \" and 2 more are left out"), "{sentence}");
    }
}
