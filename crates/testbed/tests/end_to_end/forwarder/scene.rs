//! The stage of the story: a cluster with a few Services, the function, the queue between it and a
//! forwarder, and how a test waits for what a forwarder says.
//!
//! One pod of the forwarder: the binary as a process of its own, with the environment that its
//! Deployment and EKS give it and nothing of the test's.
//!
//! The network between the forwarder and the API server, which a test can cut. TLS goes through it
//! untouched.
//!
//! The EKS Pod Identity agent of a node: for the token of a pod's ServiceAccount it gives credentials
//! of the role that is associated with it.
//! <https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html>

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::sync::watch;

use crate::lambda::{Lambda, LoggedProgram};
use crate::real_cluster::{RealCluster, headless};
use crate::world::World;
use testbed::REGION;
use testbed::identity::AccessKey;
use testbed::programs::program;
use testbed::sqs::{Message, Queue};

/// How long a test waits for a message before it says that none comes.
const PATIENCE: Duration = Duration::from_mins(2);
const MANIFESTS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/forwarders/cloud-map-forwarder");
/// Where the manifests put the forwarder.
const NAMESPACE: &str = "cloud-map-sync";
const ROLE: &str = "arn:aws:iam::111122223333:role/cloud-map-forwarder";

/// Everything that a forwarder has to do with.
pub struct Scene {
    pub world: World,
    pub cluster: RealCluster,
    lambda: Lambda,
    pub queue: Queue,
    pub relay: Relay,
    token: String,
    environment: Vec<(&'static str, String)>,
    /// The Services of the messages since the last `fence`.
    heard: Vec<String>,
    fences: u8,
}

impl Scene {
    /// The Services `web`, `cart` and `fence` with one pod each, and `plain`, which asks for nothing.
    pub async fn begin(world: World, cluster: RealCluster) -> Self {
        cluster.apply_rbac().await;
        cluster.node().await;
        let headless = headless();
        for (name, address) in [("web", "10.0.1.1"), ("cart", "10.0.2.1"), ("fence", "10.0.3.11")] {
            cluster.service(name, &claim(name), &headless).await;
            cluster.pod(name, &format!("{name}-a"), &[address]).await;
            cluster.wait_for_ready(name, &[address]).await;
        }
        cluster.service("plain", &json!({}), &headless).await;
        let queue = world.sandbox.queue("cloud-map-sync");
        queue.allow(ROLE);
        let relay = Relay::start(&cluster.control_plane.endpoint()).await;
        let (token, environment) = pod(&cluster, &queue, &relay).await;
        deploy(&cluster).await;
        let lambda = world.lambda(&[]).await;
        let heard = Vec::new();
        Self { world, cluster, lambda, queue, relay, token, environment, heard, fences: 1 }
    }

    /// Starts a forwarder; each pod has a role session of its own.
    pub async fn forwarder(&self, session: &str) -> Forwarder {
        let identities = &self.world.sandbox.aws().identities;
        let key = identities.issue(ROLE, session, Duration::from_hours(6));
        let agent = start_pod_identity_agent(&self.token, key).await;
        let mut environment = self.environment.clone();
        environment.push(("AWS_CONTAINER_CREDENTIALS_FULL_URI", agent));
        Forwarder::start(&environment)
    }

    pub async fn next_message(&mut self) -> Message {
        let message = tokio::time::timeout(PATIENCE, self.queue.next()).await;
        let message = message.expect("a message of the forwarder");
        let body: Value = serde_json::from_str(&message.body).expect("JSON");
        assert_eq!(body["cluster"], "blue", "{body}");
        self.heard.push(body["service"].as_str().unwrap_or("the whole cluster").to_owned());
        message
    }

    pub async fn hand_over(&mut self, messages: &[Message]) {
        let answer = self.lambda.invoke(self.queue.event(messages)).await;
        assert_eq!(answer, Ok(json!({"batchItemFailures": []})));
    }

    /// Hands each message to the function until Cloud Map says this of a Service.
    pub async fn until(&mut self, service: &str, addresses: &[&str]) {
        while self.world.addresses("prod", service) != addresses {
            let message = self.next_message().await;
            self.hand_over(&[message]).await;
        }
    }

