//! The plugin through Lambda's Invoke, with the function's binary behind it.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::terminal::{Terminal, answering, deploy, in_step, with_function};
use testbed::Sandbox;
use testbed::cloud_map::Behaviour;

const BLUE: &str = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";

#[tokio::test]
async fn a_plan_is_shown_a_sync_makes_it_true_and_the_next_plan_finds_nothing_to_do() {
    let (world, _, _lambda, terminal) = with_function(&[]).await;

    let plan = terminal.run("plan -n shop").await;
    assert_eq!((plan.code, plan.errors.as_str()), (Some(2), ""), "{plan:?}");
    let remark = "~ remark     shop/web (NeighboursDiffer): every other instance under this name has ECS_CLUSTER_NAME, \
                  ECS_SERVICE_NAME, ECS_TASK_DEFINITION_FAMILY, which those of this Service lack, so callers that read it \
                  do not reach them: annotate attributes: \
                  ECS_CLUSTER_NAME=legacy,ECS_SERVICE_NAME=web,ECS_TASK_DEFINITION_FAMILY=web";
    let expected = format!(
        "cluster {BLUE}\n  prod.local/web\n    + register   ip-10-0-1-1-22162b0180  10.0.1.1 (pod web-a)\n    \
         = left alone, not ours: 1 ECS\n    {remark}\nplan: 1 to register, 1 not ours; NAME_POLICY allows every \
         Service every name\n"
    );
    assert_eq!(plan.output, expected);
    assert!(world.addresses("prod.local", "web").is_empty(), "a plan writes nothing");

    let sync = terminal.run("sync -n shop service/web").await;
    assert_eq!(sync.code, Some(0), "{sync:?}");
    assert!(sync.output.ends_with("synced: 1 registered, 1 not ours\n"), "{}", sync.output);
    assert_eq!(world.addresses("prod.local", "web"), ["10.0.1.1"]);

    let plan = terminal.run("plan -A").await;
    assert_eq!(plan.code, Some(0), "{plan:?}");
    assert!(plan.output.contains("\nplan: 1 unchanged, 1 not ours; "), "{}", plan.output);
    world.assert_that_the_ecs_task_is_unchanged();
}

#[tokio::test]
async fn a_sync_that_may_have_run_is_not_sent_again() {
    let (world, _, _lambda, terminal) = with_function(&[]).await;
    let lambda = &world.sandbox.aws().lambda;

    lambda.refuse(StatusCode::TOO_MANY_REQUESTS, "TooManyRequestsException");
    let throttled = terminal.run("sync -n shop service/web").await;
    assert_eq!(throttled.code, Some(0), "{throttled:?}");

    lambda.refuse(StatusCode::INTERNAL_SERVER_ERROR, "ServiceException");
    let failed = terminal.run("sync -n shop service/web").await;
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.errors.contains("the function may have run"), "{failed:?}");

    lambda.refuse(StatusCode::INTERNAL_SERVER_ERROR, "ServiceException");
    let plan = terminal.run("plan -n shop service/web").await;
    assert_eq!(plan.code, Some(0), "{plan:?}");
}

#[tokio::test]
async fn every_format_says_the_same() {
    let (_world, _, _lambda, terminal) = with_function(&[]).await;

    let report = terminal.run("plan -A -o json").await;
    assert_eq!(report.code, Some(2), "{report:?}");
    let report: Value = serde_json::from_str(&report.output).expect("JSON");
    assert_eq!(report["clusters"][0]["services"][0]["lines"][0]["code"], "register");

    let yaml = terminal.run("plan -A -o yaml").await;
    assert_eq!(yaml.code, Some(2), "{yaml:?}");
    let yaml: Value = serde_saphyr::from_str(&yaml.output).expect("YAML");
    assert_eq!(yaml, report);

    let wide = terminal.run("plan -A -o wide").await.output;
    assert!(wide.contains("(pod web-a)  for shop/web\n"), "{wide}");
    let page = terminal.run("plan -A -o md").await.output;
    assert!(page.contains("| register | prod.local/web | ip-10-0-1-1"), "{page}");
}

