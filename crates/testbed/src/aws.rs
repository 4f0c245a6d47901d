//! One HTTP server for the AWS endpoint of every service, as `AWS_ENDPOINT_URL` expects. It checks the signature of
//! each request, then passes it to EKS, Lambda, Parameter Store, SQS, STS or the Cloud Map of the caller's account and
//! Region.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use aws_smithy_runtime_api::client::http::SharedHttpClient;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Request;
use axum::http::header::DATE;
use axum::response::Response;
use tokio::net::TcpListener;

use super::aws_fault::AwsFaults;
use super::clock;
use super::cloud_map::{CloudMap, Wire};
use super::eks::{self, Eks};
use super::identity::Identities;
use super::in_process;
use super::lambda::Lambda;
use super::operation::{Operation, pairs};
use super::parameter_store::ParameterStore;
use super::sigv4::{Caller, Refusal, SignedRequest};
use super::sqs::Sqs;
use super::sts;

/// Region and account.
type Place = (String, String);

/// The AWS endpoint; clones share it.
#[derive(Clone)]
pub struct Aws {
    /// Access keys and roles.
    pub identities: Identities,
    /// Faults of EKS and STS.
    pub faults: AwsFaults,
    pub eks: Eks,
    pub lambda: Lambda,
    pub parameter_store: ParameterStore,
    pub sqs: Sqs,
    registries: Arc<Mutex<BTreeMap<Place, CloudMap>>>,
    front: Front,
    address: SocketAddr,
}

/// What the server's task holds. It has no handle of a registry: those give their verdict when the
/// test drops them.
#[derive(Clone, Default)]
pub(super) struct Front {
    identities: Identities,
    faults: AwsFaults,
    eks: Eks,
    lambda: Lambda,
    parameter_store: ParameterStore,
    sqs: Sqs,
    wires: Arc<Mutex<BTreeMap<Place, Wire>>>,
    requests: Arc<Mutex<Vec<AwsRequest>>>,
}

/// One request that the endpoint answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsRequest {
    /// `DescribeCluster`, `AssumeRole`, `RegisterInstance`, ...
    pub operation: String,
    /// The caller's account; empty where the signature did not hold.
    pub account: String,
    /// Region of the signature.
    pub region: String,
    pub status: u16,
    /// Why the signature did not hold.
    pub refusal: Option<String>,
}

impl Aws {
    /// Starts the endpoint on a free loopback port; it ends with the tokio runtime.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let address = listener.local_addr().expect("the bound address");
        let front = Front::default();
        let server = front.clone();
        let router = Router::new().fallback(move |request: Request<Body>| {
            let server = server.clone();
            async move { server.serve(request).await }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            identities: front.identities.clone(),
            faults: front.faults.clone(),
            eks: front.eks.clone(),
            lambda: front.lambda.clone(),
            parameter_store: front.parameter_store.clone(),
            sqs: front.sqs.clone(),
            registries: Arc::default(),
            front,
            address,
        }
    }

    /// `http://127.0.0.1:<port>`
    pub fn endpoint_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The way to the endpoint without a socket.
    pub(super) fn http_client(&self) -> SharedHttpClient {
        in_process::aws_client(self.front.clone(), self.address.to_string())
    }

    /// The registry of an account in a Region, made empty when first asked for. Callers get at it
    /// only from then on.
    pub fn cloud_map(&self, region: &str, account: &str) -> CloudMap {
        let place = (region.to_owned(), account.to_owned());
        let mut registries = self.registries.lock().expect("no poisoned lock");
        let cloud_map =
            registries.entry(place.clone()).or_insert_with(|| CloudMap::new(region, account));
        self.front.wires.lock().expect("no poisoned lock").insert(place, cloud_map.wire());
        cloud_map.clone()
    }

    /// Every request since the start or the last `forget_requests`.
    pub fn requests(&self) -> Vec<AwsRequest> {
        self.front.requests.lock().expect("no poisoned lock").clone()
    }

    /// Empties the request log.
    pub fn forget_requests(&self) {
        self.front.requests.lock().expect("no poisoned lock").clear();
    }
}

impl Front {
    pub(super) async fn serve(&self, request: Request<Body>) -> Response {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_else(|_| Bytes::new());
        let request = Request::from_parts(parts, body);
        let operation = Operation::of(&request);
        let name = operation.name();
        let caller = self.verify(&request);
        let fault = self.faults.strike(&name);
        let refusal = fault.as_ref().and_then(|kind| kind.refusal(&operation));
        let response = match (&caller, refusal) {
            (Ok(_), Some(refusal)) => refusal,
            (Ok(caller), None) => self.answer(operation, caller, request).await,
            (Err(refusal), _) => operation.refuse(refusal),
        };
        let mut response = match fault {
            Some(kind) => kind.damage(response).await,
            None => response,
        };
        // The SDK dates its next request by this clock.
        let date = clock::now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        response.headers_mut().insert(DATE, date.parse().expect("a date"));
        let (account, region, refusal) = match caller {
            Ok(caller) => (caller.principal.account, caller.region, None),
            Err(Refusal { code, message }) => {
                (String::new(), String::new(), Some(format!("{code}: {message}")))
            }
        };
        let status = response.status().as_u16();
        let line = AwsRequest { operation: name, account, region, status, refusal };
        self.requests.lock().expect("no poisoned lock").push(line);
        response
    }

    fn verify(&self, request: &Request<Bytes>) -> Result<Caller, Refusal> {
        let signed = SignedRequest {
            method: request.method().as_str(),
            path: request.uri().path(),
            query: &pairs(request.uri().query().unwrap_or_default()),
            headers: request.headers(),
            body: request.body(),
        };
        signed.verify_header(&self.identities, clock::now())
    }

    async fn answer(
        &self,
        operation: Operation,
        caller: &Caller,
        request: Request<Bytes>,
    ) -> Response {
        match &operation {
            Operation::CloudMap(_) if caller.service != "servicediscovery" => {
                operation.refuse(&other_service(caller))
            }
            Operation::CloudMap(name) => match self.wire(caller) {
                Some(wire) => wire.answer(name, &request).await,
                None => operation.refuse(&no_registry(caller)),
            },
            Operation::DescribeCluster(name) => {
                self.eks.hear(caller, name).await;
                self.eks.describe_cluster(caller, name)
            }
            Operation::Lambda(call) => {
                let query = request.uri().query().unwrap_or_default();
                self.lambda.answer(call, caller, query, request.body()).await
            }
            Operation::ParameterStore(name) => self.parameter_store.answer(name, caller, &request),
            Operation::Sqs(name) => self.sqs.answer(name, caller, &request),
            Operation::Sts(form) => sts::answer(&self.identities, caller, form),
            Operation::Unknown(path) => eks::unknown(path),
        }
    }

    fn wire(&self, caller: &Caller) -> Option<Wire> {
        let place = (caller.region.clone(), caller.principal.account.clone());
        self.wires.lock().expect("no poisoned lock").get(&place).cloned()
    }
}

fn other_service(caller: &Caller) -> Refusal {
    let message =
        format!("Credential should be scoped to servicediscovery, not {}", caller.service);
    Refusal { code: "InvalidSignatureException", message }
}

/// A test that means another Region or account asks for its registry first; a call there otherwise
/// is a mistake.
fn no_registry(caller: &Caller) -> Refusal {
    let region = &caller.region;
    let account = &caller.principal.account;
    let message = format!("the sandbox has no registry of account {account} in {region}");
    Refusal { code: "AccessDeniedException", message }
}
