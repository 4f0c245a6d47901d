//! What keeps a cluster out of its clusterset takes nothing away from anybody: obstacles, calls that are refused or
//! whose answer is lost (the report says so, or one run does it all), and API servers that take a connection and are
//! silent, which costs each run that asks them 30 seconds.

use std::time::Duration;

use cloud_map_sync::model::GuardState;
use cloud_map_sync::report::Report;
use futures_util::future::join;
use serde_json::{Value, json};
use tokio::time::{Instant, advance, sleep, timeout};

use super::guard::guard;
use super::many::Many;
use super::{
    CLUSTER_ID, Members, exported, imported, in_full, obstacle_lines, obstacles, part, pods,
    service, web,
};
use crate::fleet::{annotated, give_pods, ips, refs};
use crate::queue::batch_about;
use crate::run::{purge, report, sync, sync_of, synced};
use testbed::cloud_map::{Behaviour, Fault, FaultKind};
use testbed::function::invoke;
use testbed::kubernetes;

/// Neither has a record yet, so each would write the same one in its first sync, also while that of the other is under way.
#[tokio::test(start_paused = true)]
async fn of_two_new_clusters_that_state_one_id_one_becomes_a_member() {
    for operation_delay in [Duration::ZERO, Duration::from_secs(90)] {
        let members = Members::start().await;
        let cloud_map = &members.fleet.cloud_map;
        cloud_map.behave(Behaviour { operation_delay, ..Behaviour::default() });
        members.green.cluster_property(CLUSTER_ID, "blue");
        members.amber("web", &["10.2.0.1"]);

        for _ in 0..4 {
            sync(&members.function).await;
            assert_eq!(cloud_map.take_violations(), [""; 0]);
        }

        let report = sync(&members.function).await;
        let taken: Vec<&str> =
            ["blue", "green"].into_iter().filter(|it| !obstacles(&report, it).is_empty()).collect();
        let [taken] = taken[..] else { panic!("{}", in_full(&report)) };
        assert_eq!(obstacles(&report, taken), ["ClusterIdTaken"], "{}", in_full(&report));
        let cluster = if taken == "blue" { &members.blue } else { &members.green };
        assert!(imported(cluster, "web").is_empty(), "{}", in_full(&report));
        cloud_map.behave(Behaviour::default());
        cluster.cluster_property(CLUSTER_ID, "green");
        members.converge().await;
        assert_eq!(imported(cluster, "web"), "amber 10.2.0.1:8080");
    }
}

#[tokio::test]
async fn definitions_that_are_installed_later_are_found_by_the_same_process() {
    let members = Members::with_web(&["10.0.0.1"]).await;
    members.green.serve_multi_cluster_versions(&[]);
    let report = sync(&members.function).await;
    assert_eq!(obstacles(&report, "green"), ["NoMultiClusterApi"], "{}", in_full(&report));
    assert!(report.ok && !part(&report, "green").is_frozen(), "it was never a member");

    members.green.serve_multi_cluster();
    members.converge().await;

    assert_eq!(imported(&members.green, "web"), "blue 10.0.0.1:8080");
}

#[tokio::test]
async fn definitions_that_are_not_all_there_or_of_an_older_version_are_reported_as_such() {
    type Breaks = fn(&Members);
    let cases: [Breaks; 3] = [
        |it| it.green.serve_multi_cluster_versions(&["v1alpha1"]),
        |it| it.green.serve_multi_cluster_without(Some("serviceexports")),
        |it| it.green.serve_multi_cluster_without(Some("serviceimports")),
    ];
    for (case, breaks) in cases.into_iter().enumerate() {
        for is_same_process in [false, true] {
            let members = Members::with_web(&["10.0.0.1"]).await;
            let new = members.serving("blue,green", &[]).await;
            let function = if is_same_process { &members.function } else { &new };
            if is_same_process {
                members.converge().await;
            }
            breaks(&members);

            for payload in [json!({ "action": "sync" }), sync_of("green", "web")] {
                let report = report(function, &payload).await;

                let obstacles = obstacles(&report, "green");
                let said = in_full(&report);
                assert_eq!(obstacles, ["NoMultiClusterApi"], "{case} {is_same_process} {said}");
            }
        }
    }
}