#[tokio::test]
async fn a_status_shows_who_has_instances_in_each_service() {
    let (_world, _, _lambda, terminal) = with_function(&[]).await;
    assert_eq!(terminal.run("sync -A").await.code, Some(0));

    let status = terminal.run("status").await;

    assert_eq!((status.code, status.errors.as_str()), (Some(0), ""), "{status:?}");
    let expected = "SERVICE         TYPE  THIS CLUSTER  OTHER CLUSTERS  ECS  OTHER TOOLS  UNKNOWN\n\
                    prod.local/web  A     1             -               1    -            -\n\
                    1 service: 1 this cluster, 1 ECS\n";
    assert_eq!(status.output, expected);
    let wide = terminal.run("status -o wide").await.output;
    assert!(wide.contains("    1 of ECS service legacy/web\n"), "{wide}");
    let page = terminal.run("status -o md").await.output;
    assert!(page.contains("| prod.local/web | A | 1 | - | 1 | - | - |\n"), "{page}");
    let all: Value =
        terminal.run("status --all-clusters -o json").await.output.parse().expect("JSON");
    assert_eq!(all["clusters"], json!([BLUE]));
}

#[tokio::test]
async fn a_service_is_explained_down_to_what_clients_discover() {
    let (world, _, _lambda, terminal) = with_function(&[]).await;
    let behaviour = Behaviour { discovery_on_any_host: true, ..Behaviour::default() };
    world.cloud_map.behave(behaviour);

    let explained = terminal.run("explain service/web -n shop").await;

    assert_eq!((explained.code, explained.errors.as_str()), (Some(0), ""), "{explained:?}");
    for line in [
        "+ endpoint   10.0.1.1 (web-a, ready): a sync would register it as ip-10-0-1-1-22162b0180",
        "= discovery  returns none of this cluster and 1 HEALTHY of other owners; DNS name web.prod.local",
    ] {
        assert!(explained.output.contains(line), "{line}\n{}", explained.output);
    }
    let missing = terminal.run("explain service/nobody -n shop").await;
    assert_eq!(missing.code, Some(1), "{missing:?}");
    let unnamed = terminal.run("explain -n shop").await;
    assert_eq!(unnamed.errors, "error: the Service to explain is missing: add service/NAME\n");
}

#[tokio::test]
async fn the_doctor_says_what_is_wrong_and_what_helps() {
    let (world, blue, _lambda, terminal) = with_function(&[]).await;
    let behaviour = Behaviour { discovery_on_any_host: true, ..Behaviour::default() };
    world.cloud_map.behave(behaviour);

    let well = terminal.run("doctor").await;
    assert_eq!((well.code, well.errors.as_str()), (Some(0), ""), "{well:?}");
    assert!(well.output.ends_with("all checks passed\n"), "{}", well.output);

    blue.revoke(testbed::ROLE_ARN);
    let ill = terminal.run("doctor").await;
    assert_eq!(ill.code, Some(1), "{ill:?}");
    assert!(ill.output.contains("    fix: aws eks create-access-entry --cluster-name blue "));
    assert!(ill.output.ends_with("1 check failed\n"), "{}", ill.output);
}

#[tokio::test]
async fn the_page_about_the_move_shows_the_split_and_what_has_changed() {
    let (_world, _, _lambda, terminal) = with_function(&[]).await;
    let before = terminal.run("status -o json").await.output;
    let before = terminal.file("before.json", &before);
    assert_eq!(terminal.run("sync -A").await.code, Some(0));

    let page = terminal.run(&format!("report --html --since {before}")).await;

    assert_eq!((page.code, page.errors.as_str()), (Some(0), ""), "{page:?}");
    for part in [
        "<!doctype html>",
        "<b>50 %</b>",
        "<summary>on ECS and EKS <b>1</b></summary>",
        "<td data-heading=\"Changes since\">+1 this cluster</td>",
        "plan: 1 unchanged, 1 not ours",
    ] {
        assert!(page.output.contains(part), "{part}\n{}", page.output);
    }
    let other = terminal.file("other.json", "[]");
    let refused = terminal.run(&format!("report --html --since {other}")).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.errors.contains("is not an output of `kubectl cloudmap status -o json`"));
}

