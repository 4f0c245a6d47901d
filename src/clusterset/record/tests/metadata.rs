//! The labels and annotations that no object can have.

use std::collections::BTreeMap;

use crate::clusterset::record::left_out_metadata;
use crate::model::Properties;

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
        let labels = texts(labels);
        let annotations = texts(annotations);
        let sentence =
            left_out_metadata(&Properties { labels, annotations, ..Properties::default() });
        let sentence = sentence.as_deref().map(|it| it.split(" are left out").next().unwrap_or(it));
        assert_eq!(sentence, expected);
    }
}

#[test]
fn message_names_ten_keys() {
    let labels = (0..12).map(|number| (format!("{number:02} "), String::new())).collect();
    let sentence =
        left_out_metadata(&Properties { labels, ..Properties::default() }).expect("a sentence");
    assert!(sentence.contains("\"09 \" and 2 more are left out"), "{sentence}");
}
