//! The sandbox of the tests, the benchmarks and `examples/sandbox`: in-process stand-ins for EKS, STS, SQS, Lambda,
//! Parameter Store, Cloud Map and the Kubernetes API of each cluster, on loopback. They are servers, which the product
//! calls with its own clients by the endpoint settings in `Sandbox::environment`; `in_process` is the way to them
//! without sockets. `aws` dispatches to `eks`, `lambda`, `parameter_store`, `sqs`, `sts` and `cloud_map`;
//! `identity` has the access keys for the signature check of `sigv4`, and `aws_controller` runs beside the function.
//! `runtime_api` is Lambda's for a program of its own, and `programs` finds those.

#![allow(
    clippy::missing_errors_doc,
    clippy::new_without_default,
    reason = "for tests alone, which show the error and where they panicked, and begin a thing by name"
)]

pub mod aws;
pub mod aws_controller;
pub mod aws_fault;
pub mod clock;
pub mod cloud_map;
pub mod eks;
pub mod function;
pub mod gate;
pub mod identity;
mod in_process;
pub mod kubeconfig;
pub mod kubernetes;
pub mod lambda;
pub mod operation;
pub mod parameter_store;
pub mod programs;
pub mod runtime_api;
pub mod sigv4;
pub mod sqs;
pub mod sts;
pub mod tls;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use self::aws::Aws;
use self::cloud_map::CloudMap;
use self::identity::AccessKey;
use self::in_process::ApiServers;
use self::kubernetes::{BOUND_GROUP, ClusterIdentity, KubernetesServer};
use self::sqs::Queue;

/// The root of the repository.
pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The Region of the function and of clusters without another.
pub const REGION: &str = "eu-central-1";
/// The account of the function and of clusters without another.
pub const ACCOUNT: &str = "111122223333";
/// The role that the function runs as.
pub const ROLE_ARN: &str = "arn:aws:iam::111122223333:role/cloud-map-sync";

/// How long the credentials of the function's process last.
const SESSION: Duration = Duration::from_hours(12);

/// All stand-ins of one test; clones share them.
#[derive(Clone)]
pub struct Sandbox {
    aws: Aws,
    function: AccessKey,
    clusters: Arc<Mutex<BTreeMap<String, KubernetesServer>>>,
    /// Every API server, also those of one name in several accounts.
    api_servers: ApiServers,
    uses_sockets: Arc<AtomicBool>,
    /// How long the credentials of a process last, if they are issued anew.
    credentials_last: Option<Duration>,
}

impl Sandbox {
    /// Starts the AWS endpoint with an empty registry and no cluster.
    pub async fn start() -> Self {
        let aws = Aws::start().await;
        aws.cloud_map(REGION, ACCOUNT);
        let function = aws.identities.issue(ROLE_ARN, "cloud-map-sync", SESSION);
        let (clusters, api_servers) = Default::default();
        let uses_sockets = Arc::new(AtomicBool::new(true));
        let credentials_last = None;
        Self { aws, function, clusters, api_servers, uses_sockets, credentials_last }
    }

    /// The same, whose functions in this process reach the stand-ins without sockets and TLS, in less time.
    pub async fn in_process() -> Self {
        let sandbox = Self::start().await;
        sandbox.uses_sockets.store(false, Ordering::Relaxed);
        sandbox
    }

    /// From now on new functions in this process reach the stand-ins as programs do: by sockets and TLS.
    pub fn use_sockets(&self) {
        self.uses_sockets.store(true, Ordering::Relaxed);
    }

    /// Adds a cluster in the function's account and Region, where the function's role has its
    /// access entry.
    pub async fn cluster(self, name: &str) -> Self {
        self.add_cluster(ClusterIdentity::own(name), ROLE_ARN).await;
        self
    }

    /// Adds a cluster of any account and Region with an access entry for a role.
    pub async fn add_cluster(&self, identity: ClusterIdentity, role_arn: &str) -> KubernetesServer {
        let name = identity.name.clone();
        let server = KubernetesServer::start(identity, self.aws.identities.clone()).await;
        server.grant(role_arn, &[BOUND_GROUP]);
        self.aws.eks.register(&server);
        self.api_servers.lock().expect("no poisoned lock").push(server.clone());
        self.clusters.lock().expect("no poisoned lock").insert(name, server.clone());
        server
    }

