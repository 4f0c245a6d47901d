//! The output of an answer: a table, JSON, YAML or Markdown. A table has colours if standard output is a terminal and
//! NO_COLOR is not set. Control characters in texts from outside are escaped before they reach a terminal.

use std::io::{self, ErrorKind, IsTerminal, Write};

use serde_json::Value;

use super::arguments::Format;
use super::colour;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot write the answer as YAML")]
    Yaml(#[source] Box<serde_saphyr::SerializeError>),
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
}

pub trait Shown {
    /// The JSON as received from the function.
    fn value(&self) -> &Value;
    /// The table; `wide` has more columns.
    fn table(&self, wide: bool) -> String;
    fn markdown(&self) -> String;
    /// The names in Cloud Map.
    fn names(&self) -> Vec<String>;
}

pub fn print(shown: &impl Shown, format: Format) -> Result<(), Error> {
    write(&text(shown, format)?)
}

/// The output as it is written.
pub fn text(shown: &impl Shown, format: Format) -> Result<String, Error> {
    Ok(match format {
        Format::Table | Format::Wide => {
            let table = printable(&shown.table(format == Format::Wide));
            if is_coloured() { colour::colour_lines(&table) } else { table }
        }
        Format::Json => format!("{:#}\n", shown.value()),
        Format::Yaml => {
            serde_saphyr::to_string(shown.value()).map_err(|error| Error::Yaml(Box::new(error)))?
        }
        Format::Md => printable(&shown.markdown()),
        Format::Name => {
            let lines = shown.names().into_iter().map(|name| format!("{}\n", printable(&name)));
            lines.collect()
        }
    })
}

/// Writes a text to standard output. A closed pipe is no error: readers such as `head` close it early.
pub fn write(text: &str) -> Result<(), Error> {
    write_if_open(text).map(|_| ())
}

/// The same; returns whether standard output is still open.
pub fn write_if_open(text: &str) -> Result<bool, Error> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Output(error)),
        written => Ok(written.is_ok()),
    }
}

/// Whether to use colours. <https://no-color.org>: any value but the empty one turns them off.
fn is_coloured() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !refused
}

/// Escapes every control character except the newline.
pub fn printable(text: &str) -> String {
    let escaped = |character: char| match character {
        '\n' => "\n".to_owned(),
        control if control.is_control() => control.escape_default().to_string(),
        other => other.to_string(),
    };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\r\n\u{9b}1m"), "a\\u{1b}[2Jb\\r\n\\u{9b}1m");
    }
}
