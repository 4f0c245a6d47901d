//! Damages valid inputs, as structures, texts and bytes, by a sequence of numbers that a seed determines.

use serde_json::{Map, Value};

/// Texts that mean something to a parser, a terminal, a log or Cloud Map.
const WORDS: [&str; 44] = [
    "",
    " ",
    "\0",
    "\n",
    "\r\n",
    "\t",
    "\u{1b}[31m",
    "\u{7f}",
    "\u{85}",
    "\u{202e}",
    "\u{2028}",
    "\u{feff}",
    "é",
    "🦀",
    // Cyrillic a.
    "\u{430}",
    "../",
    "%2e%2e",
    "{{}}",
    "${x}",
    "\"",
    "\\",
    "'",
    ",",
    "=",
    ";",
    "*",
    "-",
    "_",
    ".",
    "/",
    ":",
    "0",
    "-1",
    "65536",
    "99999999999999999999",
    "1e309",
    "169.254.169.254",
    "::ffff:10.0.0.1",
    "127.0.0.1",
    "AWS_ALIAS_DNS_NAME",
    "AWS_INSTANCE_IPV4",
    "cloud-map-sync/owner",
    "arn:aws:",
    "a",
];

/// A sequence of numbers (SplitMix64).
pub struct Random(u64);

impl Random {
    /// The sequence for one case of a parser. Another case or another parser has another sequence.
    pub fn new(parser_name: &str, case: u64) -> Self {
        let start =
            parser_name.bytes().fold(case, |sum, byte| sum.rotate_left(9) ^ u64::from(byte));
        let mut random = Self(start ^ case.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        random.next();
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to below `limit`. `limit` must not be 0.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("below a limit of that type")
    }

    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// A hostile text.
    pub fn text(&mut self) -> String {
        match self.below(12) {
            0..=6 => (*self.pick(&WORDS)).to_owned(),
            7 => self.pick(&WORDS).repeat(self.below(8)),
            8 => {
                let length = *self.pick(&[64, 128, 256, 1025, 5001]);
                self.pick(&WORDS).repeat(length)
            }
            9 => (0..self.below(12)).map(|_| self.character()).collect(),
            10 => String::from_utf8_lossy(&self.bytes(16)).into_owned(),
            _ => {
                let word = *self.pick(&WORDS);
                self.damaged_text(word)
            }
        }
    }

    fn character(&mut self) -> char {
        let range = if self.one_in(2) { 0x80 } else { 0x11_0000 };
        u32::try_from(self.below(range)).ok().and_then(char::from_u32).unwrap_or('\u{fffd}')
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.next().to_le_bytes()[0]).collect()
    }

    /// A text with some changes.
    pub fn damaged_text(&mut self, text: &str) -> String {
        let mut letters: Vec<char> = text.chars().collect();
        for _ in 0..=self.below(3) {
            let at = self.below(letters.len() + 1);
            let end = at + self.below(letters.len() - at + 1);
            match self.below(6) {
                0 => letters.splice(at..at, self.pick(&WORDS).chars()).for_each(drop),
                1 => letters.splice(at..end, []).for_each(drop),
                2 => {
                    let twice = letters[at..end].to_vec();
                    letters.splice(at..at, twice).for_each(drop);
                }
                3 => letters.truncate(at),
                4 => {
                    let other = self.character();
                    if let Some(letter) = letters.get_mut(at) {
                        *letter = other;
                    }
                }
                _ => letters.splice(at..end, self.text_of_one_word()).for_each(drop),
            }
        }
        letters.into_iter().collect()
    }

    fn text_of_one_word(&mut self) -> Vec<char> {
        self.pick(&WORDS).chars().collect()
    }

    /// Bytes with some changes; they need not be text.
    pub fn damaged_bytes(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len() + 1);
            let end = at + self.below((bytes.len() - at).min(40) + 1);
            match self.below(5) {
                0 => {
                    let noise = self.bytes(8);
                    bytes.splice(at..at, noise).for_each(drop);
                }
                1 => bytes.splice(at..end, []).for_each(drop),
                // In the text of a JSON object this can repeat a key.
                2 => {
                    let twice = bytes[at..end].to_vec();
                    bytes.splice(end..end, twice).for_each(drop);
                }
                3 => bytes.truncate(at.max(1)),
                _ => {
                    let other = self.next().to_le_bytes()[0];
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = other;
                    }
                }
            }
        }
        bytes
    }

    /// A structure with some changes.
    pub fn damaged_json(&mut self, value: &Value) -> Value {
        let mut damaged = value.clone();
        for _ in 0..=self.below(3) {
            let place = self.place(&mut damaged);
            *place = self.changed(place.clone());
        }
        damaged
    }

    /// A random value within a value.
    fn place<'a>(&mut self, value: &'a mut Value) -> &'a mut Value {
        let children = match value {
            Value::Object(members) => members.len(),
            Value::Array(items) => items.len(),
            _ => 0,
        };
        if children == 0 || self.one_in(5) {
            return value;
        }
        let at = self.below(children);
        match value {
            Value::Object(members) => {
                let child = members.values_mut().nth(at).expect("a member");
                self.place(child)
            }
            Value::Array(items) => self.place(&mut items[at]),
            other => other,
        }
    }

    fn changed(&mut self, value: Value) -> Value {
        match (self.below(9), value) {
            (0, _) => Value::Null,
            (1, _) => self.leaf(),
            (2, Value::Object(mut members)) => {
                if let Some(key) = members.keys().nth(self.below(members.len().max(1))).cloned() {
                    members.remove(&key);
                }
                Value::Object(members)
            }
            (3, Value::Object(mut members)) => {
                members.insert(self.text(), self.leaf());
                Value::Object(members)
            }
            (2 | 3, Value::Array(items)) => {
                let often = self.below(5);
                Value::Array(items.iter().cycle().take(items.len() * often).cloned().collect())
            }
            (4, value) => (0..self.below(160)).fold(value, |inner, _| Value::Array(vec![inner])),
            (5, value) => {
                let nested = |inner| Value::Object(Map::from_iter([("data".to_owned(), inner)]));
                (0..self.below(60)).fold(value, |inner, _| nested(inner))
            }
            (6, value) => Value::String(value.to_string()),
            (_, Value::String(text)) => Value::String(self.damaged_text(&text)),
            (_, Value::Number(_) | Value::Bool(_) | Value::Null) => self.leaf(),
            (_, value) => value,
        }
    }

    fn leaf(&mut self) -> Value {
        match self.below(8) {
            0 => Value::Null,
            1 => Value::Bool(self.one_in(2)),
            2 => Value::from(self.next()),
            3 => Value::from(self.next().cast_signed()),
            4 => Value::from(*self.pick(&[0, -1, 1, 65_535, 65_536, i64::MAX, i64::MIN])),
            5 => Value::from(1e300),
            _ => Value::String(self.text()),
        }
    }
}