#[tokio::test]
async fn two_plans_are_compared_in_a_comment_for_a_pull_request() {
    let (_world, _, _lambda, terminal) = with_function(&[]).await;
    let before = terminal.run("plan -A -o json").await.output;
    let before = terminal.file("before.json", &before);
    let synced = terminal.run("sync -A -o json").await;
    let synced = terminal.file("synced.json", &synced.output);
    let after = terminal.run("plan -A -o json").await.output;
    let after = terminal.file("after.json", &after);

    let compared = terminal.run(&format!("diff {before} {after}")).await;
    assert_eq!((compared.code, compared.errors.as_str()), (Some(2), ""), "{compared:?}");
    assert!(compared.output.contains("\n| only before | register | "), "{}", compared.output);
    let registered = "\n| only after | unchanged | prod.local/web |  |  | 1 instance |\n";
    assert!(compared.output.contains(registered), "{}", compared.output);
    assert_eq!(compared.output.matches("only after").count(), 1, "{}", compared.output);
    let same = terminal.run(&format!("diff {after} {after}")).await;
    assert_eq!(same.code, Some(0), "{same:?}");
    for (file, why) in [
        (synced, "is the answer of a sync: compare two outputs of"),
        (terminal.file("other.json", "[]"), "is not an output of `kubectl cloudmap plan -o json`"),
        ("absent.json".to_owned(), "cannot read absent.json: "),
    ] {
        let refused = terminal.run(&format!("diff {before} {file}")).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.errors.contains(why), "{}", refused.errors);
    }
}

#[tokio::test]
async fn the_context_says_which_cluster_and_which_namespace() {
    let sandbox = Sandbox::start().await.cluster("blue").await.cluster("green").await;
    let payloads = deploy(&sandbox, &[], answering(Ok(in_step())));
    let terminal = Terminal::new(&sandbox, &["blue", "green"]);
    let green = sandbox.cluster_arn("green");
    let rows = [
        ("plan", json!({"action": "plan", "cluster": BLUE, "namespace": "default"})),
        ("plan -n shop", json!({"action": "plan", "cluster": BLUE, "namespace": "shop"})),
        ("plan -A --context green", json!({"action": "plan", "cluster": green})),
        (
            "sync svc/web --namespace shop --context green",
            json!({"action": "sync", "cluster": green, "namespace": "shop", "service": "web"}),
        ),
        ("sync --cluster red", json!({"action": "sync", "cluster": "red"})),
        ("plan --all-clusters", json!({"action": "plan"})),
    ];
    for (words, payload) in rows {
        let printed = terminal.run(words).await;
        assert_eq!(printed.code, Some(0), "{words}: {printed:?}");
        let invoked = payloads.lock().expect("no poisoned lock").pop();
        assert_eq!(invoked, Some(payload), "{words}");
    }
}

#[tokio::test]
async fn a_context_that_leads_to_no_cluster_is_an_error_before_anything_is_asked() {
    let sandbox = Sandbox::start().await.cluster("blue").await;
    let payloads = deploy(&sandbox, &[], answering(Ok(in_step())));
    let mut terminal = Terminal::new(&sandbox, &["blue"]);
    let kind = terminal.file(
        "kind",
        r#"{"contexts": [{"name": "kind", "context": {"cluster": "kind", "user": "kind"}}]}"#,
    );
    let rows = [
        ("plan --context red", "error: the kubeconfig has no context \"red\"\n"),
        (
            "plan --context kind --kubeconfig ",
            "error: the context \"kind\" does not name an EKS cluster: set --cluster\n",
        ),
        (
            "plan svc/web --cluster blue",
            "error: the namespace of the Service is missing: add -n NAMESPACE\n",
        ),
    ];
    for (words, error) in rows {
        let words = words.replace("--kubeconfig ", &format!("--kubeconfig {kind}"));
        let printed = terminal.run(&words).await;
        assert_eq!((printed.code, printed.errors.as_str()), (Some(1), error), "{words}");
    }
    terminal.set("KUBECONFIG", "/nowhere");
    let printed = terminal.run("plan").await;
    assert_eq!(printed.code, Some(1));
    assert!(printed.errors.starts_with("error: cannot read the kubeconfig;"), "{printed:?}");
    assert!(payloads.lock().expect("no poisoned lock").is_empty());
}

#[tokio::test]
async fn reserved_action_needs_the_alias_in_the_invoked_arn() {
    let (_world, _, _lambda, terminal) = with_function(&[("ADMIN_ALIAS", "admin")]).await;

    for (qualifier, through) in [("", "without one"), (" --qualifier live", "through live")] {
        let printed = terminal.run(&format!("purge --cluster blue --yes{qualifier}")).await;
        assert_eq!(printed.code, Some(1), "{printed:?}");
        let refusal = format!(
            "NotThroughAlias: purge is accepted only through the alias admin of this function (ADMIN_ALIAS), and \
             this call came {through}: repeat it with --qualifier admin"
        );
        assert!(printed.errors.contains(&refusal), "{printed:?}");
    }
    let printed = terminal.run("purge --cluster blue --yes --qualifier admin").await;
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let printed = terminal.run("sync --cluster blue").await;
    assert_eq!(printed.code, Some(0), "{printed:?}");
}
