//! Verbs that show their plan first: what `--yes`, a word on the terminal, and neither of them do.

use serde_json::json;

use super::terminal::{self, Terminal, answering, deploy, with_function};
use crate::lambda::Lambda;
use crate::world::World;
use testbed::Sandbox;
use testbed::kubernetes::{Headless, KubernetesServer, Pod};

/// The function with one pod of `web` registered, and a person before it.
async fn in_step(more: &[(&str, &str)]) -> (World, KubernetesServer, Lambda, Terminal) {
    let scene = with_function(more).await;
    assert_eq!(scene.3.run("sync -A").await.code, Some(0));
    scene
}

#[tokio::test]
async fn an_adoption_without_a_terminal_is_its_plan_and_is_made_with_yes() {
    let (world, _blue, _lambda, terminal) = with_function(&[]).await;
    let web = world.cloud_map.find_service("prod.local", "web").expect("a service of this world");
    world.cloud_map.instance(&web, "by-hand", &[("AWS_INSTANCE_IPV4", "10.0.1.1")]);
    world.cloud_map.allow_adoption(&[(&web, "by-hand")]);

    let planned = terminal.run("adopt -n shop").await;
    assert_eq!(planned.code, Some(2), "{planned:?}");
    assert!(planned.output.ends_with("plan: 1 to adopt, 1 not ours, 1 held back\n"), "{planned:?}");
    assert_eq!(planned.errors, "nothing was changed; approve with --yes\n");
    assert_eq!(world.instances("prod.local", "web")["by-hand"].len(), 1);

    let other = terminal.run("adopt -n shop --owner team-a").await;
    assert_eq!((other.code, other.errors.as_str()), (Some(0), ""), "{other:?}");

    let adopted = terminal.run("adopt svc/web -n shop --yes").await;
    assert_eq!((adopted.code, adopted.errors.as_str()), (Some(0), ""), "{adopted:?}");
    assert!(
        adopted.output.ends_with("synced: 1 adopted, 1 not ours, 1 held back\n"),
        "{adopted:?}"
    );
    assert_eq!(world.instances("prod.local", "web")["by-hand"]["cloud-map-sync/service"], "web");
    assert_eq!(terminal.run("plan -A").await.code, Some(0));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_purge_is_made_where_the_clusters_arn_is_typed_and_not_for_another_word() {
    let (world, _, _lambda, terminal) = in_step(&[]).await;
    let arn = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";

    for word in ["yes", "", "blue"] {
        let refused = terminal.run_by_hand("purge --context blue", word).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(
            refused.output.contains(&format!("Type \"{arn}\" to deregister these instances: ")),
            "{refused:?}"
        );
        assert!(refused.output.ends_with("nothing was changed\r\n"), "{refused:?}");
        assert_eq!(world.addresses("prod.local", "web"), ["10.0.1.1"]);
    }

    let purged = terminal.run_by_hand("purge --context blue", arn).await;
    assert_eq!(purged.code, Some(0), "{purged:?}");
    assert!(purged.output.contains("plan: 1 to deregister"), "{purged:?}");
    assert!(purged.output.contains("synced: 1 deregistered"), "{purged:?}");
    assert!(world.addresses("prod.local", "web").is_empty());
    world.assert_that_the_ecs_task_is_unchanged();

    let empty = terminal.run("purge --cluster blue").await;
    assert_eq!((empty.code, empty.errors.as_str()), (Some(0), ""), "{empty:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_terminal_has_colours_and_progress_and_no_color_takes_the_colours_away() {
    let (_world, _, _lambda, mut terminal) = in_step(&[]).await;
    let dim = "    \u{1b}[2m= 1 unchanged\u{1b}[0m\r\n";
    let progress = "plan of arn:aws:eks:eu-central-1:111122223333:cluster/blue by sync … 0 s";

    let coloured = terminal.run_by_hand("plan -A", "").await.output;
    assert!(coloured.contains(dim) && coloured.contains(progress), "{coloured:?}");
    terminal.set("NO_COLOR", "");
    assert!(terminal.run_by_hand("plan -A", "").await.output.contains(dim));
    terminal.set("NO_COLOR", "1");
    let plain = terminal.run_by_hand("plan -A", "").await.output;
    assert!(plain.contains("    = 1 unchanged\r\n") && plain.contains(progress), "{plain:?}");
}

const UNAPPROVED: &str = "nothing was changed; approve with --yes\n";
const NOTHING_TO_CONFIRM: &str = "this cluster has no held loss, no unfamiliar Cloud Map and no records of another OWNER_ID, so there is nothing to confirm\n";

#[tokio::test]
async fn what_the_guard_holds_passes_where_it_is_confirmed() {
    let (world, blue, _lambda, terminal) = in_step(&[("GUARD_MINIMUM", "1")]).await;
    blue.service(Headless::new("shop", "cart").claim("cart", "prod"));
    blue.pods("shop", "cart", &[Pod::new("cart-a", "10.0.2.1")]);
    assert_eq!(terminal.run("sync -A").await.code, Some(0));
    let nothing = terminal.run("confirm").await;
    assert_eq!(
        (nothing.code, nothing.errors.as_str()),
        (Some(0), NOTHING_TO_CONFIRM),
        "{nothing:?}"
    );
    blue.delete_service("shop", "web");
    blue.delete_service("shop", "cart");

    let held = terminal.run("confirm").await;
    assert_eq!(held.code, Some(2), "{held:?}");
    assert!(held.output.contains("! guard      held: "), "{held:?}");
    assert_eq!(held.errors, "nothing was changed; approve with --yes\n");
    assert_eq!(world.addresses("prod", "cart"), ["10.0.2.1"]);

    let confirmed = terminal.run("confirm --yes").await;
    assert_eq!(confirmed.code, Some(0), "{confirmed:?}");
    assert!(confirmed.output.contains("2 deregistered"), "{confirmed:?}");
    assert!(world.addresses("prod", "cart").is_empty());
    world.assert_that_the_ecs_task_is_unchanged();
}

#[tokio::test]
async fn confirmation_is_of_what_the_planned_cluster_holds() {
    let sandbox = Sandbox::start().await.cluster("blue").await.cluster("green").await;
    let green = sandbox.cluster_arn("green");
    let guard = json!({
        "state": "held", "loss": 20, "instances": 30, "share": 50, "minimum": 10, "needsOperator": false,
        "services": [], "detail": "20 of 30 endpoints stay",
    });
    let mut plan = terminal::in_step();
    plan["clusters"] = json!([{"cluster": green, "multiCluster": {"guard": guard}}]);
    deploy(&sandbox, &[], answering(Ok(plan)));
    let terminal = Terminal::new(&sandbox, &["blue", "green"]);
    let of_green = format!("another cluster has: confirm it with --cluster {green}\n");
    let nothing = format!("{NOTHING_TO_CONFIRM}{of_green}");
    for (words, code, errors) in [
        ("confirm", 0, nothing.as_str()),
        ("confirm --cluster blue", 0, nothing.as_str()),
        ("confirm --cluster green", 2, UNAPPROVED),
        ("confirm --context green", 2, UNAPPROVED),
    ] {
        let printed = terminal.run(words).await;
        assert_eq!((printed.code, printed.errors.as_str()), (Some(code), errors), "{words}");
    }
}

#[tokio::test]
async fn incomplete_plan_can_be_approved_if_it_has_changes() {
    let sandbox = Sandbox::start().await.cluster("blue").await;
    let mut unchanged = terminal::in_step();
    unchanged["ok"] = json!(false);
    unchanged["clusters"] = json!([{"cluster": sandbox.cluster_arn("blue")}]);
    let mut changed = unchanged.clone();
    changed["counts"] = json!({"adopted": 1, "deregistered": 1, "failed": 1});
    let incomplete = format!("the plan is incomplete: see the lines with !\n{UNAPPROVED}");
    let terminal = Terminal::new(&sandbox, &["blue"]);
    for (plan, errors) in [(changed, incomplete.as_str()), (unchanged, "")] {
        deploy(&sandbox, &[], answering(Ok(plan)));
        for words in ["adopt -n shop", "purge --cluster blue"] {
            let printed = terminal.run(words).await;
            assert_eq!((printed.code, printed.errors.as_str()), (Some(1), errors), "{words}");
        }
    }
}

/// A kubeconfig of eksctl for a cluster of the same name as ours.
fn by_eksctl(terminal: &mut Terminal, cluster: &str) {
    let user = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws",
        "args": ["eks", "get-token", "--cluster-name", "blue"],
    }});
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "me",
        "clusters": [{"name": cluster, "cluster": {"server": "https://localhost"}}],
        "users": [{"name": "me", "user": user}],
        "contexts": [{"name": "me", "context": {"cluster": cluster, "user": "me"}}],
    });
    terminal.set("KUBECONFIG", &terminal.file("eksctl", &config.to_string()));
}

