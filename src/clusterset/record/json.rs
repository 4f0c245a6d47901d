//! The JSON of an export. Its fields and words are those of a Service in Kubernetes, in alphabetical order, so that
//! equal exports have equal texts. A later release may add fields, which this one ignores.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::{Deserialize, Serialize};

use super::Problem;
use crate::error::{printable, shorten_to};
use crate::model::attributes::EXPORT;
use crate::model::{
    Attributes, ClusterId, Export, ExportedPort, Family, ImportType, InternalTrafficPolicy,
    Properties, Protocol, SessionAffinity, Timestamp, is_dns_label,
};

/// The most characters of the parser's text.
const LONGEST_PROBLEM: usize = 300;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Json {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
    created: Timestamp,
    internal_traffic_policy: Option<InternalTrafficPolicy>,
    ip_families: Vec<Family>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    ports: Vec<Port>,
    session_affinity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_affinity_timeout: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traffic_distribution: Option<String>,
    #[serde(rename = "type")]
    kind: ImportType,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Port {
    #[serde(skip_serializing_if = "Option::is_none")]
    app_protocol: Option<String>,
    #[serde(default)]
    name: String,
    #[serde(rename = "port")]
    number: u16,
    protocol: Protocol,
}

/// The JSON of an export, compact.
pub fn write(export: &Export) -> String {
    let properties = export.properties.clone().unwrap_or_default();
    let affinity = properties.session_affinity;
    let port = |ExportedPort { name, protocol, number, app_protocol }| Port {
        app_protocol,
        name,
        number,
        protocol,
    };
    let json = Json {
        annotations: properties.annotations,
        created: export.created,
        internal_traffic_policy: Some(properties.internal_traffic_policy),
        ip_families: export.families.clone(),
        labels: properties.labels,
        ports: export.ports.iter().cloned().map(port).collect(),
        session_affinity: Some(affinity.as_str().to_owned()),
        session_affinity_timeout: match affinity {
            SessionAffinity::ClientIp(timeout) => timeout,
            SessionAffinity::None => None,
        },
        traffic_distribution: properties.traffic_distribution,
        kind: export.kind,
    };
    // Texts, numbers and maps by text are always JSON.
    serde_json::to_string(&json).unwrap_or_default()
}

/// The export of a cluster in the JSON of its record. An absent property has the default of the API.
pub fn read(text: &str, cluster: &ClusterId) -> Result<Export, Problem> {
    let json = parse(text)?;
    let ports = json.ports.into_iter().enumerate().map(|(index, port)| port.read(index));
    let ports = ports.collect::<Result<Vec<_>, _>>()?;
    let affinity = json.session_affinity.unwrap_or_else(|| "None".to_owned());
    let known = [SessionAffinity::None, SessionAffinity::ClientIp(json.session_affinity_timeout)];
    let known = known.into_iter().find(|it| it.as_str() == affinity);
    let field = "sessionAffinity".to_owned();
    let session_affinity = known.ok_or(Problem::Invalid { field, value: affinity })?;
    Ok(Export {
        cluster: cluster.clone(),
        created: json.created,
        kind: json.kind,
        ports,
        families: json.ip_families,
        properties: Some(Properties {
            session_affinity,
            internal_traffic_policy: json.internal_traffic_policy.unwrap_or_default(),
            traffic_distribution: json.traffic_distribution,
            labels: json.labels,
            annotations: json.annotations,
        }),
    })
}

impl Port {
    fn read(self, index: usize) -> Result<ExportedPort, Problem> {
        let Self { app_protocol, name, number, protocol } = self;
        let field = |key: &str| format!("ports[{index}].{key}");
        if number == 0 {
            return Err(Problem::Invalid { field: field("port"), value: "0".to_owned() });
        }
        if !name.is_empty() && !is_dns_label(&name) {
            return Err(Problem::Invalid { field: field("name"), value: name });
        }
        Ok(ExportedPort { name, protocol, number, app_protocol })
    }
}

fn parse(text: &str) -> Result<Json, Problem> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let json = serde_path_to_error::deserialize(&mut deserializer);
    let json = json.map_err(|error| problem(&error))?;
    deserializer.end().map_err(|error| problem(&error))?;
    Ok(json)
}

/// The parser repeats keys and values as they are, and any client of Cloud Map can write them.
fn problem(error: &dyn Display) -> Problem {
    Problem::Json(shorten_to(&printable(&error.to_string()), LONGEST_PROBLEM))
}

// The JSON of a record as values of attributes. Cloud Map allows 1,024 characters of printable ASCII in a value, and a
// space or tab anywhere but at its start.

/// The characters of a piece.
const PIECE: usize = 1000;
/// The characters of all pieces. The marks and the keys take up to 750 of the 5,000 that an instance may have.
pub const MAXIMUM: usize = PIECE * EXPORT.len();

/// The same JSON in printable ASCII, without a space at either end of a piece. In compact JSON, any character that is
/// escaped here is inside a string.
pub fn ascii(json: &str) -> String {
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
            ascii("{\"a b\":\"\u{7f}\u{e9}\u{1f980}\"}"),
            r#"{"a b":"\u007f\u00e9\ud83e\udd80"}"#
        );
    }

    #[test]
    fn no_piece_begins_or_ends_with_a_space() {
        let text = ascii(&format!("\"{}\"", " ".repeat(3000)));
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
