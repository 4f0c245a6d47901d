//! AWS profiles: the credentials and the Region in one, or a program that gives out credentials.
//!
//! Profiles of IAM Identity Center, as `aws configure sso` writes them: the plugin exchanges the token that
//! `aws sso login` has left for the credentials of a role.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use axum::Json;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use serde_json::{Value, json};

use super::terminal::{ROLE, Terminal, answering, deploy, in_step, with_function};
use testbed::Sandbox;
use testbed::identity::AccessKey;

/// A terminal, and a key that its environment does not have.
async fn with_a_key() -> (Sandbox, Terminal, AccessKey) {
    let sandbox = Sandbox::start().await.cluster("blue").await;
    deploy(&sandbox, &[], answering(Ok(in_step())));
    let terminal = Terminal::new(&sandbox, &["blue"]);
    let key = sandbox.aws().identities.issue(ROLE, "alice", Duration::from_hours(1));
    (sandbox, terminal, key)
}

/// A plan is made with the profile `work` of this file, and no credentials of the environment.
async fn plans_with(terminal: &mut Terminal, profile: &str) {
    terminal.set("AWS_CONFIG_FILE", &terminal.file(".aws/config", profile));
    terminal.sign_out();
    let printed = terminal.run("plan --profile work").await;
    assert_eq!((printed.code, printed.errors.as_str()), (Some(0), ""), "{printed:?}");
}

#[tokio::test]
async fn a_profile_brings_its_credentials_and_region() {
    let (_sandbox, mut terminal, key) = with_a_key().await;
    let profile = format!(
        "[profile work]\nregion = eu-central-1\naws_access_key_id = {}\naws_secret_access_key = {}\n\
         aws_session_token = {}\n",
        key.id, key.secret, key.session_token
    );
    terminal.unset("AWS_REGION");
    plans_with(&mut terminal, &profile).await;
}

#[tokio::test]
async fn a_profile_may_have_a_program_that_gives_out_credentials() {
    let (_sandbox, mut terminal, key) = with_a_key().await;
    let credentials = json!({
        "Version": 1, "AccessKeyId": key.id, "SecretAccessKey": key.secret,
        "SessionToken": key.session_token, "Expiration": key.expires.to_string(),
    });
    let credentials = terminal.file("credentials.json", &credentials.to_string());
    let profile = format!("[profile work]\ncredential_process = cat {credentials}\n");
    plans_with(&mut terminal, &profile).await;
}

const TOKEN: &str = "the-token-of-a-sign-in";
const PROFILE: &str = "
[profile team]
sso_session = corporate
sso_account_id = 111122223333
sso_role_name = developer

[sso-session corporate]
sso_region = eu-central-1
sso_start_url = https://example.awsapps.com/start
";
/// The SHA-1 of `corporate`, by which the AWS CLI names the file.
const TOKEN_FILE: &str = ".aws/sso/cache/e276d18d65653fa285155bfd3e11ab029306830c.json";

/// The portal's GetRoleCredentials, at an address of its own.
async fn portal(key: AccessKey) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound");
    let routes =
        axum::Router::new().route("/federation/credentials", get(role_credentials)).with_state(key);
    tokio::spawn(async move { axum::serve(listener, routes).await });
    format!("http://{address}")
}

async fn role_credentials(
    State(key): State<AccessKey>,
    Query(asked): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
) -> Result<Json<Value>, StatusCode> {
    let is = |name: &str, value: &str| asked.get(name).is_some_and(|it| it == value);
    let token = headers.get("x-amz-sso_bearer_token").is_some_and(|it| it == TOKEN);
    if !(token && is("account_id", "111122223333") && is("role_name", "developer")) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    let expires = SystemTime::now() + Duration::from_hours(1);
    let expires = expires.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    Ok(Json(json!({ "roleCredentials": {
        "accessKeyId": key.id, "secretAccessKey": key.secret, "sessionToken": key.session_token,
        "expiration": u64::try_from(expires.as_millis()).expect("in range"),
    }})))
}

#[tokio::test]
async fn a_profile_of_identity_center_is_used_after_a_sign_in_and_an_error_asks_for_one() {
    let (world, _, _lambda, mut terminal) = with_function(&[]).await;
    let aws = world.sandbox.aws();
    let key = aws.identities.issue(ROLE, "alice", Duration::from_hours(1));
    terminal.sign_out();
    terminal.set("AWS_ENDPOINT_URL_SSO", &portal(key).await);
    terminal.file(".aws/config", PROFILE);

    let refused = terminal.run("plan -n shop --profile team").await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.errors.contains("failed to load the cached SSO token"), "{refused:?}");

    let token = json!({
        "accessToken": TOKEN, "expiresAt": "2099-01-01T00:00:00Z", "region": "eu-central-1",
        "startUrl": "https://example.awsapps.com/start",
    });
    terminal.file(TOKEN_FILE, &token.to_string());
    let plan = terminal.run("plan -n shop --profile team").await;
    assert_eq!((plan.code, plan.errors.as_str()), (Some(2), ""), "{plan:?}");
    assert!(plan.output.contains("\nplan: 1 to register, 1 not ours; "), "{}", plan.output);
}
