//! The command line of each program of the control plane, and the files that they read, all in the
//! control plane's folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::binaries::Binaries;
use super::certificates::{
    AUTHORITY_CERTIFICATE, KUBELET_CLIENT_CERTIFICATE, KUBELET_CLIENT_KEY, SERVER_CERTIFICATE,
    SERVER_KEY, SERVICE_ACCOUNT_KEY, SERVICE_ACCOUNT_PUBLIC_KEY,
};
use super::{GROUP, Options};

/// The administrator's.
pub(super) const ADMIN_TOKEN: &str = "administrator";
const ADMIN_TOKEN_FILE: &str = "tokens.csv";
const WEBHOOK_KUBECONFIG: &str = "token-verifier.kubeconfig";
const AUDIT_POLICY: &str = "audit-policy.json";
/// What kube-apiserver records, a line of JSON for each event.
pub(super) const AUDIT_LOG: &str = "audit.log";

/// Only what the tests look at: `EndpointSlices` and Endpoints, what a Deployment or StatefulSet makes and a deleted
/// Service or namespace takes with it, and the `ServiceAccounts` by which one sees that controllers work.
const CONTROLLERS: &str = "deployment-controller,replicaset-controller,statefulset-controller,\
    endpoints-controller,endpointslice-controller,\
    endpointslice-mirroring-controller,garbage-collector-controller,namespace-controller,\
    serviceaccount-controller";

/// The addresses of Services, of each family.
const RANGES: [&str; 2] = ["10.96.0.0/12", "fd00:96::/108"];

/// The file in which token-verifier says where it listens.
pub(super) const WEBHOOK_ADDRESS: &str = "token-verifier.url";

/// etcd on a socket, so that it needs no port.
pub(super) fn etcd(binaries: &Binaries, folder: &Path) -> Command {
    let mut command = binaries.etcd();
    command
        .args(["--name", "control-plane", "--log-level", "warn", "--unsafe-no-fsync"])
        .arg(flag("data-dir", folder, "etcd"))
        .arg(format!("--listen-client-urls={}", etcd_address(folder)))
        .arg(format!("--listen-peer-urls={}-peers", etcd_address(folder)))
        // Must look like a host and a port, and no client gets it.
        .arg("--advertise-client-urls=http://localhost:2379");
    command
}

/// The webhook that authenticates EKS tokens. The credentials stay out of its command line.
pub(super) fn token_verifier(binaries: &Binaries, folder: &Path, options: &Options) -> Command {
    let Options { identity, key, .. } = options;
    let mut command = binaries.program("token-verifier");
    command
        .args(["--cluster", &identity.name, "--region", &identity.region])
        .args(["--group", GROUP])
        .arg(flag("address-file", folder, WEBHOOK_ADDRESS))
        .env("AWS_ACCESS_KEY_ID", &key.id)
        .env("AWS_SECRET_ACCESS_KEY", &key.secret)
        .env("AWS_SESSION_TOKEN", &key.session_token);
    command
}

/// kube-apiserver on the reserved port of `endpoint`; token-verifier has printed its address by now.
pub(super) fn kube_apiserver(
    binaries: &Binaries,
    folder: &Path,
    endpoint: &str,
    is_single_stack: bool,
) -> Command {
    let webhook = fs::read_to_string(folder.join(WEBHOOK_ADDRESS)).expect("the webhook's address");
    let webhook = kubeconfig(&json!({"server": webhook}), &json!({}));
    write(folder, WEBHOOK_KUBECONFIG, &webhook.to_string());
    write(folder, ADMIN_TOKEN_FILE, &format!("{ADMIN_TOKEN},admin,admin,system:masters\n"));
    write(folder, AUDIT_POLICY, &audit_policy().to_string());

    let ranges = if is_single_stack { &RANGES[..1] } else { &RANGES[..] };
    let ranges = ranges.join(",");
    let port = endpoint.rsplit(':').next().unwrap_or_default();
    let mut command = binaries.kube_apiserver();
    command
        .args(["--bind-address=127.0.0.1", "--permit-port-sharing", "--secure-port", port])
        // Not this machine's own address: it may have none but loopback, which is refused.
        .args(["--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none"])
        .arg(format!("--service-cluster-ip-range={ranges}"))
        .arg(format!("--etcd-servers={}", etcd_address(folder)))
        .arg(flag("cert-dir", folder, "certificates"))
        .arg(flag("tls-cert-file", folder, SERVER_CERTIFICATE))
        .arg(flag("tls-private-key-file", folder, SERVER_KEY))
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg(flag("service-account-key-file", folder, SERVICE_ACCOUNT_PUBLIC_KEY))
        .arg(flag("service-account-signing-key-file", folder, SERVICE_ACCOUNT_KEY))
        .arg(flag("audit-policy-file", folder, AUDIT_POLICY))
        .arg(flag("audit-log-path", folder, AUDIT_LOG))
        .arg("--kubelet-preferred-address-types=InternalIP")
        .arg(flag("kubelet-certificate-authority", folder, AUTHORITY_CERTIFICATE))
        .arg(flag("kubelet-client-certificate", folder, KUBELET_CLIENT_CERTIFICATE))
        .arg(flag("kubelet-client-key", folder, KUBELET_CLIENT_KEY))
        .arg("--authorization-mode=RBAC")
        .arg(flag("token-auth-file", folder, ADMIN_TOKEN_FILE))
        .arg(flag("authentication-token-webhook-config-file", folder, WEBHOOK_KUBECONFIG))
        .arg("--authentication-token-webhook-version=v1")
        // Pods without ServiceAccounts.
        .arg("--disable-admission-plugins=ServiceAccount");
    command
}

/// As EKS has it: whole requests and responses of the core group, and of others that something happened.
fn audit_policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "RequestResponse", "resources": [{"group": ""}], "verbs":
                ["create", "update", "patch", "delete", "deletecollection"]},
            {"level": "Metadata"},
        ],
    })
}

/// The controllers, as administrator and without a port of their own.
pub(super) fn kube_controller_manager(binaries: &Binaries, kubeconfig: &Path) -> Command {
    let mut command = binaries.kube_controller_manager();
    command
        .args(["--leader-elect=false", "--secure-port=0"])
        .args(["--kube-api-qps=500", "--kube-api-burst=1000"])
        .args(["--controllers", CONTROLLERS])
        .arg("--kubeconfig")
        .arg(kubeconfig);
    command
}

/// How to reach kube-apiserver as the user whose token this is.
pub(super) fn user_kubeconfig(endpoint: &str, authority: &str, token: &str) -> Value {
    let cluster =
        json!({"server": endpoint, "certificate-authority-data": STANDARD.encode(authority)});
    kubeconfig(&cluster, &json!({"token": token}))
}

fn kubeconfig(cluster: &Value, user: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": user}],
    })
}

fn etcd_address(folder: &Path) -> String {
    format!("unix://{}", folder.join("etcd.sock").display())
}

pub(super) fn flag(name: &str, folder: &Path, file: &str) -> String {
    format!("--{name}={}", folder.join(file).display())
}

pub(super) fn write(folder: &Path, name: &str, content: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, content).expect("the folder of the test is writable");
    path
}
