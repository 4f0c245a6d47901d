//! What a person learns where the function is not there, does not answer, or was asked for nothing that it does.

use serde_json::json;

use super::terminal::{Terminal, answering, deploy, in_step};
use testbed::Sandbox;

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
