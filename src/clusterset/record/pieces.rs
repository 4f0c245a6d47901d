//! The JSON of a record as values of attributes. Cloud Map allows 1,024 characters of printable ASCII in a value, and a
//! space or tab anywhere but at its start.

use super::Problem;
use crate::model::Attributes;
use crate::model::attributes::EXPORT;

/// The characters of a piece.
const PIECE: usize = 1000;
/// The characters of all pieces. The marks and the keys take up to 750 of the 5,000 that an instance may have.
pub const MAXIMUM: usize = PIECE * EXPORT.len();

/// The same JSON in printable ASCII, without a space at either end of a piece. In compact JSON, any character that is
/// escaped here is inside a string.
pub fn printable(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        let is_at_end = [0, PIECE - 1].contains(&(text.len() % PIECE));
        match character {
            ' ' if is_at_end => escape(character, &mut text),
            ' '..='~' => text.push(character),
            _ => escape(character, &mut text),
        }
    }
    text
}

fn escape(character: char, text: &mut String) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        text.extend(format!("\\u{unit:04x}").chars());
    }
}

/// The attributes with the pieces of a printable text of at most [`MAXIMUM`] characters.
pub fn split(text: &str) -> impl Iterator<Item = (String, String)> {
    let pieces = text.as_bytes().chunks(PIECE).map(String::from_utf8_lossy);
    EXPORT.iter().zip(pieces).map(|(key, piece)| ((*key).to_owned(), piece.into_owned()))
}

/// The text of all pieces. A missing one at the end leaves JSON that is not complete.
pub fn join(attributes: &Attributes) -> Result<String, Problem> {
    let last = EXPORT.iter().rposition(|key| attributes.contains_key(key)).unwrap_or(0);
    let piece = |key: &&'static str| attributes.get(key).ok_or(Problem::Missing(key));
    EXPORT.iter().take(last + 1).map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_outside_printable_ascii_are_escaped() {
        assert_eq!(
            printable("{\"a b\":\"\u{7f}\u{e9}\u{1f980}\"}"),
            r#"{"a b":"\u007f\u00e9\ud83e\udd80"}"#
        );
    }

    #[test]
    fn no_piece_begins_or_ends_with_a_space() {
        let text = printable(&format!("\"{}\"", " ".repeat(3000)));
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
            assert_eq!(join(&attributes).as_ref(), Ok(&text));
        }
    }

    #[test]
    fn a_missing_piece_before_another_is_named() {
        for missing in &EXPORT[..3] {
            let mut attributes: Attributes = split(&"a".repeat(3001)).collect();
            attributes.remove(missing);
            assert_eq!(join(&attributes), Err(Problem::Missing(missing)));
        }
        assert_eq!(join(&Attributes::new()), Err(Problem::Missing(EXPORT[0])));
    }
}
