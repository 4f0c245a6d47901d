//! The payload of a CloudWatch Logs subscription to an EKS cluster's audit log: a gzipped batch of lines, each an audit
//! event of the API server. A finished write of a Service, its Endpoints, an EndpointSlice, a ServiceExport or a
//! Namespace gives a scope by its metadata, as the object of any other sender does. Writes of the function's own group
//! and all other lines are ignored, since a subscription filter is not exact. The log group names the cluster.

mod line;
#[cfg(test)]
mod tests;

use std::io::{BufReader, Read};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Error, Message, Subject, name};
use line::read_line;

/// The limit of unpacked text. CloudWatch Logs sends far less, and gzip can expand a payload a thousandfold.
const LARGEST_BATCH: u64 = 64 * 1024 * 1024;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Batch {
    message_type: String,
    #[serde(default)]
    log_group: String,
    #[serde(default)]
    log_events: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    id: String,
    message: String,
}

/// Reads `{"awslogs":{"data":…}}`. A line that is no audit event becomes an unusable message.
pub(super) fn read(payload: &Map<String, Value>) -> Result<Vec<Message>, Error> {
    let batch = unpack(payload).ok_or(Error::LogsNotReadable)?;
    if batch.message_type == "CONTROL_MESSAGE" {
        return Ok(Vec::new());
    }
    let cluster = cluster(&batch.log_group).ok_or(Error::LogsNotOfCluster)?;
    let messages = batch.log_events.into_iter().filter_map(|line| {
        let reading = read_line(&line.message).transpose()?;
        let reading = reading.map(|scope| Subject::Scope(scope.in_cluster(Some(cluster.clone()))));
        Some(Message { id: line.id, receipt: None, reading, is_part: false })
    });
    Ok(messages.collect())
}

fn unpack(payload: &Map<String, Value>) -> Option<Batch> {
    let packed = STANDARD.decode(payload.get("awslogs")?.get("data")?.as_str()?).ok()?;
    let text = GzDecoder::new(packed.as_slice()).take(LARGEST_BATCH);
    serde_json::from_reader(BufReader::new(text)).ok()
}

/// The cluster of a log group: `/aws/eks/NAME/cluster`.
fn cluster(log_group: &str) -> Option<String> {
    let cluster = log_group.strip_prefix("/aws/eks/")?.strip_suffix("/cluster")?;
    name::cluster(cluster).ok()
}
