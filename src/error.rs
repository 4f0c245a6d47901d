//! Formats an error with its causes in one line. An error is logged or reported once, where it is handled.

use std::error::Error;

/// The error and its causes, joined by colons. A cause is omitted if the text before it already contains it, since some
/// libraries repeat their sources.
///
/// Of an error of the AWS SDK this is all that may be shown. The SDK's own `DisplayErrorContext` adds the debug form, which
/// has the whole answer, and that of AssumeRole has a secret key.
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

#[cfg(test)]
mod tests {
    use super::*;

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
