//! AWS profiles: the credentials and the Region in one, or a program that gives out credentials.

use std::time::Duration;

use serde_json::json;

use super::terminal::{ROLE, Terminal, answering, deploy, in_step};
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

#[tokio::test]
async fn a_profile_brings_its_credentials_and_region() {
    let (_sandbox, mut terminal, key) = with_a_key().await;
    let profile = format!(
        "[profile work]\nregion = eu-central-1\naws_access_key_id = {}\naws_secret_access_key = {}\n\
         aws_session_token = {}\n",
        key.id, key.secret, key.session_token
    );
    let file = terminal.file(".aws/config", &profile);
    terminal.set("AWS_CONFIG_FILE", &file);
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"] {
        terminal.unset(name);
    }

    let printed = terminal.run("plan --profile work").await;

    assert_eq!((printed.code, printed.errors.as_str()), (Some(0), ""), "{printed:?}");
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
    let file = terminal.file(".aws/config", &profile);
    terminal.set("AWS_CONFIG_FILE", &file);
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"] {
        terminal.unset(name);
    }

    let printed = terminal.run("plan --profile work").await;

    assert_eq!((printed.code, printed.errors.as_str()), (Some(0), ""), "{printed:?}");
}
