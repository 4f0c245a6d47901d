//! The EKS Pod Identity agent of a node: for the token of a pod's ServiceAccount it gives credentials
//! of the role that is associated with it.
//! <https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html>

use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use serde_json::json;
use tokio::net::TcpListener;

use testbed::identity::AccessKey;

/// The running agent; it ends with the tokio runtime.
pub struct PodIdentityAgent {
    address: SocketAddr,
}

#[derive(Clone)]
struct Association {
    token: String,
    key: AccessKey,
}

impl PodIdentityAgent {
    /// Starts an agent that gives `key` to who has `token`.
    pub async fn start(token: &str, key: AccessKey) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let address = listener.local_addr().expect("the bound address");
        let association = Association { token: token.to_owned(), key };
        let router =
            Router::new().route("/v1/credentials", get(credentials)).with_state(association);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address }
    }

    /// `AWS_CONTAINER_CREDENTIALS_FULL_URI`; on a node the address is link-local.
    pub fn url(&self) -> String {
        format!("http://{}/v1/credentials", self.address)
    }
}

async fn credentials(State(association): State<Association>, headers: HeaderMap) -> Response {
    let token = headers.get("authorization").and_then(|value| value.to_str().ok());
    if token != Some(association.token.as_str()) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let key = association.key;
    let expires = key.expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let credentials = json!({
        "AccessKeyId": key.id,
        "SecretAccessKey": key.secret,
        "Token": key.session_token,
        "AccountId": key.principal.account,
        "Expiration": expires,
    });
    Json(credentials).into_response()
}
