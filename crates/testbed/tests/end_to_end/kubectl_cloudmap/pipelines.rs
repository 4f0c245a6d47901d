//! What a pipeline asks of the plugin: to wait for a state, and an exit code for what is held back or differs.

use serde_json::json;

use super::terminal::{Terminal, answering, deploy, in_step};
use crate::payloads::stand_in;
use crate::sandbox::Sandbox;
use crate::sandbox::kubernetes::Headless;

#[tokio::test]
async fn wait_ends_when_the_service_is_registered_or_empty_or_the_time_is_over() {
    let (world, blue) = stand_in().await;
    let lambda = world.lambda(&[]).await;
    deploy(&world.sandbox, &[], lambda.handler());
    let terminal = Terminal::new(&world.sandbox, &["blue"]);

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

    let nothing = terminal.run("wait -n shop --for empty").await;
    assert!(nothing.errors.contains("add service/NAME"), "{nothing:?}");
    let long = terminal.run("wait service/web --for empty --timeout soon").await;
    assert!(long.errors.contains("\"soon\" is not a duration such as 90s"), "{long:?}");
}

#[tokio::test]
async fn held_back_service_fails_a_pipeline_that_asks_for_it() {
    let (world, blue) = stand_in().await;
    let lambda = world.lambda(&[]).await;
    deploy(&world.sandbox, &[], lambda.handler());
    let terminal = Terminal::new(&world.sandbox, &["blue"]);
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
