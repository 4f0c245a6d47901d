//! The pieces of a record's JSON.

use crate::clusterset::record::{MAXIMUM, Problem, ascii, join_pieces, split};
use crate::model::Attributes;
use crate::model::attributes::EXPORT;

#[test]
fn characters_outside_printable_ascii_are_escaped() {
    let escaped = ascii("{\"a b\":\"\u{7f}\u{e9}\u{1f980}\"}");
    assert_eq!(escaped, r#"{"a b":"\u007f\u00e9\ud83e\udd80"}"#);
}

#[test]
fn no_piece_begins_or_ends_with_a_space() {
    let text = ascii(&format!("\"{}\"", " ".repeat(3000)));
    let pieces: Vec<(String, String)> = split(&text).collect();
    assert_eq!(pieces.len(), 4);
    for (key, piece) in &pieces {
        assert_eq!(piece.trim(), piece, "{key}");
    }
    let read: String = serde_json::from_str(&text).expect("JSON");
    assert_eq!(read, " ".repeat(3000));
}

#[test]
fn pieces_have_1000_characters_and_are_joined_in_their_order() {
    for (length, pieces) in [(1, 1), (1000, 1), (1001, 2), (2000, 2), (MAXIMUM, 4)] {
        let text: String = ('a'..='z').cycle().take(length).collect();
        let attributes: Attributes = split(&text).collect();
        assert_eq!(attributes.len(), pieces, "{length}");
        assert_eq!(join_pieces(&attributes).as_ref(), Ok(&text));
    }
}

#[test]
fn a_missing_piece_before_another_is_named() {
    for missing in &EXPORT[..3] {
        let mut attributes: Attributes = split(&"a".repeat(3001)).collect();
        attributes.remove(missing);
        assert_eq!(join_pieces(&attributes), Err(Problem::Missing(missing)));
    }
    assert_eq!(join_pieces(&Attributes::new()), Err(Problem::Missing(EXPORT[0])));
}
