//! The plugin with `--local`: the handler in its own process, with the credentials of the terminal.

use super::terminal::{ROLE, Terminal, answering, deploy, in_step};
use crate::payloads::stand_in;
use testbed::kubernetes::BOUND_GROUP;

#[tokio::test]
async fn with_settings_in_the_environment_it_plans_and_syncs_as_the_function_does() {
    let (world, blue) = stand_in().await;
    blue.grant(ROLE, &[BOUND_GROUP]);
    let mut terminal = Terminal::new(&world.sandbox, &["blue"]);
    terminal.unset("CLOUD_MAP_SYNC_FUNCTION");
    terminal.set("CLUSTERS", "blue");

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
    terminal.set("CLUSTERS", "green");
    let printed = terminal.run("plan -A --local").await;
    assert_eq!(
        (printed.code, printed.errors.as_str()),
        (
            Some(1),
            "error: UnknownCluster: no configured cluster has this name or ARN; configured: green\n"
        )
    );

    terminal.set("CLUSTERS", "blue");
    let printed = terminal.run("plan -A --local").await;
    assert_eq!(printed.code, Some(1), "{printed:?}");
    assert!(printed.output.contains("the token was refused (401)"), "{printed:?}");
}
