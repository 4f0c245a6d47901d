//! The answer on standard output: a table, in colours where that is a terminal and NO_COLOR is not set,
//! or JSON, YAML or Markdown. Text of others reaches no terminal with its control characters.

use std::io::{self, ErrorKind, IsTerminal, Write};

use serde_json::Value;

use super::arguments::Format;
use super::colour;

/// Why an answer was not written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be said in YAML.
    #[error("cannot write the answer as YAML")]
    Yaml(#[source] Box<serde_saphyr::SerializeError>),
    /// Standard output took no more.
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
}

/// What can be shown in every format.
pub trait Shown {
    /// As the function said it.
    fn value(&self) -> &Value;
    /// For a person; `wide` with more columns.
    fn table(&self, wide: bool) -> String;
    /// For a page.
    fn markdown(&self) -> String;
}

/// Writes it to standard output.
pub fn print(shown: &impl Shown, format: Format) -> Result<(), Error> {
    let text = match format {
        Format::Table | Format::Wide => {
            let table = printable(&shown.table(format == Format::Wide));
            if is_coloured() { colour::lines(&table) } else { table }
        }
        Format::Json => format!("{:#}\n", shown.value()),
        Format::Yaml => {
            serde_saphyr::to_string(shown.value()).map_err(|error| Error::Yaml(Box::new(error)))?
        }
        Format::Md => printable(&shown.markdown()),
    };
    write(&text)
}

/// Writes a text to standard output. Whoever reads no further, as `head`, has what they want.
pub fn write(text: &str) -> Result<(), Error> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Output(error)),
        _ => Ok(()),
    }
}

/// <https://no-color.org>: set to anything but nothing.
fn is_coloured() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !refused
}

/// The text with every control character but the line's end spelt out.
pub fn printable(text: &str) -> String {
    let spelt = |character: char| match character {
        '\n' => "\n".to_owned(),
        control if control.is_control() => control.escape_default().to_string(),
        other => other.to_string(),
    };
    text.chars().map(spelt).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_cannot_steer_a_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\r\n\u{9b}1m"), "a\\u{1b}[2Jb\\r\n\\u{9b}1m");
    }
}
