//! Records the writes of the function that a stand-in has accepted: a stand-in checks of an object only what the
//! function reacts to, and an end-to-end test shows the recorded writes to a real API server, which checks the rest.
//!
//! `KUBERNETES_WRITES` names the folder. Each process has a file there, and each write is a line in it: the request and
//! the object before and after it, without what an API server sets.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex};

use axum::http::Method;
use serde_json::{Value, json};

use super::managers::OF_THE_SERVER;
use super::writes::Write;

/// What is of a certain object of a certain server, besides what only the server sets.
const OF_AN_OBJECT: [&str; 2] = ["finalizers", "resourceVersion"];
const ANY_UID: &str = "00000000-0000-4000-8000-000000000000";

struct Records {
    file: File,
    /// The requests without their times. Random worlds write the same again and again.
    known: HashSet<String>,
}

static RECORDS: LazyLock<Option<Mutex<Records>>> = LazyLock::new(|| {
    let folder = PathBuf::from(std::env::var_os("KUBERNETES_WRITES")?);
    fs::create_dir_all(&folder).expect("the folder of KUBERNETES_WRITES");
    let file = folder.join(format!("{}.jsonl", std::process::id()));
    let file = File::create(file).expect("a file in the folder of KUBERNETES_WRITES");
    Some(Mutex::new(Records { file, known: HashSet::new() }))
});

/// Records an accepted write, if it is of the function: the stand-in's own tests write as any client. By a dry run the
/// doctor asks whether there is an admission policy, which refuses it.
pub fn record(method: &Method, write: &Write<'_>, before: Option<&Value>, after: &Value) {
    let Some(records) = RECORDS.as_ref() else { return };
    if cfg!(test)
        || write.user.is_administrator()
        || write.is_dry_run()
        || *method == Method::DELETE
    {
        return;
    }
    let mut body = write.json().expect("an accepted body");
    let mut before = before.cloned().unwrap_or_default();
    let mut after = after.clone();
    [&mut body, &mut before, &mut after].into_iter().for_each(remove_what_the_server_sets);
    let mut record = json!({
        "method": method.as_str(), "path": write.uri.path(),
        "query": write.uri.query().unwrap_or_default(),
        "contentType": write.header("content-type"), "body": body, "before": before,
    });
    let mut timeless = record.clone();
    remove_times(&mut timeless);
    record["after"] = after;
    let mut records = records.lock().expect("no poisoned lock");
    if records.known.insert(timeless.to_string()) {
        writeln!(records.file, "{record}").expect("a line in the file of the recorded writes");
    }
}

fn remove_what_the_server_sets(object: &mut Value) {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let Some(metadata) = metadata else { return };
    metadata.retain(|key, _| !OF_THE_SERVER.iter().chain(&OF_AN_OBJECT).any(|known| known == key));
    let owners = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut);
    for owner in owners.into_iter().flatten() {
        owner["uid"] = ANY_UID.into();
    }
}

fn remove_times(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|key, _| !["eventTime", "lastTransitionTime"].contains(&key.as_str()));
            members.values_mut().for_each(remove_times);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_times),
        _ => {}
    }
}
