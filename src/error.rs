//! Formats an error with its causes in one line. An error is logged or reported once, where it is handled.

use std::error::Error;
use std::fmt::Debug;

use aws_sdk_servicediscovery::error::ProvideErrorMetadata;
use aws_smithy_runtime_api::client::result::SdkError;

/// Returns the error and its causes, joined by colons. A cause is omitted if the text before it already contains it,
/// since some libraries repeat their sources.
///
/// Use only this text for an error of the AWS SDK. The SDK's own `DisplayErrorContext` adds the debug form, which
/// contains the whole answer, and the answer of AssumeRole contains a secret key.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Returns the code and the message of an AWS service's answer, or the chain of causes if there was no answer.
pub fn answer_of<E, R>(error: &SdkError<E, R>) -> String
where
    E: Error + ProvideErrorMetadata + 'static,
    R: Debug + 'static,
{
    match error.as_service_error().and_then(|service| Some((service.code()?, service.message()))) {
        Some((code, message)) => format!("{code}: {}", message.unwrap_or("no message")),
        None => chain(error),
    }
}

/// The number of characters of a value that a message repeats.
const SHORT: usize = 80;

/// Returns the start of a value, so that a very long value does not fill a report.
pub fn shorten(value: &str) -> String {
    shorten_to(value, SHORT)
}

/// Returns the first `most` characters of a text, and `…` if there are more.
pub fn shorten_to(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the text in one line. Control characters and characters that change the direction of a line are escaped,
/// since parsers repeat the names of unknown fields unescaped.
pub fn printable(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' | '\'' | '\\' => escaped.push(letter),
            other => escaped.extend(other.escape_debug()),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_one_line_that_moves_no_cursor() {
        let cases = [
            ("it's \"größe\" \\ 🦀", "it's \"größe\" \\ 🦀"),
            ("a\nb\u{1b}[31m\0", "a\\nb\\u{1b}[31m\\0"),
            ("\u{202e}\u{2028}\u{feff}", "\\u{202e}\\u{2028}\\u{feff}"),
        ];
        for (text, expected) in cases {
            assert_eq!(printable(text), expected);
        }
    }

    #[test]
    fn repeated_cause_is_printed_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("{0}")]
        struct Layer(&'static str, #[source] Option<Box<Layer>>);
        let cause = |text| Some(Box::new(Layer(text, Some(Box::new(Layer("timed out", None))))));
        assert_eq!(
            chain(&Layer("cannot read", cause("no answer"))),
            "cannot read: no answer: timed out"
        );
        assert_eq!(
            chain(&Layer("cannot read: timed out", cause("timed out"))),
            "cannot read: timed out"
        );
    }
}
