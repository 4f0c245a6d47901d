//! Exports and merged services in few words. An export is a line such as
//!
//! ```text
//! blue@1 ClusterSetIP http:80 dns:53/UDP web:443=h2c v4 v6 ClientIP/60 Local PreferClose label.app=web note.team=one
//! ```
//!
//! with the cluster, the time of creation, and the rest in any order. `AWS` stands for an export of AWS's controller,
//! which has no record. Without a type it is a `ClusterSetIP`, without a family it has `v4`.

use std::collections::BTreeSet;

use crate::clusterset::merge::{Merged, merge, served_ports};
use crate::model::{
    ClusterId, Export, ExportedPort, Family, ImportType, InternalTrafficPolicy, Properties,
    Protocol, ServiceRef, SessionAffinity, Timestamp,
};

/// The exports, one a line.
pub fn exports(lines: &str) -> Vec<Export> {
    lines.lines().map(str::trim).filter(|line| !line.is_empty()).map(export).collect()
}

/// The outcome of merging exports, one a line, without the defaults of an export.
pub fn merged(lines: &str) -> String {
    let exports = exports(lines);
    let merged = merge_all(&exports);
    let Merged { service, conflicts } = &merged;
    let ports = service.ports.iter().map(|port| {
        let serves = |it: &&Export| served_ports(service, it).any(|served| served == port);
        let servers: BTreeSet<_> = exports.iter().filter(serves).map(|it| &it.cluster).collect();
        let servers: Vec<&str> = servers.into_iter().map(ClusterId::as_str).collect();
        format!("{} <- {}", port_word(port), servers.join(", "))
    });
    let clusters: Vec<&str> = service.clusters.iter().map(ClusterId::as_str).collect();
    let kind = (service.kind == ImportType::Headless).then(|| "Headless".to_owned());
    let words: Vec<String> = kind
        .into_iter()
        .chain(service.families.iter().map(|it| family_word(*it).to_owned()))
        .chain(property_words(&service.properties))
        .collect();
    let first = format!("{} of {}", words.join(" "), clusters.join(", "));
    let conflicts = conflicts.iter().map(|it| {
        let disagreeing: Vec<&str> = it.disagreeing.iter().map(ClusterId::as_str).collect();
        format!("{}: {} against {}", it.reason, disagreeing.join(", "), it.decided_by)
    });
    let parts: Vec<String> = [first].into_iter().chain(ports).chain(conflicts).collect();
    parts.join("; ")
}

/// The messages of the conflicts, one a line.
pub fn messages(lines: &str) -> String {
    let conflicts = merge_all(&exports(lines)).conflicts;
    let messages: Vec<String> = conflicts.into_iter().map(|it| it.message).collect();
    messages.join("\n")
}

pub fn merge_all(exports: &[Export]) -> Merged {
    merge(&ServiceRef::new("shop", "web"), exports).expect("an export")
}

fn export(line: &str) -> Export {
    let mut words = line.split(' ');
    let (cluster, age) = words.next().and_then(|it| it.split_once('@')).expect("cluster@age");
    let mut export = Export {
        cluster: ClusterId::parse(cluster).expect("a cluster id"),
        created: Timestamp::from_second(age.parse().expect("an age")).expect("a time"),
        kind: ImportType::ClusterSetIp,
        ports: Vec::new(),
        families: Vec::new(),
        properties: Some(Properties::default()),
    };
    for word in words {
        add_word(&mut export, word);
    }
    if export.families.is_empty() {
        export.families.push(Family::V4);
    }
    export
}

fn add_word(export: &mut Export, word: &str) {
    match word {
        "v4" => return export.families.push(Family::V4),
        "v6" => return export.families.push(Family::V6),
        "AWS" => return export.properties = None,
        _ => {}
    }
    if let Some(kind) = ImportType::parse(word) {
        export.kind = kind;
    } else if word.contains(':') {
        export.ports.push(port(word));
    } else {
        add_property(export.properties.as_mut().expect("a record"), word);
    }
}

/// `name:number/PROTOCOL=application`, the latter two optional.
pub fn port(word: &str) -> ExportedPort {
    let (word, app_protocol) =
        word.split_once('=').map_or((word, None), |(it, app)| (it, Some(app)));
    let (word, protocol) = word.split_once('/').unwrap_or((word, "TCP"));
    let (name, number) = word.split_once(':').expect("name:number");
    ExportedPort {
        name: name.to_owned(),
        protocol: Protocol::parse(protocol).expect("a protocol"),
        number: number.parse().expect("a number"),
        app_protocol: app_protocol.map(str::to_owned),
    }
}

fn add_property(properties: &mut Properties, word: &str) {
    let (kind, value) = word.split_once(['/', '.']).unwrap_or((word, ""));
    let pair = || value.split_once('=').map(|(key, it)| (key.to_owned(), it.to_owned()));
    match kind {
        "ClientIP" => {
            properties.session_affinity = SessionAffinity::ClientIp(value.parse().ok());
        }
        "Local" => properties.internal_traffic_policy = InternalTrafficPolicy::Local,
        "label" => properties.labels.extend(pair()),
        "note" => properties.annotations.extend(pair()),
        distribution => properties.traffic_distribution = Some(distribution.to_owned()),
    }
}

fn port_word(port: &ExportedPort) -> String {
    let ExportedPort { name, protocol, number, app_protocol } = port;
    let app_protocol = app_protocol.as_ref().map(|it| format!("={it}")).unwrap_or_default();
    match protocol {
        Protocol::Tcp => format!("{name}:{number}{app_protocol}"),
        other => format!("{name}:{number}/{}{app_protocol}", other.as_str()),
    }
}

fn family_word(family: Family) -> &'static str {
    match family {
        Family::V4 => "v4",
        Family::V6 => "v6",
    }
}

/// The properties that are not the API's defaults.
fn property_words(properties: &Properties) -> Vec<String> {
    let mut words = Vec::new();
    if let SessionAffinity::ClientIp(seconds) = properties.session_affinity {
        words.push(format!("ClientIP/{}", seconds.map(|it| it.to_string()).unwrap_or_default()));
    }
    if properties.internal_traffic_policy == InternalTrafficPolicy::Local {
        words.push("Local".to_owned());
    }
    words.extend(properties.traffic_distribution.clone());
    words.extend(properties.labels.iter().map(|(key, value)| format!("label.{key}={value}")));
    words.extend(properties.annotations.iter().map(|(key, value)| format!("note.{key}={value}")));
    words
}