    /// Hands messages to the function until one is about this Service.
    pub async fn hear(&mut self, service: &str) {
        loop {
            let message = self.next_message().await;
            let is_about = self.heard.last().is_some_and(|heard| heard == service);
            self.hand_over(&[message]).await;
            if is_about {
                self.heard.clear();
                return;
            }
        }
    }

    /// Ends when all earlier changes were reported: messages about slices and about Services
    /// that changed after everything else. What came meanwhile is handed over.
    pub async fn fence(&mut self) -> Vec<String> {
        self.fences += 1;
        let addresses: Vec<String> =
            (1..=self.fences).map(|number| format!("10.0.3.{}", 10 + number)).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        self.cluster
            .pod("fence", &format!("fence-{}", self.fences), &addresses[addresses.len() - 1..])
            .await;
        self.cluster.wait_for_ready("fence", &addresses).await;
        self.until("fence", &addresses).await;
        let number = self.fences.to_string();
        let key = "cloudmap.controller/attributes";
        self.cluster.annotate("fence", &json!({key: format!("fence={number}")})).await;
        while !self.all_instances_say("fence", &number) {
            let message = self.next_message().await;
            self.hand_over(&[message]).await;
        }
        let mut heard = std::mem::take(&mut self.heard);
        heard.retain(|service| service != "fence");
        heard
    }

    /// Waits until a forwarder's readiness probe is answered like this, and returns the text of the answer.
    pub async fn readiness(&self, forwarder: &Forwarder, status: u16) -> String {
        let mut text = String::new();
        let is_answered = async || {
            let answer = forwarder.probe("/readyz").await;
            text = answer.1;
            answer.0 == status
        };
        self.cluster.control_plane.wait_until("for the readiness to change", is_answered).await;
        text
    }

    fn all_instances_say(&self, attribute: &str, value: &str) -> bool {
        let instances = self.world.instances("prod", "fence");
        instances.values().all(|it| it.get(attribute).is_some_and(|said| said == value))
    }

