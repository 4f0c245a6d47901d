//! The response of the function to a command, or a saved response: the JSON as received, and its parsed form for tables
//! and Markdown. The exit code is derived from the response, as in `terraform plan -detailed-exitcode`. This module
//! also writes the response in the requested format. A table has colours if standard output is a terminal and NO_COLOR
//! is not set. The texts of the parsed form are escaped when the response is read, so only JSON and YAML are escaped
//! here.

use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};
use std::io::{self, ErrorKind, IsTerminal, Read as _, Write};
use std::path::Path;
use std::process::ExitCode;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::arguments::Format;
use super::escape::{Output, code_block, escape, escape_for_terminal, escape_lines};
use super::markdown::{MarkdownPage, cell};
use cloud_map_sync::actions::{doctor, explain, status};
use cloud_map_sync::report::{ClusterReport, Mode, Report, ServiceReport};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "cannot read the function's response: the function may run another version than this plugin"
    )]
    UnknownFormat(#[source] serde_json::Error),
    #[error("cannot read {file}")]
    Unreadable {
        file: String,
        #[source]
        source: io::Error,
    },
    #[error("{file} is not an output of `kubectl cloudmap {verb} -o json`")]
    NotSavedAnswer {
        file: String,
        verb: &'static str,
        #[source]
        source: serde_json::Error,
    },
    #[error("cannot write the answer as YAML")]
    Yaml(#[source] Box<serde_saphyr::SerializeError>),
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// There are no changes to make.
    InStep = 0,
    /// The command failed, or its answer is incomplete.
    Error = 1,
    /// There are changes to make.
    Changes = 2,
}

impl Code {
    /// The code of a command without a plan.
    pub fn from_success(success: bool) -> Self {
        if success { Self::InStep } else { Self::Error }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// A response of the function: the JSON as received, and its parsed form, in which each text is escaped for a terminal.
#[derive(Debug)]
pub struct FunctionAnswer<T> {
    pub value: Value,
    pub parsed: T,
}

impl<T: DeserializeOwned> FunctionAnswer<T> {
    pub fn read(value: Value) -> Result<Self, Error> {
        let parsed = T::deserialize(&escape_for_terminal(&value)).map_err(Error::UnknownFormat)?;
        Ok(Self { value, parsed })
    }
}

impl FunctionAnswer<Report> {
    /// Returns the ARNs of the clusters in which a confirmation carries something out.
    pub fn clusters_to_confirm(&self) -> Vec<&str> {
        let clusters = self.parsed.clusters.iter().filter(|cluster| needs_confirmation(cluster));
        clusters.map(|cluster| cluster.cluster.as_str()).collect()
    }

    /// Whether the run made changes, or would make some. An incomplete plan may have changes, too.
    pub fn has_changes(&self) -> bool {
        let Report { counts, clusters, .. } = &self.parsed;
        let mut clustersets = clusters.iter().filter_map(|cluster| cluster.multi_cluster.as_ref());
        counts.changes() > 0 || clustersets.any(|clusterset| clusterset.count_made() > 0)
    }

    /// Returns the exit code. For a plan it shows whether there are changes, for a sync whether they were made.
    pub fn code(&self) -> Code {
        let Report { mode, ok, .. } = self.parsed;
        match mode {
            _ if !ok => Code::Error,
            Mode::Plan | Mode::DryRun if self.has_changes() => Code::Changes,
            Mode::Sync | Mode::Plan | Mode::DryRun => Code::InStep,
        }
    }
}

/// Whether the guard holds a loss in the cluster, its imports do not know their Cloud Map, or its records are of
/// another `OWNER_ID`. A confirmation carries out the loss, takes the Cloud Map for that of the imports, and takes over
/// the records.
fn needs_confirmation(cluster: &ClusterReport) -> bool {
    let mut clusterset_lines = cluster.multi_cluster.iter().flat_map(|part| &part.lines);
    cluster.guards().any(|guard| guard.state.holds())
        || clusterset_lines
            .any(|line| ["UnfamiliarRegistry", "OwnerIdDiffers"].contains(&&*line.code))
}

/// Reads an answer to `verb` from a file with its JSON; `-` is the standard input.
pub fn read_saved<T: DeserializeOwned>(file: &Path, verb: &'static str) -> Result<T, Error> {
    let name = || file.display().to_string();
    let text = read_text(file).map_err(|source| Error::Unreadable { file: name(), source })?;
    let value: Result<Value, _> = serde_json::from_str(&text);
    let saved = value.and_then(|value| T::deserialize(&escape_for_terminal(&value)));
    saved.map_err(|source| Error::NotSavedAnswer { file: name(), verb, source })
}

/// Reads the text of a file; `-` is the standard input.
///
/// # Errors
/// Returns an error if the file cannot be read, or is in another encoding than UTF-8 and UTF-16 with a byte order mark.
pub fn read_text(file: &Path) -> io::Result<String> {
    let bytes = if file == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes)?;
        bytes
    } else {
        std::fs::read(file)?
    };
    decode(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, NO_TEXT))
}

