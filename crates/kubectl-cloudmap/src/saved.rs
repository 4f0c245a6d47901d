//! The answer of an earlier command, from the file in which its JSON was saved.

use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::outside::clean;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {file}")]
    Unreadable {
        file: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{file} is not an output of `kubectl cloudmap {verb} -o json`")]
    NotThat {
        file: String,
        verb: &'static str,
        #[source]
        source: serde_json::Error,
    },
}

/// Reads the answer to `verb`; `-` is the standard input.
pub fn read<T: DeserializeOwned>(file: &Path, verb: &'static str) -> Result<T, Error> {
    let name = || file.display().to_string();
    let text = text(file).map_err(|source| Error::Unreadable { file: name(), source })?;
    let value: Result<Value, _> = serde_json::from_str(&text);
    let saved = value.and_then(|value| T::deserialize(&clean(&value)));
    saved.map_err(|source| Error::NotThat { file: name(), verb, source })
}

fn text(file: &Path) -> std::io::Result<String> {
    if file != Path::new("-") {
        return std::fs::read_to_string(file);
    }
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text).map(|_| text)
}