    /// Waits until the forwarder has tried so many times more; the SDK tries thrice each time.
    pub async fn refused(&self, times: u32) {
        let enough = self.queue.requests() + 3 * times;
        let tried = async || self.queue.requests() >= enough;
        self.cluster.control_plane.wait_until("for the forwarder to try again", tried).await;
    }
}

/// The annotations that claim a name in the HTTP namespace.
pub fn claim(name: &str) -> Value {
    crate::real_cluster::claim("prod", name)
}

/// What the Deployment and kubelet give every pod: a token, and the environment.
async fn pod(
    cluster: &RealCluster,
    queue: &Queue,
    relay: &Relay,
) -> (String, Vec<(&'static str, String)>) {
    let control_plane = &cluster.control_plane;
    control_plane.create_from(format!("{MANIFESTS}/namespace.yaml")).await;
    control_plane.create_from(format!("{MANIFESTS}/rbac.yaml")).await;
    let token = control_plane.service_account_token(NAMESPACE, "cloud-map-forwarder").await;
    let kubeconfig = control_plane.write_kubeconfig("user.kubeconfig", &relay.endpoint(), &token);
    let identity_token = kubeconfig.with_file_name("eks-pod-identity-token");
    std::fs::write(&identity_token, &token).expect("the control plane's folder");
    let environment = vec![
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", identity_token.display().to_string()),
        ("AWS_REGION", REGION.to_owned()),
        ("CLUSTER", "blue".to_owned()),
        ("KUBECONFIG", kubeconfig.display().to_string()),
        ("MULTI_CLUSTER", "on".to_owned()),
        // The tests of a machine run side by side.
        ("PROBE_PORT", "0".to_owned()),
        ("QUEUE_URL", queue.url().to_owned()),
    ];
    (token, environment)
}

/// The server takes the Deployment, and the Pod that its controller would make, where only restricted
/// pods are let in.
async fn deploy(cluster: &RealCluster) {
    let deployment = format!("{MANIFESTS}/deployment.yaml");
    let deployment = cluster.control_plane.create_from(deployment).await.remove(0);
    let mut pod = deployment["spec"]["template"].clone();
    pod["metadata"]["name"] = json!("cloud-map-forwarder-0");
    let pod: Pod = serde_json::from_value(pod).expect("a Pod");
    let pods: Api<Pod> = Api::namespaced(cluster.control_plane.admin(), NAMESPACE);
    pods.create(&PostParams::default(), &pod).await.expect("a restricted Pod");
}

/// A running forwarder.
pub struct Forwarder(LoggedProgram);

impl Forwarder {
    /// Starts it with these variables.
    pub fn start(variables: &[(&str, String)]) -> Self {
        let mut command = Command::new(program("cloud-map-forwarder"));
        command.env_clear().envs(variables.iter().map(|(name, value)| (name, value)));
        Self(LoggedProgram::start(&mut command))
    }

    /// Asks it to end, as Kubernetes does.
    pub fn terminate(&self) {
        let id = self.0.id().to_string();
        let killed = std::process::Command::new("kill").args(["-TERM", &id]).status();
        assert!(killed.expect("kill runs").success());
    }

    /// Waits for its end; the exit status and all that it said.
    pub async fn end(self) -> (Option<i32>, String) {
        self.0.end().await
    }

    /// Asks what kubelet asks; the status and the text of the answer.
    pub async fn probe(&self, path: &str) -> (u16, String) {
        let log = self.0.log();
        let starts = log.lines().find(|line| line.contains("the forwarder starts"));
        let starts: Value = serde_json::from_str(starts.expect("it has started")).expect("JSON");
        let address = starts["fields"]["probes"].as_str().expect("an address");
        let port: u16 = address.rsplit(':').next().and_then(|it| it.parse().ok()).expect("a port");
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("text");
        let status = answer.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
        (status, answer.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned())
    }

    /// How often it has said this. Every line must be JSON.
    pub fn said(&self, message: &str) -> usize {
        let log = self.0.log();
        let lines = log.lines().map(|line| {
            let line: Result<Value, _> = serde_json::from_str(line);
            line.unwrap_or_else(|error| panic!("{error} in the log\n{log}"))
        });
        lines.filter(|line| line["fields"]["message"] == message).count()
    }
}

/// A running relay; it ends with the tokio runtime.
pub struct Relay {
    address: SocketAddr,
    whole: watch::Sender<bool>,
}

impl Relay {
    /// Starts a relay to `https://host:port`.
    pub async fn start(endpoint: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let address = listener.local_addr().expect("the bound address");
        let upstream = endpoint.trim_start_matches("https://").to_owned();
        let (whole, is_whole) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(carry(connection, upstream.clone(), is_whole.clone()));
            }
        });
        Self { address, whole }
    }

    /// Where the forwarder finds the API server.
    pub fn endpoint(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Ends every connection, and each new one at once.
    pub fn cut(&self) {
        self.whole.send_replace(false);
    }

    /// Lets connections through again.
    pub fn mend(&self) {
        self.whole.send_replace(true);
    }
}

async fn carry(mut near: TcpStream, upstream: String, mut is_whole: watch::Receiver<bool>) {
    if !*is_whole.borrow() {
        return;
    }
    let Ok(mut far) = TcpStream::connect(&upstream).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut near, &mut far) => {}
        _ = is_whole.wait_for(|whole| !whole) => {}
    }
}

#[derive(Clone)]
struct Association {
    token: String,
    key: AccessKey,
}

/// Starts an agent that gives `key` to who has `token`, and ends with the tokio runtime. Returns
/// `AWS_CONTAINER_CREDENTIALS_FULL_URI`; on a node the address is link-local.
async fn start_pod_identity_agent(token: &str, key: AccessKey) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
    let address = listener.local_addr().expect("the bound address");
    let association = Association { token: token.to_owned(), key };
    let router = Router::new().route("/v1/credentials", get(credentials)).with_state(association);
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}/v1/credentials")
}

async fn credentials(State(association): State<Association>, headers: HeaderMap) -> Response {
    let token = headers.get("authorization").and_then(|value| value.to_str().ok());
    if token != Some(association.token.as_str()) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let key = association.key;
    let expires = key.expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let credentials = json!({
        "AccessKeyId": key.id, "SecretAccessKey": key.secret, "Token": key.session_token,
        "AccountId": key.principal.account, "Expiration": expires,
    });
    Json(credentials).into_response()
}
