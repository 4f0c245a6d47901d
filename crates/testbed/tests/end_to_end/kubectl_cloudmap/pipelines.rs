//! What a pipeline asks of the plugin: to wait for a state, and an exit code for what is held back or differs.
//!
//! The parts of an answer that a person asks for: some names, names alone, what changes, and words to complete.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::terminal::{Terminal, answering, deploy, in_step, with_function};
use crate::cold_start::stand_in;
use testbed::Sandbox;
use testbed::kubernetes::{Headless, Pod};
use testbed::lambda::Handler;

#[tokio::test]
async fn wait_ends_when_the_service_is_registered_or_empty_or_the_time_is_over() {
    let (_world, blue, _lambda, terminal) = with_function(&[]).await;

    let wait = terminal.run("wait service/web -n shop --for registered --timeout 1s").await;
    let said = "not registered in time: no instance is registered; 1 change to make\n";
    assert_eq!((wait.code, wait.output.as_str()), (Some(1), said), "{wait:?}");

    let sync = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        terminal.run("sync -n shop").await
    };
    let wait = terminal.run("wait service/web -n shop --for=registered --timeout=2m");
    let (wait, sync) = tokio::join!(wait, sync);
    assert_eq!(sync.code, Some(0), "{sync:?}");
    assert_eq!(wait.output, "1 registered under prod.local/web\n", "{wait:?}");
    assert_eq!((wait.code, wait.errors.as_str()), (Some(0), ""));

    blue.pods("shop", "web", &[]);
    let wait = terminal.run("wait service/web -n shop --for empty --timeout 1s").await;
    assert_eq!(wait.code, Some(1), "{wait:?}");
    assert_eq!(terminal.run("sync -n shop").await.code, Some(0));
    let wait = terminal.run("wait service/web -n shop --for empty --timeout 1s").await;
    assert_eq!((wait.code, wait.output.as_str()), (Some(0), "no instance is registered\n"));

    let missing = terminal.run("wait service/webb -n shop --for empty --timeout 1s").await;
    let said = "no instance is registered; no Service of this name asks for a name in Cloud Map: check its name and \
                namespace\n";
    assert_eq!((missing.code, missing.output.as_str()), (Some(0), said));

    let nothing = terminal.run("wait -n shop --for empty").await;
    assert!(nothing.errors.contains("add service/NAME"), "{nothing:?}");
    let long = terminal.run("wait service/web --for empty --timeout soon").await;
    assert!(long.errors.contains("\"soon\" is not a duration such as 90s"), "{long:?}");
}

#[tokio::test]
async fn held_back_service_fails_a_pipeline_that_asks_for_it() {
    let (_world, blue, _lambda, terminal) = with_function(&[]).await;
    let fine = terminal.run("plan -A --fail-on held-back").await;
    assert_eq!((fine.code, fine.errors.as_str()), (Some(2), ""), "{fine:?}");

    let wrong = Headless::new("shop", "wrong").annotate("cloudmap.controller/hostname", "a b");
    blue.service(wrong);

    assert_eq!(terminal.run("plan -A").await.code, Some(2));
    for verb in ["plan", "sync"] {
        let failed = terminal.run(&format!("{verb} -A --fail-on held-back")).await;
        assert_eq!(failed.code, Some(1), "{failed:?}");
        assert_eq!(failed.errors, "error: 1 held back (--fail-on held-back)\n");
        assert!(failed.output.contains("BadAnnotation"), "the answer is shown: {failed:?}");
    }
}

#[tokio::test]
async fn another_release_of_the_function_is_named_on_standard_error() {
    let sandbox = Sandbox::start().await.cluster("blue").await;
    let mut answer = in_step();
    answer["release"] = json!("9.9.9");
    deploy(&sandbox, &[], answering(Ok(answer)));

    let printed = Terminal::new(&sandbox, &["blue"]).run("plan").await;

    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert!(
        printed.errors.starts_with("note: the function's release is 9.9.9, and this plugin's is ")
    );
    assert!(!printed.output.contains("9.9.9"));
}

#[tokio::test]
async fn wait_ends_with_its_timeout_whatever_the_function_does() {
    let sandbox = Sandbox::start().await.cluster("blue").await;
    let slow: Handler = Arc::new(|_, _| {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(30)).await;
            Ok(in_step())
        })
    });
    deploy(&sandbox, &[], slow);
    let terminal = Terminal::new(&sandbox, &["blue"]);
    let start = Instant::now();

    let wait = terminal.run("wait svc/web -n shop --for registered --timeout 2s").await;

    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    let said = "not registered in time: the function did not answer\n";
    assert_eq!((wait.code, wait.output.as_str()), (Some(1), said), "{wait:?}");
}

#[tokio::test]
async fn error_after_the_first_answer_does_not_end_a_wait() {
    let sandbox = Sandbox::start().await.cluster("blue").await;
    let looks = AtomicU32::new(0);
    let failing: Handler = Arc::new(move |_, _| {
        let look = looks.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let web = json!({"namespace": "prod", "name": "web", "unchanged": u8::from(look > 1)});
            let mut answer = in_step();
            answer["clusters"] = json!([{"cluster": "blue", "services": [web]}]);
            if look == 1 { Err(json!({"errorType": "Sandbox.Timedout"})) } else { Ok(answer) }
        })
    });
    deploy(&sandbox, &[], failing);
    let terminal = Terminal::new(&sandbox, &["blue"]);

    let wait = "wait svc/web -n shop --cluster blue --for registered --timeout 1m";
    let wait = terminal.run(wait).await;

    assert_eq!((wait.code, wait.output.as_str()), (Some(0), "1 registered under prod/web\n"));
}

#[tokio::test]
async fn status_of_one_name_or_namespace_leaves_the_rest_out() {
    let (_world, blue, _lambda, terminal) = with_function(&[]).await;
    blue.service(Headless::new("shop", "cart").claim("cart", "prod.local"));
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
async fn status_that_was_cut_does_not_say_that_a_name_is_missing() {
    let sandbox = Sandbox::start().await.cluster("blue").await;
    let cut = "9000 services: 1 this cluster; the status is too large";
    let answer = json!({
        "ok": true, "owner": "cloud-map-sync", "clusters": [], "registries": [], "cut": cut,
    });
    deploy(&sandbox, &[], answering(Ok(answer)));

    let status = Terminal::new(&sandbox, &["blue"]).run("status shop/web").await;

    assert_eq!((status.code, status.errors.as_str()), (Some(0), ""), "{status:?}");
    assert_eq!(status.output, format!("{cut}\n"));
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
    let said = String::from_utf8(output.await.expect("sh runs it").stdout).expect("text");
    assert_eq!(said, "json\tThe function's response\n:4\n");
}
