//! A real Kubernetes control plane for one test: etcd, kube-apiserver, the webhook that authenticates EKS tokens and,
//! if asked for, the controllers that fill `EndpointSlices`.
//!
//! `binaries` finds or builds the programs, among them the DNS of a node, `programs` writes their files and command
//! lines, `processes` runs them, and a kubelet, in a temporary folder until the value is dropped; `manifest` creates
//! what a file says: the function's rights, the Multi-Cluster Services API, and the ServiceAccount of a pod. No port
//! is guessed: etcd listens on a socket in the folder, the webhook tells its port, and kube-apiserver shares one that
//! is reserved beforehand.

mod binaries;
mod certificates;
pub mod manifest;
mod processes;
mod programs;

use binaries::Binaries;
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use kube::api::Api;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use processes::Processes;
use tokio::net::TcpSocket;

use testbed::identity::AccessKey;
use testbed::kubernetes::ClusterIdentity;

pub use binaries::{Nameserver, Unavailable};

/// The Kubernetes user name and group of the function's role.
pub const GROUP: &str = "cloud-map-sync";

/// What the control plane is to be like.
#[derive(Clone, Debug)]
pub struct Options {
    /// Also run the controllers for Endpoints, `EndpointSlices`, namespaces and garbage collection.
    pub controllers: bool,
    /// Also install the Multi-Cluster Services API, before the controllers look which APIs there are.
    pub multi_cluster: bool,
    /// Give Services addresses of IPv4 alone.
    pub is_single_stack: bool,
    /// The EKS cluster that tokens must be signed for, with the STS host of its Region.
    pub identity: ClusterIdentity,
    /// The credentials that tokens must be signed with, of the one role that the cluster knows.
    pub key: AccessKey,
}

/// A running control plane. Dropping it ends every process and removes the temporary folder;
/// in a `static`, which is never dropped, the processes end with the test process all the same.
pub struct ControlPlane {
    binaries: Binaries,
    endpoint: String,
    certificate_authority: String,
    admin: kube::Client,
    is_single_stack: bool,
    processes: Processes,
}

impl ControlPlane {
    /// Starts a control plane and waits until it is ready.
    ///
    /// # Errors
    /// The programs are not there and cannot be built here; nothing was started.
    ///
    /// # Panics
    /// They are there and do not work. The end of what each of them said is printed.
    pub async fn start(options: Options) -> Result<Self, Unavailable> {
        let binaries = Binaries::find_or_build(options.controllers).await?;
        let processes = Processes::new();
        let folder = processes.folder();
        let certificate_authority = certificates::write(folder);
        let reserved = reserve_port();
        let endpoint = format!("https://{}", reserved.local_addr().expect("a bound socket"));
        let admin = admin_client(&endpoint, &certificate_authority).await;

        processes.spawn("etcd", &programs::etcd(&binaries, folder));
        let verifier = programs::token_verifier(&binaries, folder, &options);
        processes.spawn("token-verifier", &verifier);
        let address = folder.join(programs::WEBHOOK_ADDRESS);
        let listens = async || address.exists();
        processes.wait_until("for the webhook to listen", listens).await;
        let is_single_stack = options.is_single_stack;
        let api_server = programs::kube_apiserver(&binaries, folder, &endpoint, is_single_stack);
        processes.spawn("kube-apiserver", &api_server);
        let ready = async || is_ready(&admin).await;
        processes.wait_until("for kube-apiserver to be ready", ready).await;
        let started =
            Self { binaries, endpoint, certificate_authority, admin, is_single_stack, processes };
        if options.multi_cluster {
            started.install_multi_cluster_api().await;
        }
        if options.controllers {
            started.start_controllers().await;
        }
        Ok(started)
    }

    async fn start_controllers(&self) {
        let kubeconfig = self.write_admin_kubeconfig();
        let controllers = programs::kube_controller_manager(&self.binaries, &kubeconfig);
        self.processes.spawn("kube-controller-manager", &controllers);
        let work = async || controllers_work(&self.admin).await;
        self.processes.wait_until("for the controllers to work", work).await;
    }

    /// Ends kube-apiserver and starts it again, with what etcd kept.
    pub async fn restart_api_server(&self) {
        let Self { binaries, endpoint, is_single_stack, .. } = self;
        let folder = self.processes.folder();
        let api_server = programs::kube_apiserver(binaries, folder, endpoint, *is_single_stack);
        self.processes.restart("kube-apiserver", &api_server).await;
        let ready = async || is_ready(&self.admin).await;
        self.processes.wait_until("for kube-apiserver to be ready again", ready).await;
    }

    /// The https URL of kube-apiserver.
    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    /// The certificate that signed kube-apiserver's, as PEM.
    pub fn certificate_authority(&self) -> String {
        self.certificate_authority.clone()
    }

    /// A client in group `system:masters`.
    pub fn admin(&self) -> kube::Client {
        self.admin.clone()
    }

    /// What kube-apiserver has recorded so far, line by line.
    pub fn audit_log(&self) -> Vec<String> {
        let log = self.processes.folder().join(programs::AUDIT_LOG);
        let text = std::fs::read_to_string(log).expect("the audit log");
        text.lines().map(str::to_owned).collect()
    }

    /// Polls the condition until it holds.
    pub async fn wait_until(&self, what: &str, holds: impl AsyncFnMut() -> bool) {
        self.processes.wait_until(what, holds).await;
    }
}

/// Bound and never listening: with `SO_REUSEPORT` on both sides kube-apiserver may have the port,
/// and no other process gets it.
fn reserve_port() -> TcpSocket {
    let reserve = || {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseport(true)?;
        socket.bind(([127, 0, 0, 1], 0).into())?;
        Ok::<_, std::io::Error>(socket)
    };
    reserve().expect("a free port on loopback")
}

async fn admin_client(endpoint: &str, authority: &str) -> kube::Client {
    let kubeconfig = programs::user_kubeconfig(endpoint, authority, programs::ADMIN_TOKEN);
    let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig).expect("a valid kubeconfig");
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .expect("a valid kubeconfig");
    // Taken from HTTPS_PROXY, whatever NO_PROXY says of loopback.
    config.proxy_url = None;
    kube::Client::try_from(config).expect("a client of a valid configuration")
}

/// The namespace `default` and its Service `kubernetes` come a moment after `/readyz` is content.
async fn is_ready(admin: &kube::Client) -> bool {
    let request = http::Request::get("/readyz").body(Vec::new()).expect("a valid request");
    let services: Api<Service> = Api::namespaced(admin.clone(), "default");
    admin.request_text(request).await.is_ok()
        && matches!(services.get_opt("kubernetes").await, Ok(Some(_)))
}

/// Each namespace is given its default `ServiceAccount` by one of the controllers.
async fn controllers_work(admin: &kube::Client) -> bool {
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "default");
    matches!(accounts.get_opt("default").await, Ok(Some(_)))
}