/// `green` imports what `blue` exports, and something that only a person can mend keeps it out of the clusterset.
#[tokio::test]
async fn frozen_member_is_held_back_and_not_good_until_it_is_purged() {
    type Breaks = fn(&Members);
    let cases: [(&str, Breaks); 4] = [
        ("NoIdentity", |it| assert!(it.green.delete("clusterproperties", "", CLUSTER_ID))),
        ("InvalidIdentity", |it| drop(it.green.cluster_property(CLUSTER_ID, "No id"))),
        ("ClusterIdTaken", |it| drop(it.green.cluster_property(CLUSTER_ID, "blue"))),
        ("NoMultiClusterApi", |it| it.green.serve_multi_cluster_versions(&["v1alpha1"])),
    ];
    for (reason, breaks) in cases {
        let members = Members::in_step(&["10.0.0.1"]).await;
        breaks(&members);
        let function = members.serving("blue,green", &[]).await;

        let frozen = sync(&function).await;

        assert_eq!(obstacles(&frozen, "green"), [reason], "{}", in_full(&frozen));
        let green = frozen.clusters.iter().find(|it| it.cluster.ends_with("green"));
        let green = green.expect("a report");
        assert!(
            !frozen.ok && !green.is_complete() && part(&frozen, "green").is_frozen(),
            "{reason}"
        );
        assert_eq!(green.counts.held_back, 1, "{reason}");
        let purged = purge(&function, "green").await;
        assert!(purged.ok, "{}", in_full(&purged));
        let quiet = sync(&function).await;
        assert_eq!(obstacles(&quiet, "green"), [reason], "{}", in_full(&quiet));
        assert!(quiet.ok && !part(&quiet, "green").is_frozen(), "{}", in_full(&quiet));
    }
}

#[tokio::test(start_paused = true)]
async fn status_of_an_export_that_is_refused_is_in_the_report() {
    let many = Many::start(1, &["shop"], &[]).await;
    exported(&many.clusters[0], web(), &["10.0.0.1"]);
    let path = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceexports/";
    many.clusters[0].refuse_method("PATCH", path, 403);

    let report = sync(&many.function).await;

    let said = in_full(&report);
    assert!(said.contains("conditions not written"), "{said}");
    many.clusters[0].clear_faults();
    many.converge().await;
}

