//! The plugin with `--local`: the handler in its own process, with the credentials of the terminal.
//!
//! What a person learns where the function is not there, does not answer, or was asked for nothing that it does.

use serde_json::json;

use super::terminal::{ROLE, Terminal, answering, deploy, in_step};
use crate::cold_start::stand_in;
use testbed::Sandbox;
use testbed::kubernetes::BOUND_GROUP;

#[tokio::test]
async fn with_settings_in_the_environment_it_plans_and_syncs_as_the_function_does() {
    let (world, blue) = stand_in().await;
    blue.grant(ROLE, &[BOUND_GROUP]);
    let mut terminal = Terminal::new(&world.sandbox, &["blue"]);
    terminal.unset("CLOUD_MAP_SYNC_FUNCTION");
    terminal.set("CLUSTERS", &world.sandbox.cluster_arn("blue"));

    let plan = terminal.run("plan -A --local").await;
    assert_eq!((plan.code, plan.errors.as_str()), (Some(2), ""), "{plan:?}");
    assert!(plan.output.contains("\nplan: 1 to register, 1 not ours; "), "{}", plan.output);
    let sync = terminal.run("sync -A --local").await;
    assert_eq!(sync.code, Some(0), "{sync:?}");
    assert_eq!(world.addresses("prod.local", "web"), ["10.0.1.1"]);
    world.assert_that_the_ecs_task_is_unchanged();
}

#[tokio::test]
async fn with_a_function_named_its_settings_hold_and_it_is_not_invoked() {
    let (world, blue) = stand_in().await;
    blue.grant(ROLE, &[BOUND_GROUP]);
    let settings = [("CLUSTERS", "blue"), ("DRY_RUN", "true")];
    let payloads = deploy(&world.sandbox, &settings, answering(Ok(in_step())));
    let mut terminal = Terminal::new(&world.sandbox, &["blue"]);
    terminal.set("DRY_RUN", "false");

    let sync = terminal.run("sync -A --local").await;

    assert_eq!(sync.code, Some(2), "{sync:?}");
    assert!(sync.output.ends_with("dry run: 1 to register, 1 not ours\n"), "{}", sync.output);
    assert!(world.addresses("prod.local", "web").is_empty());
    assert!(payloads.lock().expect("no poisoned lock").is_empty());
}

#[tokio::test]
async fn what_is_wrong_with_the_settings_or_the_credentials_is_reported() {
    let (world, _) = stand_in().await;
    let mut terminal = Terminal::new(&world.sandbox, &["blue"]);
    terminal.unset("CLOUD_MAP_SYNC_FUNCTION");
    terminal.set("POLICY", "delete");

    let printed = terminal.run("plan -A --local").await;
    assert_eq!(printed.code, Some(1));
    let said =
        ["the settings in the environment cannot be used", "CLUSTERS: it is not set", "POLICY: "];
    for said in said {
        assert!(printed.errors.contains(said), "{said}: {printed:?}");
    }

    terminal.unset("POLICY");
    terminal.set("CLUSTERS", "blue");
    let printed = terminal.run("plan -A --local").await;
    assert_eq!(printed.code, Some(1), "{printed:?}");
    assert!(
        printed.errors.contains("CLUSTERS: \"blue\" names no account and Region"),
        "{printed:?}"
    );

    let blue = world.sandbox.cluster_arn("blue");
    let green = blue.replace("/blue", "/green");
    terminal.set("CLUSTERS", &green);
    let printed = terminal.run("plan -A --local").await;
    let error = format!(
        "error: UnknownCluster: no configured cluster has this name or ARN; configured: {green}\n"
    );
    assert_eq!((printed.code, printed.errors), (Some(1), error));

    terminal.set("CLUSTERS", &blue);
    let printed = terminal.run("plan -A --local").await;
    assert_eq!(printed.code, Some(1), "{printed:?}");
    assert!(printed.output.contains("the token was refused (401)"), "{printed:?}");
}

#[tokio::test]
async fn a_function_that_lambda_ended_or_that_answers_something_else_is_an_error() {
    let sandbox = Sandbox::start().await.cluster("blue").await;
    let timed_out = json!({"errorType": "Sandbox.Timedout", "errorMessage": "Task timed out"});
    let rows = [
        (Err(timed_out), "the function sync failed with Sandbox.Timedout: Task timed out"),
        (Err(json!(null)), "the function sync failed with an error: the cause is in its log"),
        (Ok(json!({"batchItemFailures": []})), "cannot read the function's response"),
    ];
    for (answer, said) in rows {
        deploy(&sandbox, &[], answering(answer));
        let printed = Terminal::new(&sandbox, &["blue"]).run("plan").await;
        assert_eq!(printed.code, Some(1));
        assert!(printed.errors.contains(said), "{printed:?}");
    }
}

#[tokio::test]
async fn a_function_that_is_not_there_or_not_allowed_says_what_would_help() {
    let sandbox = Sandbox::start().await.cluster("blue").await;
    deploy(&sandbox, &[], answering(Ok(in_step())));
    let mut terminal = Terminal::new(&sandbox, &["blue"]);

    assert_eq!(terminal.run("plan --qualifier live").await.code, Some(0));
    for words in ["plan --function other", "plan --qualifier stale", "plan --region eu-west-1"] {
        let printed = terminal.run(words).await;
        assert_eq!(printed.code, Some(1), "{words}");
        assert!(printed.errors.contains("ResourceNotFoundException"), "{words}: {printed:?}");
        assert!(printed.errors.contains("check --region and --profile"), "{printed:?}");
    }
    let lifetime = std::time::Duration::from_hours(1);
    let stranger = "arn:aws:iam::111122223333:role/stranger";
    terminal.sign_in(&sandbox.aws().identities.issue(stranger, "bob", lifetime));
    let printed = terminal.run("plan").await;
    assert_eq!(printed.code, Some(1));
    assert!(printed.errors.contains("this needs lambda:InvokeFunction"), "{printed:?}");
}

#[tokio::test]
async fn mistakes_on_the_command_line_end_with_1_and_help_with_0() {
    let sandbox = Sandbox::start().await.cluster("blue").await;
    let mut terminal = Terminal::new(&sandbox, &["blue"]);
    for words in ["plan --no-such-option", "unknown", ""] {
        let printed = terminal.run(words).await;
        assert_eq!((printed.code, printed.output.as_str()), (Some(1), ""), "{words}");
        assert!(printed.errors.contains("Usage: kubectl cloudmap"), "{words}: {printed:?}");
    }
    terminal.unset("CLOUD_MAP_SYNC_FUNCTION");
    let printed = terminal.run("plan").await;
    assert_eq!(printed.code, Some(1));
    assert!(printed.errors.contains("--function <NAME>"), "{printed:?}");
    let help = terminal.run("--help").await;
    assert_eq!((help.code, help.errors.as_str()), (Some(0), ""));
    assert!(help.output.contains("Exit codes: 0 in sync"), "{help:?}");
}