#[tokio::test]
async fn cluster_of_the_same_name_in_another_region_is_refused() {
    let (world, _, _lambda, mut terminal) = in_step(&[]).await;
    let refused = "error: the function sync failed with UnknownCluster: the command is about the cluster blue in \
                   eu-west-1, and the configured cluster arn:aws:eks:eu-central-1:111122223333:cluster/blue is in \
                   eu-central-1: nothing was changed; use the ARN of the cluster\n";
    by_eksctl(&mut terminal, "blue.eu-west-1.eksctl.io");
    for words in ["sync -A", "adopt -A --yes", "confirm --yes"] {
        let printed = terminal.run(words).await;
        assert_eq!((printed.code, printed.errors.as_str()), (Some(1), refused), "{words}");
    }
    let purged = terminal.run("purge --context me --yes").await;
    assert_eq!((purged.code, purged.errors.as_str()), (Some(1), refused));

    by_eksctl(&mut terminal, "work");
    let purged = terminal.run("purge --context me --yes").await;
    assert!(purged.errors.contains("\"me\" does not name the Region of its cluster"), "{purged:?}");
    assert_eq!(world.addresses("prod.local", "web"), ["10.0.1.1"]);

    by_eksctl(&mut terminal, "blue.eu-central-1.eksctl.io");
    let purged = terminal.run("purge --context me --yes").await;
    assert!(purged.output.contains("1 deregistered"), "{purged:?}");
}
