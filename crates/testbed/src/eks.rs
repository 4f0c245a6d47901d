//! The EKS stand-in: DescribeCluster for the running Kubernetes servers, found by the caller's account and Region as in
//! the service.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::kubernetes::KubernetesServer;
use super::operation::{respond, respond_error};
use super::sigv4::{Caller, Refusal};

/// The clusters of all accounts and Regions; clones share them.
#[derive(Clone, Default)]
pub struct Eks {
    clusters: Arc<Mutex<BTreeMap<String, Cluster>>>,
    denied: Arc<Mutex<BTreeSet<String>>>,
    /// The clusters in EKS Auto Mode.
    auto_mode: Arc<Mutex<BTreeSet<String>>>,
    /// The clusters about which no call is answered.
    silent: Arc<Mutex<BTreeSet<String>>>,
}

struct Cluster {
    facts: Box<dyn Fn() -> Facts + Send>,
    status: String,
}

/// What the answer tells of a cluster's API server, wherever that runs.
#[derive(Clone, Debug)]
pub struct Facts {
    pub name: String,
    /// The id of a local cluster on Outposts.
    pub local_id: Option<String>,
    /// `1.<minor>`
    pub version: String,
    /// The API server's address, https.
    pub endpoint: String,
    /// The certificate that signed the API server's, as PEM; in a rotation the old and the new one.
    pub certificate_authority: String,
}

impl Facts {
    fn of(server: &KubernetesServer) -> Self {
        Self {
            name: server.identity().name,
            local_id: server.identity().local_id,
            version: server.version(),
            endpoint: server.endpoint(),
            certificate_authority: server.certificate_authority_pem(),
        }
    }
}

impl Eks {
    /// Registers a cluster as ACTIVE; one of the same ARN is replaced, as when a cluster is made
    /// anew under its name.
    pub fn register(&self, server: &KubernetesServer) {
        let arn = server.identity().arn();
        let server = server.clone();
        self.insert(arn, move || Facts::of(&server));
    }

    /// Registers a cluster as ACTIVE whose API server is none of the sandbox's.
    pub fn register_other(&self, arn: &str, facts: Facts) {
        self.insert(arn.to_owned(), move || facts.clone());
    }

    fn insert(&self, arn: String, facts: impl Fn() -> Facts + Send + 'static) {
        let facts = Box::new(facts);
        let cluster = Cluster { facts, status: "ACTIVE".to_owned() };
        self.clusters().insert(arn, cluster);
    }

    /// Deletes a cluster: DescribeCluster answers ResourceNotFoundException.
    pub fn delete(&self, arn: &str) {
        self.clusters().remove(arn);
    }

    /// Sets the status; CREATING and PENDING have neither endpoint nor authority yet.
    pub fn set_status(&self, arn: &str, status: &str) {
        let mut clusters = self.clusters();
        let cluster = clusters.get_mut(arn).expect("a registered cluster");
        status.clone_into(&mut cluster.status);
    }

    /// Lets DescribeCluster answer AccessDeniedException, also if there is no such cluster, or not any more.
    pub fn deny(&self, arn: &str, denied: bool) {
        let mut all = self.denied.lock().expect("no poisoned lock");
        if denied {
            all.insert(arn.to_owned());
        } else {
            all.remove(arn);
        }
    }

    /// Enables EKS Auto Mode for a cluster.
    pub fn enable_auto_mode(&self, arn: &str) {
        self.auto_mode.lock().expect("no poisoned lock").insert(arn.to_owned());
    }

    /// Lets DescribeCluster never answer about a cluster, whether there is one or not.
    pub fn silence(&self, arn: &str) {
        self.silent.lock().expect("no poisoned lock").insert(arn.to_owned());
    }

    /// Returns if the call is to be answered.
    pub async fn hear(&self, caller: &Caller, name: &str) {
        let arn_end = arn_end(caller, name);
        let is_silent = {
            let silent = self.silent.lock().expect("no poisoned lock");
            silent.iter().any(|arn| arn.ends_with(&arn_end))
        };
        if is_silent {
            std::future::pending::<()>().await;
        }
    }

    fn clusters(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Cluster>> {
        self.clusters.lock().expect("no poisoned lock")
    }

    /// Answers `GET /clusters/{name}`.
    pub fn describe_cluster(&self, caller: &Caller, name: &str) -> Response {
        let arn_end = arn_end(caller, name);
        let denied = self.denied.lock().expect("no poisoned lock");
        if let Some(arn) = denied.iter().find(|arn| arn.ends_with(&arn_end)) {
            let user = caller.principal.arn();
            let text = format!(
                "User: {user} is not authorized to perform: eks:DescribeCluster on resource: {arn}"
            );
            return error(StatusCode::FORBIDDEN, "AccessDeniedException", &text);
        }
        let clusters = self.clusters();
        let found = clusters.iter().find(|(arn, _)| arn.ends_with(&arn_end));
        match found {
            None => {
                let text = format!("No cluster found for name: {name}.");
                error(StatusCode::NOT_FOUND, "ResourceNotFoundException", &text)
            }
            Some((arn, cluster)) => {
                let mut description = description(arn, cluster);
                let is_auto = self.auto_mode.lock().expect("no poisoned lock").contains(arn);
                description["computeConfig"] = json!({"enabled": is_auto});
                let body = json!({"cluster": description});
                respond(StatusCode::OK, "application/json", body.to_string())
            }
        }
    }
}

/// What follows the partition and the service in the ARN of the caller's cluster of this name.
fn arn_end(caller: &Caller, name: &str) -> String {
    format!(":{}:{}:cluster/{name}", caller.region, caller.principal.account)
}

fn description(arn: &str, cluster: &Cluster) -> Value {
    let facts = (cluster.facts)();
    let mut description = json!({
        "name": facts.name,
        "arn": arn,
        "status": cluster.status,
        "version": facts.version,
        "createdAt": 1_767_225_600.123,
        "platformVersion": "eks.9",
        "accessConfig": {"authenticationMode": "API"},
        "kubernetesNetworkConfig": {"ipFamily": "ipv4", "serviceIpv4Cidr": "10.100.0.0/16"},
        "resourcesVpcConfig": {
            "vpcId": "vpc-0123456789abcdef0", "endpointPublicAccess": true,
            "endpointPrivateAccess": true, "publicAccessCidrs": ["0.0.0.0/0"],
        },
    });
    if let Some(id) = facts.local_id {
        description["id"] = id.into();
        description["accessConfig"]["authenticationMode"] = "CONFIG_MAP".into();
        description["outpostConfig"] = json!({
            "outpostArns": ["arn:aws:outposts:eu-central-1:111122223333:outpost/op-0123456789abcdef0"],
            "controlPlaneInstanceType": "m5.large",
        });
    }
    if !matches!(cluster.status.as_str(), "CREATING" | "PENDING") {
        let authority = STANDARD.encode(facts.certificate_authority);
        description["endpoint"] = facts.endpoint.into();
        description["certificateAuthority"] = json!({"data": authority});
    }
    description
}

/// A request whose signature does not hold.
pub fn refuse(refusal: &Refusal) -> Response {
    error(StatusCode::FORBIDDEN, refusal.code, &refusal.message)
}

/// A path that the stand-in does not know.
pub fn unknown(path: &str) -> Response {
    let text = format!("the sandbox plays DescribeCluster alone, not {path}");
    error(StatusCode::NOT_FOUND, "UnknownOperationException", &text)
}

fn error(status: StatusCode, code: &str, message: &str) -> Response {
    respond_error(status, code, &json!({"message": message}))
}