const NO_TEXT: &str = "it is neither UTF-8 nor UTF-16 with a byte order mark: in PowerShell, | Out-File -Encoding utf8";

/// Decodes UTF-8, or UTF-16 with a byte order mark, which `>` of PowerShell 5 writes and kubectl reads. Returns `None`
/// for any other encoding.
fn decode(bytes: &[u8]) -> Option<String> {
    match bytes {
        [0xff, 0xfe, units @ ..] => decode_utf16(units, u16::from_le_bytes),
        [0xfe, 0xff, units @ ..] => decode_utf16(units, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, text @ ..] | text => String::from_utf8(text.to_vec()).ok(),
    }
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (units, rest) = bytes.as_chunks();
    let units: Vec<u16> = units.iter().map(|bytes| unit(*bytes)).collect();
    String::from_utf16(&units).ok().filter(|_| rest.is_empty())
}

/// An answer that can be shown in the formats other than JSON and YAML.
pub trait Shown: Display {
    /// Returns the answer as a table. A `wide` table has more columns.
    fn table(&self, wide: bool) -> String {
        if wide { format!("{self:#}") } else { self.to_string() }
    }

    fn markdown(&self) -> String {
        code_block(&self.to_string())
    }

    /// Returns the names in Cloud Map.
    fn names(&self) -> Vec<String>;
}

impl Shown for Report {
    fn markdown(&self) -> String {
        MarkdownPage(self).to_string()
    }

    /// Returns the names with changes.
    fn names(&self) -> Vec<String> {
        let services = self.clusters.iter().flat_map(|cluster| &cluster.services);
        let changed = services.filter(|service| service.changes().next().is_some());
        let changed = changed.map(ServiceReport::place);
        changed.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

impl Shown for explain::Explanation {
    fn names(&self) -> Vec<String> {
        self.names.iter().map(explain::ExplainedName::place).collect()
    }
}

impl Shown for doctor::Checkup {
    /// Returns the ARNs of the clusters, since a checkup is not about names.
    fn names(&self) -> Vec<String> {
        self.clusters.iter().map(|cluster| cluster.cluster.clone()).collect()
    }
}

impl Shown for status::Status {
    fn markdown(&self) -> String {
        let mut page =
            format!("| {} |\n|---|---|--:|--:|--:|--:|--:|\n", self.headings().join(" | "));
        let mut problems = String::new();
        for registry in &self.registries {
            for service in &registry.services {
                let row = self.row(service).map(|text| cell(&text));
                let _ = writeln!(page, "| {} |", row.join(" | "));
            }
            if let Some(problem) = &registry.error {
                let _ = writeln!(problems, "\nNot read: {}", cell(problem));
            }
        }
        let clustersets = self.registries.iter().flat_map(|registry| &registry.clustersets);
        let clustersets: String = clustersets.map(member_table).collect();
        format!("{page}{clustersets}{problems}\n**{}**\n", cell(&self.summary()))
    }

    fn names(&self) -> Vec<String> {
        let services = self.registries.iter().flat_map(|registry| &registry.services);
        services.map(|service| format!("{}/{}", service.namespace, service.name)).collect()
    }
}

/// Returns a Markdown table of the members of a clusterset.
fn member_table(clusterset: &status::ClustersetStatus) -> String {
    let headings = status::MemberStatus::HEADINGS.join(" | ");
    let mut table = format!(
        "\nClusterset {}\n\n| {headings} |\n|---|---|---|--:|--:|\n",
        cell(&clusterset.clusterset)
    );
    for member in &clusterset.members {
        let row = member.row().map(|text| cell(&text));
        let _ = writeln!(table, "| {} |", row.join(" | "));
        for problem in &member.problems {
            let _ = writeln!(table, "| | {} | | | |", cell(problem));
        }
    }
    table
}

pub fn print(answer: &FunctionAnswer<impl Shown>, format: Format) -> Result<(), Error> {
    write(&text(answer, format)?)
}

/// Returns the output in this format.
pub fn text(
    FunctionAnswer { value, parsed }: &FunctionAnswer<impl Shown>,
    format: Format,
) -> Result<String, Error> {
    Ok(match format {
        Format::Table | Format::Wide => {
            let table = parsed.table(format == Format::Wide);
            if is_coloured() { colour_lines(&table) } else { table }
        }
        Format::Json => json(value),
        Format::Yaml => {
            let yaml = serde_saphyr::to_string(value);
            let yaml = yaml.map_err(|error| Error::Yaml(Box::new(error)))?;
            // The YAML writer does not escape some characters that change the direction of a line. All JSON is YAML, so
            // the answer is then written as escaped JSON.
            let is_fine = escape_lines(&yaml, Output::Terminal) == yaml;
            if is_fine { yaml } else { json(value) }
        }
        Format::Md => parsed.markdown(),
        Format::Name => parsed.names().iter().flat_map(|name| [name, "\n"]).collect(),
    })
}

fn json(value: &Value) -> String {
    escape_lines(&format!("{value:#}\n"), Output::Json)
}

/// Writes a text to standard output. A closed pipe is no error, since readers such as `head` close it early.
pub fn write(text: &str) -> Result<(), Error> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Output(error)),
        _ => Ok(()),
    }
}

