//! How a program in a pod gets at the API server: by a token of its ServiceAccount.

use std::path::PathBuf;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};

use super::{ControlPlane, programs};

impl ControlPlane {
    /// A token as kubelet asks for it on behalf of a pod.
    ///
    /// # Panics
    /// There is no such ServiceAccount.
    pub async fn service_account_token(&self, namespace: &str, name: &str) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin(), namespace);
        let spec =
            TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let answer = accounts.create_token_request(name, &PostParams::default(), &request).await;
        let answer =
            answer.unwrap_or_else(|error| panic!("a token for {namespace}/{name}: {error}"));
        answer.status.expect("a token").token
    }

    /// Writes a kubeconfig for `token`, which reaches the API server at `endpoint`.
    pub fn write_kubeconfig(&self, endpoint: &str, token: &str) -> PathBuf {
        let authority = &self.certificate_authority;
        programs::write_kubeconfig(self.processes.folder(), endpoint, authority, token)
    }
}
