//! The verbs that need neither the function nor a cluster.

use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

const PLUGIN: &str = env!("CARGO_BIN_EXE_kubectl-cloudmap");
const WRONG: &str = "apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: shop
  annotations: {cloudmap.controller/hostname: web, cloudmap.controller/ttl: a minute}
spec: {clusterIP: None}
";

/// Output and exit code of the plugin with this input. Its environment has no AWS and no cluster.
async fn printed(words: &str, input: &str) -> (String, Option<i32>) {
    let mut plugin = Command::new(PLUGIN)
        .args(words.split_whitespace())
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the plugin");
    let mut stdin = plugin.stdin.take().expect("piped");
    stdin.write_all(input.as_bytes()).await.expect("written");
    drop(stdin);
    let output = plugin.wait_with_output().await.expect("an end");
    (String::from_utf8(output.stdout).expect("text"), output.status.code())
}

#[tokio::test]
async fn manifests_are_judged_with_an_exit_code() {
    let (said, code) = printed("validate -f -", WRONG).await;
    let mistake =
        "! shop/web: annotation cloudmap.controller/ttl is \"a minute\": it must be whole seconds";
    assert!(said.starts_with(mistake) && code == Some(1), "{said} {code:?}");
    let (said, code) = printed("validate -f -", &WRONG.replace("a minute", "\"60\"")).await;
    assert_eq!((said.as_str(), code), ("= shop/web\n1 annotated, 0 with mistakes\n", Some(0)));
    let (_, code) = printed("validate -f missing.yaml", "").await;
    assert_eq!(code, Some(1));
}

#[tokio::test]
async fn admission_policy_is_printed_as_it_is_or_for_another_prefix() {
    let file = include_str!("../../../deploy/admission.yaml");
    assert_eq!(printed("admission", "").await, (file.to_owned(), Some(0)));
    let (other, _) = printed("admission --prefix example.com --warn", "").await;
    assert!(other.contains("'example.com/hostname' in object.metadata.annotations"), "{other}");
    assert!(other.contains("validationActions: [Warn]"), "{other}");
}