#[tokio::test(start_paused = true)]
async fn member_whose_record_the_limit_refuses_imports_nothing_until_it_has_one() {
    let many = Many::start(1, &["shop"], &[]).await;
    exported(&many.clusters[0], web(), &["10.0.0.1"]);
    let full = FaultKind::Error(400, "ResourceLimitExceeded", "The limit is reached");
    many.fleet.cloud_map.inject(Fault::on("RegisterInstance", full).always());

    let report = sync(&many.function).await;

    assert!(in_full(&report).contains("The limit is reached"), "{}", in_full(&report));
    assert_eq!(many.clusters[0].objects("serviceimports", "shop").len(), 0);
    many.fleet.cloud_map.heal();
    many.converge().await;
    assert_eq!(many.clusters[0].objects("serviceimports", "shop").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn creation_or_registration_whose_answer_is_lost_leaves_no_record_for_the_next_run() {
    // The second registration is that of the pod: its export must not be recorded as one without endpoints.
    let calls = [("CreateService", 0), ("RegisterInstance", 0), ("RegisterInstance", 1)];
    let kinds = [FaultKind::DropAfterEffect, FaultKind::Cut];
    for (lost, (call, after)) in kinds.iter().flat_map(|it| calls.map(|call| (it.clone(), call))) {
        let many = Many::start(1, &["shop"], &[]).await;
        many.fleet.cloud_map.adjust(|it| it.operation_delay = Duration::from_secs(2));
        exported(&many.clusters[0], web(), &["10.0.0.1"]);
        many.fleet.cloud_map.inject(Fault::on(call, lost).after(after));

        let report = synced(&many.function).await;

        many.fleet.cloud_map.heal();
        many.fleet.cloud_map.forget_calls();
        let next = sync(&many.function).await;
        assert_eq!(many.fleet.cloud_map.writes(), 0, "{report}\n{next}");
    }
}

/// Two members in step, of which `c0` exports `shop/web`, and `c1` is silent from now on.
async fn with_a_silent_one() -> Many {
    let many = Many::start(2, &["shop"], &[]).await;
    exported(&many.clusters[0], web(), &["10.0.0.1"]);
    many.converge().await;
    many.clusters[1].be_silent();
    many
}

/// The seconds that a run takes, which returns no message to its queue.
async fn run(many: &Many, payload: &Value) -> (u64, Report) {
    let start = Instant::now();
    let answer = invoke(&many.function, payload).await;
    let failed = &answer.response.expect("an answer")["batchItemFailures"];
    assert!(failed.as_array().is_none_or(Vec::is_empty), "{failed}");
    (start.elapsed().as_secs(), answer.report.expect("a report"))
}

#[tokio::test(start_paused = true)]
async fn importer_that_has_just_not_answered_delays_no_other_change() {
    let many = with_a_silent_one().await;
    let change = async |address: &str| {
        pods(&many.clusters[0], "web", &[address]);
        run(&many, &batch_about("c0", "web")).await
    };
    assert!((30..40).contains(&change("10.0.0.2").await.0));

    let (seconds, report) = change("10.0.0.3").await;
    assert_eq!(seconds, 0);
    let detail = &obstacle_lines(&report, "c1")[0].text;
    assert!(detail.starts_with("it did not answer 0 s ago; a sync of its own asks it"), "{detail}");

    advance(Duration::from_mins(6)).await;
    assert!(change("10.0.0.4").await.0 >= 30, "after some minutes it is asked again");

    many.clusters[1].clear_faults();
    run(&many, &json!({ "action": "sync", "cluster": "c1" })).await;
    assert_eq!(imported(&many.clusters[1], "web"), "c0 10.0.0.4:8080");
    change("10.0.0.5").await;
    assert_eq!(imported(&many.clusters[1], "web"), "c0 10.0.0.5:8080", "at once");
}

/// The others import from each other before it has answered, its part stays meanwhile, and the run ends in step.
#[tokio::test(start_paused = true)]
async fn cluster_that_is_slow_delays_its_own_part_alone() {
    for path in ["/", "/apis/multicluster.x-k8s.io/v1beta1/serviceexports"] {
        is_delayed_alone(path).await;
    }
}

/// Of the last of three clusters all requests below `path` are slow.
async fn is_delayed_alone(path: &str) {
    let many = Many::start(3, &["shop"], &[]).await;
    exported(&many.clusters[0], web(), &["10.0.0.1"]);
    exported(&many.clusters[2], web(), &["10.2.0.1"]);
    many.converge().await;
    let slow = kubernetes::FaultKind::Slow(Duration::from_secs(12));
    many.clusters[2].fail(kubernetes::Fault::always(path, slow));
    pods(&many.clusters[0], "web", &["10.0.0.2"]);
    pods(&many.clusters[2], "web", &["10.2.0.2"]);
    exported(&many.clusters[0], service("new"), &["10.0.0.9"]);

    let seen = async {
        while imported(&many.clusters[1], "web") != "c0 10.0.0.2:8080, c2 10.2.0.1:8080" {
            sleep(Duration::from_secs(1)).await;
        }
    };
    let (report, ()) = timeout(Duration::from_mins(5), join(sync(&many.function), seen))
        .await
        .expect("the others do not wait");

    for cluster in &many.clusters {
        let expected = "c0 10.0.0.2:8080, c2 10.2.0.2:8080";
        assert_eq!(imported(cluster, "web"), expected, "{report}");
    }
    assert!(report.ok, "{report}");
    let of_clustersets =
        report.clusters.iter().filter_map(|cluster| cluster.multi_cluster.as_ref());
    let imports: Vec<usize> = of_clustersets.map(|clusterset| clusterset.imports).collect();
    assert_eq!(imports, [2, 2, 2], "an import that the first pass made counts once");
    many.clusters[2].clear_faults();
    many.assert_settled().await;
}

/// The cluster that is slow is imported in a second pass. Neither exporter loses more endpoints than `GUARD_MINIMUM`. The
/// endpoints that the first pass has not read count as lost there, so it removes none before the second pass.
#[tokio::test(start_paused = true)]
async fn losses_of_both_passes_of_a_run_are_one_loss_for_the_guard() {
    let many = Many::start(3, &["shop"], &[("GUARD_MINIMUM", "4")]).await;
    for (index, web, api) in [
        (0, ["10.0.0.1", "10.0.0.2"], ["10.0.0.3", "10.0.0.4"]),
        (2, ["10.2.0.1", "10.2.0.2"], ["10.2.0.3", "10.2.0.4"]),
    ] {
        exported(&many.clusters[index], service("web"), &web);
        exported(&many.clusters[index], service("api"), &api);
    }
    many.converge().await;
    let slow = kubernetes::FaultKind::Slow(Duration::from_secs(12));
    let exports = "/apis/multicluster.x-k8s.io/v1beta1/serviceexports";
    many.clusters[2].fail(kubernetes::Fault::always(exports, slow));
    for index in [0, 2] {
        pods(&many.clusters[index], "web", &[]);
        pods(&many.clusters[index], "api", &[]);
    }

    let report = sync(&many.function).await;

    let judged = guard(&report, "c1");
    assert_eq!((judged.state, judged.loss, judged.instances), (GuardState::Held, 8, 8));
    let web = "c0 10.0.0.1:8080 10.0.0.2:8080, c2 10.2.0.1:8080 10.2.0.2:8080";
    assert_eq!(imported(&many.clusters[1], "web"), web);
}

/// One endpoint goes while as many as the guard would hold are in a cluster that does not answer.
#[tokio::test(start_paused = true)]
async fn cluster_that_is_silent_holds_no_loss_of_another() {
    let silent = kubernetes::FaultKind::Slow(Duration::from_mins(10));
    let refusing = kubernetes::FaultKind::Status(503);
    for kind in [silent, refusing] {
        let many = Many::start(3, &["shop"], &[("GUARD_MINIMUM", "4")]).await;
        for (index, network) in [(0, "10.0.0"), (2, "10.2.0")] {
            exported(&many.clusters[index], web(), &refs(&ips(network, 1..=4)));
        }
        many.converge().await;
        many.clusters[2].fail(kubernetes::Fault::always("/", kind));
        pods(&many.clusters[0], "web", &refs(&ips("10.0.0", 1..=3)));

        let report = sync(&many.function).await;

        let web = imported(&many.clusters[1], "web");
        assert_eq!(web.matches(":8080").count(), 7, "{web}\n{report}");
    }
}

/// As many as are read at once send a byte every two seconds.
#[tokio::test(start_paused = true)]
async fn members_that_dribble_leave_time_for_the_exports_of_the_others() {
    let many = Many::start(10, &["shop"], &[]).await;
    exported(&many.clusters[8], web(), &["10.0.0.1"]);
    many.converge().await;
    for cluster in &many.clusters[..8] {
        let dribble = kubernetes::FaultKind::Dribble(Duration::from_secs(2));
        cluster.fail(kubernetes::Fault::always("/", dribble));
    }
    pods(&many.clusters[8], "web", &["10.0.0.2"]);
    let start = Instant::now();

    sync(&many.function).await;

    assert!(start.elapsed() < Duration::from_mins(5), "{:?}", start.elapsed());
    assert_eq!(imported(&many.clusters[9], "web"), "c8 10.0.0.2:8080");
}

#[tokio::test(start_paused = true)]
async fn annotated_services_do_not_wait_for_a_member_that_does_not_answer() {
    let many = with_a_silent_one().await;
    many.clusters[0].service(annotated("mail", "prod", "mail"));
    give_pods(&many.clusters[0], "mail", &["10.0.0.9"]);

    let full_sync = json!({ "action": "sync" });
    let cut = timeout(Duration::from_secs(10), invoke(&many.function, &full_sync)).await;

    assert!(cut.is_err(), "the run waits");
    assert_eq!(many.fleet.addresses("prod", "mail"), ["10.0.0.9"]);
}

/// The exports and imports of a run are read beside its annotated Services, so they meet the new certificate themselves.
#[tokio::test]
async fn member_whose_certificate_authority_was_rotated_is_served_in_the_same_run() {
    let members = Members::with_web(&["10.0.0.1"]).await;
    members.fleet.sandbox.use_sockets();
    members.blue.close_connections();
    let function = members.serving("blue,green", &[]).await;
    sync(&function).await;
    members.blue.begin_rotation();
    members.blue.serve_newest_certificate();
    members.blue.end_rotation();
    pods(&members.blue, "web", &["10.0.0.2"]);

    let report = sync(&function).await;

    assert_eq!(obstacles(&report, "blue"), [""; 0], "{report}");
    assert!(report.ok, "{report}");
    assert_eq!(imported(&members.blue, "web"), "blue 10.0.0.2:8080");
}

/// The setting leaves the namespace out, or another account does not share it any more.
#[tokio::test]
async fn namespace_of_the_records_that_is_out_of_sight_is_said_with_its_remedy() {
    type Hides = fn(&Members) -> Vec<(&'static str, &'static str)>;
    let cases: [(&str, Hides, &str); 3] = [
        ("Namespace", |_| vec![("CLOUD_MAP_NAMESPACES", "shop")], "CLOUD_MAP_NAMESPACES"),
        ("Namespace", |it| without_records(it, "false"), "share"),
        ("UnfamiliarRegistry", |it| without_records(it, "true"), "share"),
    ];
    for (code, hides, remedy) in cases {
        let members = Members::in_step(&["10.0.0.1"]).await;
        let settings = hides(&members);
        let function = members.serving("blue,green", &settings).await;
        for payload in [sync_of("blue", "web"), json!({ "action": "sync" })] {
            let report = report(&function, &payload).await;

            let [obstacle] = obstacle_lines(&report, "blue")[..] else {
                panic!("{}", in_full(&report))
            };
            assert_eq!(obstacle.code, code);
            assert!(obstacle.text.contains(remedy), "{}", obstacle.text);
        }
        members.assert_imported("web", "blue 10.0.0.1:8080", code);
    }
}

/// Takes the namespace of the records away, and may create another one.
fn without_records(members: &Members, create: &'static str) -> Vec<(&'static str, &'static str)> {
    let cloud_map = &members.fleet.cloud_map;
    let id = cloud_map.find_namespace("clusterset.shop-set").expect("the namespace");
    for service in cloud_map.services(&id) {
        for instance in cloud_map.instances(&service.id).into_keys() {
            cloud_map.remove_instance(&service.id, &instance);
        }
        cloud_map.remove_service(&service.id);
    }
    cloud_map.remove_namespace(&id);
    vec![("CREATE_NAMESPACES", create)]
}