/// Whether to use colours. Any value of NO_COLOR except the empty one turns them off: <https://no-color.org>.
fn is_coloured() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !refused
}

/// Writes a line about an error or a hint to standard error.
pub fn print_error(line: &str) {
    eprintln!("{}", escape(line, Output::Terminal));
}

const RESET: &str = "\x1b[0m";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const MAGENTA: &str = "\x1b[35m";

/// Colours each line of a table by its sign, as Terraform does. A line without a sign and without indentation is bold.
fn colour_lines(table: &str) -> String {
    table.split_inclusive('\n').map(colour_line).collect()
}

fn colour_line(line: &str) -> String {
    let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
    let text = line.trim_start();
    let colour = match text.split_once(' ').map_or(text, |(first, _)| first) {
        "+" => GREEN,
        "~" => YELLOW,
        "-" => RED,
        "!" => MAGENTA,
        "=" => DIM,
        _ if text.len() == line.len() => BOLD,
        _ => return format!("{line}{end}"),
    };
    let indent = &line[..line.len() - text.len()];
    format!("{indent}{colour}{text}{RESET}{end}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use cloud_map_sync::model::GuardState;

    #[test]
    fn text_is_read_in_the_encodings_that_kubectl_reads() {
        let text = "# \u{e9}\r\nkind: Service\r\n";
        let with_mark = format!("\u{feff}{text}");
        let little: Vec<u8> = with_mark.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = with_mark.encode_utf16().flat_map(u16::to_be_bytes).collect();
        for encoded in [text.as_bytes(), with_mark.as_bytes(), &little, &big] {
            assert_eq!(decode(encoded).as_deref(), Some(text), "{encoded:?}");
        }
        let cut_off = &little[..little.len() - 1];
        let lone_surrogate = [0xff, 0xfe, 0x00, 0xd8];
        for other in [b"caf\xe9".as_slice(), cut_off, &lone_surrogate] {
            assert_eq!(decode(other), None, "{other:?}");
        }
        assert_eq!(decode(b"").as_deref(), Some(""));
    }

    #[test]
    fn loss_of_imported_endpoints_can_be_confirmed_and_is_in_markdown() {
        let guard = |state: &str| {
            json!({
                "state": state, "loss": 20, "instances": 30, "share": 50, "minimum": 10, "needsOperator": false,
                "services": [], "detail": "20 of 30 endpoints stay",
            })
        };
        for state in GuardState::ALL {
            let to_confirm = if state.holds() { vec!["blue"] } else { vec![] };
            let state = state.as_str();
            let cluster = json!({ "cluster": "blue", "multiCluster": { "guard": guard(state) } });
            let plan = json!({ "mode": "plan", "ok": true, "whole": true, "clusters": [cluster], "counts": {} });
            let plan = FunctionAnswer::<Report>::read(plan).expect("a report");
            assert_eq!(plan.clusters_to_confirm(), to_confirm, "{state}");
            let page = MarkdownPage(&plan.parsed).to_string();
            assert!(page.contains("20 of 30 endpoints stay"), "{page}");
        }
    }

    #[test]
    fn unfamiliar_cloud_map_and_another_owner_id_can_be_confirmed_and_another_obstacle_cannot() {
        let cases = [
            ("UnfamiliarRegistry", vec!["blue"]),
            ("OwnerIdDiffers", vec!["blue"]),
            ("ClusterIdTaken", vec![]),
        ];
        for (code, to_confirm) in cases {
            let line = json!({ "sign": "!", "code": code, "text": "why", "outcome": "kept_out" });
            let cluster = json!({ "cluster": "blue", "multiCluster": { "lines": [line] } });
            let plan = json!({ "mode": "plan", "ok": false, "whole": true, "clusters": [cluster], "counts": {} });
            let plan = FunctionAnswer::<Report>::read(plan).expect("a report");
            assert_eq!(plan.clusters_to_confirm(), to_confirm, "{code}");
        }
    }

    #[test]
    fn each_line_has_the_colour_of_its_sign() {
        let table = "cluster blue\n  shop.local/web\n    + register a\n    ~ rewrite b\n    \
                     - deregister c\n    ! held back d\n    = 1 unchanged\n";
        let shown = colour_lines(table).replace('\x1b', "^");
        let expected = "^[1mcluster blue^[0m\n  shop.local/web\n    ^[32m+ register a^[0m\n    \
                        ^[33m~ rewrite b^[0m\n    ^[31m- deregister c^[0m\n    \
                        ^[35m! held back d^[0m\n    ^[2m= 1 unchanged^[0m\n";
        assert_eq!(shown, expected);
    }
}
