//! Actions that an installation reserves to an alias of the function.

use serde_json::json;

use crate::fleet::Fleet;
use testbed::function::{event, invoke, invoke_through};

#[tokio::test]
async fn administrative_actions_are_accepted_only_through_the_alias() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    let function = fleet.function_with(&[("CLUSTERS", "blue"), ("ADMIN_ALIAS", "admin")]).await;
    let arn = fleet.sandbox.cluster_arn("blue");
    let command = |action: &str| json!({"action": action, "cluster": arn});

    for action in ["adopt", "confirm", "purge"] {
        for qualifier in [None, Some("live"), Some("$LATEST"), Some("Admin")] {
            let answer = invoke_through(&function, qualifier, &command(action)).await;
            let refused = answer.response.expect_err("reserved");
            assert_eq!(refused.kind(), "NotThroughAlias");
            let named = refused.to_string();
            assert!(named.contains(action) && named.contains("--qualifier admin"), "{named}");
            assert!(qualifier.is_none_or(|it| named.contains(&format!("through {it}"))), "{named}");
        }
        let answer = invoke_through(&function, Some("admin"), &command(action)).await;
        assert!(answer.response.is_ok(), "{action}: {answer:?}");
    }
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"], "confirm is a sync");
}

#[tokio::test]
async fn all_else_is_accepted_without_it_and_without_the_setting_everything_is() {
    let fleet = Fleet::start().await;
    let reserved = fleet.function_with(&[("CLUSTERS", "blue"), ("ADMIN_ALIAS", "admin")]).await;
    let command = |action: &str| json!({"action": action, "cluster": "blue"});
    for action in ["plan", "sync", "status", "doctor"] {
        let answer = invoke(&reserved, &command(action)).await;
        assert!(answer.response.is_ok(), "{action}: {answer:?}");
    }
    for of_a_schedule in ["schedule-eventbridge-rule", "direct-cleanup"] {
        assert!(invoke(&reserved, &event(of_a_schedule)).await.response.is_ok());
    }

    let open = fleet.function().await;
    for action in ["adopt", "confirm"] {
        assert!(invoke(&open, &command(action)).await.response.is_ok(), "{action}");
    }
}