    /// Lets the function assume a role, where an external id is given only with that one.
    pub fn role(&self, role_arn: &str, external_id: Option<&str>) {
        self.aws.identities.assumable_role(role_arn, external_id);
    }

    /// Makes a queue in the function's account and Region, to which no principal may send yet.
    pub fn queue(&self, name: &str) -> Queue {
        let queue = Queue::new(&self.endpoint_url(), REGION, ACCOUNT, name);
        self.aws.sqs.add(REGION, &format!("/{ACCOUNT}/{name}"), queue.clone());
        queue
    }

    /// Keeps a parameter in the function's account and Region, which no principal may read yet.
    pub fn parameter(&self, name: &str, value: &str) {
        self.aws.parameter_store.put(REGION, ACCOUNT, name, value);
    }

    /// The registry of the function's account and Region.
    pub fn cloud_map(&self) -> CloudMap {
        self.aws.cloud_map(REGION, ACCOUNT)
    }

    /// The registry of another account or Region, which the function can reach once a test has
    /// asked for it here.
    pub fn cloud_map_of(&self, region: &str, account: &str) -> CloudMap {
        self.aws.cloud_map(region, account)
    }

    /// The Kubernetes API servers of all clusters, by name.
    pub fn clusters(&self) -> Vec<KubernetesServer> {
        self.clusters.lock().expect("no poisoned lock").values().cloned().collect()
    }

    /// The Kubernetes API server of a cluster.
    pub fn kubernetes(&self, cluster: &str) -> KubernetesServer {
        let clusters = self.clusters.lock().expect("no poisoned lock");
        let found = clusters.get(cluster).cloned();
        found.unwrap_or_else(|| panic!("the sandbox has no cluster {cluster}"))
    }

    /// The AWS endpoint with EKS, identities and the request log.
    pub fn aws(&self) -> &Aws {
        &self.aws
    }

    /// The address of the AWS endpoint.
    pub fn endpoint_url(&self) -> String {
        self.aws.endpoint_url()
    }

    /// The function's own access key.
    pub fn access_key(&self) -> &AccessKey {
        &self.function
    }

    /// The same sandbox for another process of the function, which has an access key of its own.
    #[must_use]
    pub fn another_process(&self) -> Self {
        let function = self.aws.identities.issue(ROLE_ARN, "cloud-map-sync", SESSION);
        Self { function, ..self.clone() }
    }

    /// The same sandbox for a process whose credentials expire, and are issued anew before they do, as Lambda's.
    #[must_use]
    pub fn with_credentials_for(&self, lifetime: Duration) -> Self {
        Self { credentials_last: Some(lifetime), ..self.clone() }
    }

    /// The ARN of a cluster.
    pub fn cluster_arn(&self, cluster: &str) -> String {
        self.kubernetes(cluster).identity().arn()
    }

    /// The environment in which the function, the AWS CLI and the SDKs reach the sandbox.
    /// `CLUSTERS` names those of the function's own account and Region.
    pub fn environment(&self) -> Vec<(String, String)> {
        let clusters = self.clusters.lock().expect("no poisoned lock");
        let own = clusters.values().map(KubernetesServer::identity);
        let own = own.filter(|identity| identity.account == ACCOUNT && identity.region == REGION);
        let arns: Vec<String> = own.map(|identity| identity.arn()).collect();
        let settings = [
            ("AWS_ENDPOINT_URL", self.endpoint_url()),
            ("AWS_REGION", REGION.to_owned()),
            ("AWS_ACCESS_KEY_ID", self.function.id.clone()),
            ("AWS_SECRET_ACCESS_KEY", self.function.secret.clone()),
            ("AWS_SESSION_TOKEN", self.function.session_token.clone()),
            ("CLUSTERS", arns.join(",")),
        ];
        settings.map(|(name, value)| (name.to_owned(), value)).into()
    }
}
