//! The output of an answer: a table, JSON, YAML or Markdown. A table has colours if standard output is a terminal and
//! NO_COLOR is not set. The texts of an answer are escaped when it is read, so only JSON is escaped here.

use std::io::{self, ErrorKind, IsTerminal, Write};

use serde_json::Value;

use super::arguments::Format;
use super::colour;
use super::outside::{Output, escape, escape_lines};

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
            let table = shown.table(format == Format::Wide);
            if is_coloured() { colour::colour_lines(&table) } else { table }
        }
        Format::Json => json(shown.value()),
        Format::Yaml => {
            let yaml = serde_saphyr::to_string(shown.value());
            let yaml = yaml.map_err(|error| Error::Yaml(Box::new(error)))?;
            // Every JSON is YAML, and the writer of YAML leaves some characters as they are that turn a line round.
            let is_fine = escape_lines(&yaml, Output::Terminal) == yaml;
            if is_fine { yaml } else { json(shown.value()) }
        }
        Format::Md => shown.markdown(),
        Format::Name => shown.names().iter().flat_map(|name| [name, "\n"]).collect(),
    })
}

fn json(value: &Value) -> String {
    escape_lines(&format!("{value:#}\n"), Output::Json)
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

/// Writes a line about an error or a hint to standard error.
pub fn complain(line: &str) {
    eprintln!("{}", escape(line, Output::Terminal));
}
