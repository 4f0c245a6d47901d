//! A kubeconfig for a served sandbox: one context per cluster, with its certificate authority and its administrator's
//! token. The cluster has its ARN as name, as from `aws eks update-kubeconfig`. The file is JSON, which is also YAML.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::kubernetes::KubernetesServer;

/// The kubeconfig of these clusters; the first is the current context.
pub fn kubeconfig(clusters: &[KubernetesServer]) -> Value {
    let entries = |entry: fn(&KubernetesServer, &str) -> Value| -> Vec<Value> {
        clusters.iter().map(|server| entry(server, &server.identity().name)).collect()
    };
    json!({
        "apiVersion": "v1", "kind": "Config",
        "clusters": entries(|server, _| json!({
            "name": server.identity().arn(), "cluster": cluster(server),
        })),
        "users": entries(|server, name| json!({
            "name": name, "user": {"token": server.admin_token()},
        })),
        "contexts": entries(|server, name| json!({
            "name": name, "context": {"cluster": server.identity().arn(), "user": name},
        })),
        "current-context": clusters.first().map(|server| server.identity().name),
    })
}

fn cluster(server: &KubernetesServer) -> Value {
    let authority = STANDARD.encode(server.certificate_authority_pem());
    json!({"server": server.endpoint(), "certificate-authority-data": authority})
}

/// Writes the kubeconfig to a file.
pub fn write(path: &Path, clusters: &[KubernetesServer]) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    std::fs::write(path, format!("{:#}\n", kubeconfig(clusters)))
}
