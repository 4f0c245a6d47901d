//! Escapes text from outside, such as annotations, manifests and errors of AWS, for each kind of output. The escaped
//! text stays on its line, does not move the cursor, and has no active part in Markdown or HTML.
//!
//! The texts of an answer are escaped for the terminal when the answer is read (`escape_for_terminal`), so that no
//! table can contain raw text. Pages and comments are escaped when they are written.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use cloud_map_sync::error::printable;

/// A kind of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Plain text.
    Terminal,
    /// A line of a code block of Markdown.
    CodeBlock,
    /// A cell, heading or paragraph of Markdown.
    Markdown,
    /// A line of JSON text. The escaped text has the same JSON value.
    Json,
    Html,
}

/// Escapes a text for this kind of output.
pub fn escape(text: &str, output: Output) -> String {
    match output {
        Output::Terminal => printable(text),
        // Backticks could end the block.
        Output::CodeBlock => printable(text).replace('`', "'"),
        Output::Markdown => printable(text).split_inclusive(' ').map(markdown_word).collect(),
        Output::Json => text.chars().map(json_letter).collect(),
        Output::Html => printable(text).chars().map(html_letter).collect(),
    }
}

/// Escapes each line of a text whose line breaks this program has written.
pub fn escape_lines(text: &str, output: Output) -> String {
    text.split_inclusive('\n')
        .map(|line| {
            let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
            escape(line, output) + end
        })
        .collect()
}

/// Returns the text of an answer as a code block of Markdown.
pub fn code_block(text: &str) -> String {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("```text\n{}{end}```\n", escape_lines(text, Output::CodeBlock))
}

/// Returns the value with each text and each key escaped for a terminal.
pub fn escape_for_terminal(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(escape(text, Output::Terminal)),
        Value::Array(items) => items.iter().map(escape_for_terminal).collect(),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(key, value)| (escape(key, Output::Terminal), escape_for_terminal(value)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// Escapes a word and the space after it. A word that a forge may turn into a link, a mention or a reference becomes
/// code: forges search for these words in the rendered text, which no longer has backslashes and entities.
fn markdown_word(word: &str) -> String {
    if !may_autolink(word) {
        return word.chars().map(markdown_letter).collect();
    }
    let (word, space) = word.strip_suffix(' ').map_or((word, ""), |word| (word, " "));
    // A pipe ends a table's cell even in code, and outside of a table its backslash would be visible in code. So the
    // parts between pipes are code, and the pipes are not.
    let parts = word.split('|').map(|part| match part.replace('`', "'") {
        empty if empty.is_empty() => empty,
        part => format!("`{part}`"),
    });
    parts.collect::<Vec<_>>().join("\\|") + space
}

fn may_autolink(word: &str) -> bool {
    let mut parts = word.split(|letter: char| !letter.is_alphanumeric());
    word.contains(['@', '#'])
        || word.contains("://")
        || parts.any(|part| ["www", "gh"].iter().any(|live| part.eq_ignore_ascii_case(live)))
}

fn markdown_letter(letter: char) -> String {
    match letter {
        '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '~' | '$' | '&' => {
            format!("\\{letter}")
        }
        other => other.to_string(),
    }
}

/// Escapes a letter that is not printable. Such a letter is always in a JSON string, since JSON allows none elsewhere.
fn json_letter(letter: char) -> String {
    let mut text = letter.to_string();
    if printable(&text) != text {
        text.clear();
        for unit in letter.encode_utf16(&mut [0; 2]) {
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
    text
}

fn html_letter(letter: char) -> String {
    match letter {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\'' => "&#39;".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_output_has_its_escapes() {
        let rows = [
            // The text, then for terminal, code block, Markdown, JSON and HTML.
            ("web-1 (10.0.0.1): é → 🦀", ["web-1 (10.0.0.1): é → 🦀"; 5]),
            (
                "a\n= b\r",
                ["a\\n= b\\r", "a\\n= b\\r", "a\\\\n= b\\\\r", "a\\u000a= b\\u000d", "a\\n= b\\r"],
            ),
            (
                "\u{202e}\u{2028}\u{9b}",
                [
                    "\\u{202e}\\u{2028}\\u{9b}",
                    "\\u{202e}\\u{2028}\\u{9b}",
                    "\\\\u{202e}\\\\u{2028}\\\\u{9b}",
                    "\\u202e\\u2028\\u009b",
                    "\\u{202e}\\u{2028}\\u{9b}",
                ],
            ),
            (
                "\u{e0041}",
                ["\\u{e0041}", "\\u{e0041}", "\\\\u{e0041}", "\\udb40\\udc41", "\\u{e0041}"],
            ),
            ("```", ["```", "'''", "\\`\\`\\`", "```", "```"]),
            (
                "![a](b) *c*",
                ["![a](b) *c*", "![a](b) *c*", "!\\[a\\](b) \\*c\\*", "![a](b) *c*", "![a](b) *c*"],
            ),
            ("@me #1", ["@me #1", "@me #1", "`@me` `#1`", "@me #1", "@me #1"]),
            (
                "a@b|`c| d",
                ["a@b|`c| d", "a@b|'c| d", "`a@b`\\|`'c`\\| d", "a@b|`c| d", "a@b|`c| d"],
            ),
            (
                "see https://a",
                [
                    "see https://a",
                    "see https://a",
                    "see `https://a`",
                    "see https://a",
                    "see https://a",
                ],
            ),
            (
                "WWW.a GH-1",
                ["WWW.a GH-1", "WWW.a GH-1", "`WWW.a` `GH-1`", "WWW.a GH-1", "WWW.a GH-1"],
            ),
            (
                "<b a='\"'> &#64;x &lt;",
                [
                    "<b a='\"'> &#64;x &lt;",
                    "<b a='\"'> &#64;x &lt;",
                    "\\<b a='\"'\\> `&#64;x` \\&lt;",
                    "<b a='\"'> &#64;x &lt;",
                    "&lt;b a=&#39;&quot;&#39;&gt; &amp;#64;x &amp;lt;",
                ],
            ),
        ];
        let outputs =
            [Output::Terminal, Output::CodeBlock, Output::Markdown, Output::Json, Output::Html];
        for (text, expected) in rows {
            assert_eq!(outputs.map(|output| escape(text, output)), expected, "{text:?}");
        }
    }

    #[test]
    fn lines_of_this_program_stay_lines() {
        assert_eq!(escape_lines("a\n\u{1b}`\n", Output::CodeBlock), "a\n\\u{1b}'\n");
        assert_eq!(code_block("a\n```"), "```text\na\n'''\n```\n");
        let value = serde_json::json!({"a\n": ["b\n", 1, null]});
        assert_eq!(escape_for_terminal(&value), serde_json::json!({"a\\n": ["b\\n", 1, null]}));
    }
}
