//! The parts of an answer that a person asks for: some names, names alone, what changes, and words to complete.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::terminal::{Terminal, with_function};
use crate::payloads::stand_in;
use testbed::kubernetes::{Headless, Pod};

#[tokio::test]
async fn status_of_one_name_or_namespace_leaves_the_rest_out() {
    let (_world, blue, _lambda, terminal) = with_function(&[]).await;
    let cart = Headless::new("shop", "cart")
        .annotate("cloudmap.controller/hostname", "cart")
        .annotate("cloudmap.controller/namespace", "prod.local");
    blue.service(cart);
    blue.pods("shop", "cart", &[Pod::new("cart-a", "10.0.7.1")]);
    assert_eq!(
        terminal.run("plan -n shop -o name").await.output,
        "prod.local/cart\nprod.local/web\n"
    );
    assert_eq!(
        terminal.run("sync -n shop -o name").await.output,
        "prod.local/cart\nprod.local/web\n"
    );
    assert_eq!(terminal.run("plan -n shop -o name").await.output, "");

    let names = async |words: &str| terminal.run(&format!("status {words} -o name")).await.output;
    assert_eq!(names("").await, "prod.local/cart\nprod.local/web\n");
    assert_eq!(names("web").await, "prod.local/web\n");
    assert_eq!(names("prod.local/cart").await, "prod.local/cart\n");
    assert_eq!(names("-n prod.local").await, names("").await);
    assert_eq!(names("-n other").await, "");
    let json: Value = terminal.run("status cart -o json").await.output.parse().expect("JSON");
    assert_eq!(json["registries"][0]["services"].as_array().map(Vec::len), Some(1), "{json}");
    let missing = terminal.run("status nowhere").await;
    assert_eq!((missing.code, missing.output.as_str()), (Some(1), ""));
    let said =
        "error: no Cloud Map service is named nowhere; without a name, status lists all of them\n";
    assert_eq!(missing.errors, said);
    assert_eq!(
        terminal.run("explain service/web -n shop -o name").await.output,
        "prod.local/web\n"
    );
}

#[tokio::test]
async fn watch_prints_what_has_changed_until_it_is_ended() {
    let (_world, _, _lambda, terminal) = with_function(&[]).await;
    let mut plan = terminal.start("plan -n shop --watch -o name");
    let mut status = terminal.start("status web --watch -o json");
    let mut planned = BufReader::new(plan.stdout.take().expect("piped")).lines();
    let mut shown = BufReader::new(status.stdout.take().expect("piped")).lines();
    assert_eq!(planned.next_line().await.expect("text").as_deref(), Some("prod.local/web"));
    assert_eq!(shown.next_line().await.expect("text").as_deref(), Some("{"));

    assert_eq!(terminal.run("sync -n shop").await.code, Some(0));

    assert_eq!(planned.next_line().await.expect("text").as_deref(), Some(""), "nothing is planned");
    let mut next = String::new();
    while !next.contains("\"count\": 1") {
        next = shown.next_line().await.expect("text").expect("another answer");
    }
    for mut process in [plan, status] {
        assert_eq!(process.try_wait().expect("its state"), None, "it goes on");
        process.kill().await.expect("it is ended");
    }
    let refused = terminal.run("sync --watch").await;
    assert!(refused.errors.contains("unexpected argument '--watch'"), "{refused:?}");
}

#[tokio::test]
async fn program_for_kubectl_completes_the_words() {
    let (world, _) = stand_in().await;
    let terminal = Terminal::new(&world.sandbox, &["blue"]);
    let program = terminal.run("completion").await;
    assert_eq!((program.code, program.errors.as_str()), (Some(0), ""), "{program:?}");
    let path = terminal.file("kubectl_complete-cloudmap", &program.output);
    let plugin = testbed::programs::program("kubectl-cloudmap");
    let output = tokio::process::Command::new("/bin/sh")
        .args([&path, "plan", "-o", "j"])
        .env("PATH", plugin.parent().expect("a folder"))
        .stdin(Stdio::null())
        .output();
    let output = output.await.expect("sh runs it");
    let said = String::from_utf8(output.stdout).expect("text");
    assert_eq!(said, "json\tThe function's response\n:4\n");
}
