//! Patterns of `NAME_POLICY`. They match whole texts: `*` matches any number of characters, including dots and slashes,
//! and `?` matches one. No other character is special. Special characters of other tools are rejected, since a rule
//! with them would never match.

use std::fmt;

use serde::Deserialize;

/// A pattern for a name, an id or an ARN.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Glob(String);

impl TryFrom<String> for Glob {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let printable = text.bytes().all(|byte| (b'!'..=b'~').contains(&byte));
        if text.is_empty() || !printable {
            return Err(format!(
                "{text:?} must be printable ASCII without spaces, for instance \"web-*\""
            ));
        }
        match text.find(['[', ']', '{', '}', '|', ',', '!', '\\']) {
            Some(at) => Err(format!(
                "{text:?} has a {:?}, and only * and ? are special; list alternatives as separate strings",
                &text[at..=at]
            )),
            None => Ok(Self(text)),
        }
    }
}

impl Glob {
    pub fn matches(&self, text: &str) -> bool {
        let (pattern, text) = (self.0.as_bytes(), text.as_bytes());
        let (mut at, mut read) = (0, 0);
        // The last `*`, and the end of the text that it matches.
        let mut star = None;
        while read < text.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at, read));
                    at += 1;
                }
                Some(byte) if *byte == b'?' || *byte == text[read] => {
                    (at, read) = (at + 1, read + 1);
                }
                _ => {
                    let Some((asterisk, end)) = star else { return false };
                    star = Some((asterisk, end + 1));
                    (at, read) = (asterisk + 1, end + 1);
                }
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }

    /// The same pattern for names in lower case.
    #[must_use]
    pub fn in_lower_case(&self) -> Self {
        Self(self.0.to_ascii_lowercase())
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn glob(pattern: &str) -> Glob {
        Glob::try_from(pattern.to_owned()).expect("a pattern")
    }

    #[test]
    fn whole_texts_match_and_parts_do_not() {
        let cases = [
            ("web", "web", true),
            ("web", "web-1", false),
            ("web", "my-web", false),
            ("web-*", "web-", true),
            ("web-*", "web-1.blue", true),
            ("*-web", "my-web", true),
            ("*-web", "my-web-1", false),
            ("w?b", "wob", true),
            ("w?b", "wb", false),
            ("*a*b", "xaxbxab", true),
            ("*a*b", "xaxbxa", false),
            ("*", "", true),
            ("?", "", false),
            (
                "arn:*:namespace/ns-1",
                "arn:aws:servicediscovery:eu-central-1:1:namespace/ns-1",
                true,
            ),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(glob(pattern).matches(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn what_other_tools_take_for_special_is_a_mistake() {
        for pattern in ["", "a b", "web-[ab]", "{a,b}", "a|b", "!web", "\u{e9}", "a\\*"] {
            Glob::try_from(pattern.to_owned()).expect_err(pattern);
        }
    }

    /// The specification of a match, as a simple recursion.
    fn means(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => {
                means(rest, text) || (!text.is_empty() && means(pattern, &text[1..]))
            }
            ([b'?', rest @ ..], [_, more @ ..]) => means(rest, more),
            ([byte, rest @ ..], [other, more @ ..]) => byte == other && means(rest, more),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn the_match_is_what_the_pattern_means(pattern in "[ab*?]{1,8}", text in "[ab]{0,8}") {
            let expected = means(pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(glob(&pattern).matches(&text), expected);
        }
    }
}
