//! The action `doctor`: every thing that the function needs is checked, and each that is missing is reported
//! with what to do, without a write.

use std::time::Duration;

use cloud_map_sync::actions::doctor::Checkup;
use cloud_map_sync::actions::{Check, CheckOutcome};
use cloud_map_sync::time::Deadline;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::fleet::Fleet;
use testbed::ROLE_ARN;
use testbed::aws_fault::{AwsFault, AwsFaultKind};
use testbed::cloud_map::{self, RecordType, ServiceKind};
use testbed::function::{invoke, invoke_until};
use testbed::kubernetes::{Fault, FaultKind};

/// `web` with one instance; the discovery plane is asked at the same address.
pub async fn fleet() -> Fleet {
    let (fleet, _) = Fleet::in_step("web", "prod", &["10.0.1.1"]).await;
    fleet.cloud_map.adjust(|it| it.discovery_on_any_host = true);
    fleet
}

pub async fn doctor(fleet: &Fleet, settings: &[(&str, &str)]) -> Checkup {
    let function = fleet.function_with(settings).await;
    let answer = invoke(&function, &json!({"action": "doctor"})).await;
    assert_eq!(fleet.cloud_map.writes(), 0);
    Checkup::deserialize(answer.response.expect("a checkup")).expect("of this release")
}

/// The only check that failed.
async fn failed(fleet: &Fleet, settings: &[(&str, &str)]) -> Check {
    let checkup = doctor(fleet, settings).await;
    assert!(!checkup.ok, "{checkup}");
    let checks = checkup.clusters.iter().flat_map(|cluster| cluster.checks.clone());
    let failed: Vec<Check> = checks.filter(|check| check.outcome == CheckOutcome::Failed).collect();
    let [check] = failed.as_slice() else { panic!("{checkup}") };
    check.clone()
}

#[tokio::test]
async fn guard_wait_that_is_too_short_for_the_schedule_is_a_note() {
    let checkup = doctor(&fleet().await, &[("GUARD_WAIT", "2m"), ("SCHEDULE_MINUTES", "30")]).await;
    let line = "  ~ settings   GUARD_WAIT (2m) and SCHEDULE_MINUTES (30)";
    assert!(checkup.ok && checkup.to_string().contains(line), "{checkup}");
}

#[tokio::test]
async fn a_function_that_has_all_it_needs_is_well() {
    let fleet = fleet().await;

    let checkup = doctor(&fleet, &[]).await;

    let said = checkup.to_string();
    assert!(checkup.ok && said.ends_with("all checks passed\n"), "{said}");
    for line in [
        "  = identity   arn:aws:sts::111122223333:assumed-role/cloud-map-sync/cloud-map-sync\n",
        "  ~ names      NAME_POLICY allows every Service every name, those of ECS tasks too\n",
        "  = describe   arn:aws:eks:eu-central-1:111122223333:cluster/blue\n",
        "  = dns        127.0.0.1 resolves to 127.0.0.1\n",
        "  = rbac       may list endpointslices of discovery.k8s.io\n",
        "  = rbac       may create events of events.k8s.io\n",
        "  = cloud map  ListInstances is allowed\n",
        "  = cloud map  GetInstance is allowed\n",
        "  = cloud map  ListTagsForResource is allowed\n",
        "  = cloud map  GetService is allowed\n",
        "  = cloud map  GetOperation is allowed\n",
        "  ~ cloud map  not tested, since a test would change something: RegisterInstance, ",
        "  = cloud map  DiscoverInstances is allowed\n",
        "  = quota      prod/web needs up to 1 instances; the quota is 1000\n",
        "  = quota      prod needs up to 1 instances; the quota is 2000\n",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
}

#[tokio::test]
async fn policy_of_names_ends_the_note_and_the_words_at_the_end_of_a_plan() {
    let fleet = fleet().await;
    let policy = r#"[{"clusters":["*"],"kubernetesNamespaces":["shop"],"cloudMapNamespaces":["*"],"names":["web"]}]"#;
    let limited = [("NAME_POLICY", policy)];
    for (settings, is_open) in [(&[][..], true), (&limited, false)] {
        let function = fleet.function_with(settings).await;
        let of = async |action: &str| invoke(&function, &json!({"action": action})).await;
        let plan = of("plan").await.report.expect("a plan").summary();
        let words = "; NAME_POLICY allows every Service every name";
        assert_eq!(plan.ends_with(words), is_open, "{plan}");
        let sync = of("sync").await.report.expect("a report").summary();
        assert!(!sync.contains("NAME_POLICY"), "{sync}");
        let said = doctor(&fleet, settings).await.to_string();
        assert_eq!(said.contains("  ~ names "), is_open, "{said}");
    }
}

/// It is distinguished from what answers there.
#[tokio::test]
async fn what_is_missing_on_the_way_to_a_cluster_is_reported_with_what_mends_it() {
    type Change = fn(&Fleet);
    // Of the settings.
    let no_such: Change = |_| ();
    let revoked: Change = |fleet| fleet.cluster.revoke(ROLE_ARN);
    let other: Change = |fleet| fleet.cluster.serve_other_certificate();
    let stopped: Change = |fleet| fleet.cluster.stop();
    for (settings, change, name, mends) in [
        (&[("CLUSTERS", "red")][..], no_such, "describe", "Region and account in CLUSTERS"),
        (&[], revoked, "token", "aws eks create-access-entry --cluster-name blue "),
        (&[], other, "tls", ""),
        (&[], stopped, "route", "security group"),
    ] {
        let fleet = fleet().await;
        fleet.sandbox.use_sockets();
        change(&fleet);
        let check = failed(&fleet, settings).await;
        assert_eq!(check.name, name, "{check}");
        assert!(check.fix.is_some_and(|fix| fix.contains(mends)), "{name}");
    }
}

/// A call that gets no answer in the time of the invocation.
fn silence_aws(fleet: &Fleet, operation: &str) {
    fleet.sandbox.aws().faults.inject(AwsFault {
        operation: operation.to_owned(),
        kind: AwsFaultKind::Late(Duration::from_hours(1)),
        after: 0,
        times: usize::MAX,
    });
}

fn silence_cluster(fleet: &Fleet, path: &str) {
    fleet.cluster.fail(Fault::always(path, FaultKind::Slow(Duration::from_hours(1))));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_answer_is_named_before_the_invocation_ends() {
    type Silence = fn(&Fleet);
    let cases: [(&str, Silence); 6] = [
        ("identity", |fleet| silence_aws(fleet, "GetCallerIdentity")),
        ("describe", |fleet| silence_aws(fleet, "DescribeCluster")),
        ("cloud map", |fleet| {
            let silence = cloud_map::FaultKind::Late(Duration::from_hours(1));
            fleet.cloud_map.inject(cloud_map::Fault::on("ListNamespaces", silence).always());
        }),
        ("cloud map", |fleet| {
            let silence = cloud_map::FaultKind::Late(Duration::from_hours(1));
            fleet.cloud_map.inject(cloud_map::Fault::on("GetInstance", silence).always());
        }),
        ("api", |fleet| silence_cluster(fleet, "/apis/authorization.k8s.io")),
        ("read", |fleet| silence_cluster(fleet, "/api/v1/services")),
    ];
    for (name, silence) in cases {
        let fleet = fleet().await;
        let function = fleet.function().await;
        silence(&fleet);
        let start = Instant::now();
        let time = Duration::from_mins(1);

        let doctor = json!({ "action": "doctor" });
        let answer = invoke_until(&function, &doctor, Deadline::after(time)).await;

        assert!(start.elapsed() < time, "{name}: {:?}", start.elapsed());
        let checkup = Checkup::deserialize(answer.response.expect("a checkup")).expect("it");
        let silent = checkup.clusters[0].checks.iter().find(|check| check.has_failed());
        let silent = silent.unwrap_or_else(|| panic!("{name}: {checkup}"));
        let is_named = silent.name == name && silent.detail.contains("answer");
        assert!(is_named, "{name}: {checkup}");
    }
}

/// Cloud Map, the cluster and EKS in turn.
#[tokio::test(start_paused = true)]
async fn every_command_answers_before_its_invocation_ends() {
    type Silence = fn(&Fleet);
    let silences: [Silence; 4] = [
        |fleet| silence_aws(fleet, "GetCallerIdentity"),
        |fleet| silence_aws(fleet, "DescribeCluster"),
        |fleet| silence_cluster(fleet, "/"),
        |fleet| {
            let silence = cloud_map::FaultKind::Late(Duration::from_hours(1));
            fleet.cloud_map.inject(cloud_map::Fault::on("*", silence).always());
        },
    ];
    for silence in silences {
        for command in [
            json!({ "action": "plan" }),
            json!({ "action": "sync" }),
            json!({ "action": "confirm" }),
            json!({ "action": "adopt" }),
            json!({ "action": "status" }),
            json!({ "action": "explain", "namespace": "shop", "service": "web" }),
            json!({ "action": "purge", "cluster": "blue" }),
            json!({ "action": "purge", "cluster": "blue", "registry": "111122223333/eu-central-1" }),
        ] {
            let fleet = fleet().await;
            let function = fleet.function().await;
            silence(&fleet);
            let start = Instant::now();
            let time = Duration::from_mins(1);

            invoke_until(&function, &command, Deadline::after(time)).await;

            assert!(start.elapsed() < time, "{command}: {:?}", start.elapsed());
        }
    }
}

#[tokio::test]
async fn missing_rights_in_the_cluster_are_reported_one_by_one_and_events_are_no_failure() {
    let fleet = fleet().await;
    fleet.cluster.grant(ROLE_ARN, &[]);
    let checkup = doctor(&fleet, &[]).await;
    let checks = &checkup.clusters[0].checks;
    let of = |outcome: CheckOutcome| checks.iter().filter(|check| check.outcome == outcome).count();
    assert_eq!((of(CheckOutcome::Failed), of(CheckOutcome::Note)), (4, 3), "{checkup}");
    assert!(checkup.to_string().contains("! rbac       may not get services of the core group"));
    assert!(checkup.to_string().contains("fix: kubectl apply -f deploy/rbac.yaml"));
}

#[tokio::test]
async fn reads_of_cloud_map_that_are_refused_are_reported_with_the_action_they_need() {
    let reads = ["ListNamespaces", "ListInstances", "GetInstance", "ListTagsForResource"];
    for operation in reads {
        let fleet = fleet().await;
        fleet.cloud_map.deny(operation);
        let check = failed(&fleet, &[]).await;
        assert!(check.detail.contains("AccessDenied"), "{operation}: {check}");
        let needed = format!("servicediscovery:{operation}");
        assert!(check.fix.expect("a fix").contains(&needed), "{operation}");
    }
}

/// It has no other service: all its reads are refused, and nothing of ours is in it.
#[tokio::test]
async fn refusal_that_the_plan_reports_is_not_reported_as_a_missing_right_again() {
    let fleet = Fleet::start().await;
    let theirs = fleet.cloud_map.service(&fleet.http, "theirs", ServiceKind::Http);
    fleet.ecs_task(&theirs, "0123456789abcdef0123456789abcdef", "10.0.9.1");
    fleet.cloud_map.deny_in(&theirs, "ListInstances");

    let checkup = doctor(&fleet, &[]).await;

    let said = checkup.to_string();
    assert_eq!(said.matches("AccessDenied").count(), 1, "{said}");
    assert!(checkup.ok && said.contains("~ cloud map  prod/theirs: cannot list"), "{said}");
}

#[tokio::test]
async fn read_that_the_plan_has_made_is_not_made_again() {
    let fleet = fleet().await;
    let checkup = doctor(&fleet, &[]).await;
    assert!(checkup.to_string().contains("= cloud map  ListInstances is allowed"), "{checkup}");
    assert_eq!(fleet.cloud_map.count("ListInstances"), 1);
    // The first instance in an HTTP service rests on the tags of the service.
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    fleet.cloud_map.service(&fleet.http, "web", ServiceKind::Http);
    let checkup = doctor(&fleet, &[]).await;
    let tags = "= cloud map  ListTagsForResource is allowed";
    assert!(checkup.to_string().contains(tags), "{checkup}");
    assert_eq!(fleet.cloud_map.count("ListTagsForResource"), 1);
}

#[tokio::test]
async fn reads_are_tried_where_there_is_nothing_to_read_yet() {
    let fleet = Fleet::start().await;
    let checkup = doctor(&fleet, &[]).await;
    let note = "  ~ cloud map  no service exists yet, so the reads of services are not tested\n";
    assert!(checkup.ok && checkup.to_string().contains(note), "{checkup}");
    fleet.dns_service("web", &[RecordType::A]);
    fleet.cloud_map.inject(cloud_map::Fault::on("GetInstance", cloud_map::FaultKind::AccessDenied));
    let check = failed(&fleet, &[]).await;
    assert!(check.fix.expect("a fix").contains("servicediscovery:GetInstance"));
    assert_eq!(fleet.cloud_map.count("ListInstances"), 1);
    let checkup = doctor(&fleet, &[]).await;
    assert!(checkup.ok && checkup.to_string().contains("GetInstance is allowed\n"), "{checkup}");
}

#[tokio::test]
async fn quota_of_a_namespace_is_the_default_one_and_a_dry_run_needs_no_rights_to_write() {
    let fleet = fleet().await;
    fleet.cloud_map.deny("GetOperation");
    let checkup = doctor(&fleet, &[("DRY_RUN", "true")]).await;
    let said = checkup.to_string();
    assert!(said.contains("prod needs up to 1 instances; the quota is 2000\n"), "{said}");
    assert!(checkup.ok && said.contains("  = cloud map  DRY_RUN is true: "), "{said}");
}

#[tokio::test]
async fn refusals_that_no_sync_meets_or_that_may_mean_nothing_are_notes() {
    let fleet = fleet().await;
    fleet.cloud_map.deny("DiscoverInstances");
    fleet.cloud_map.deny("GetOperation");
    let checkup = doctor(&fleet, &[]).await;
    for said in ["~ cloud map  cannot discover", "~ cloud map  cannot get the operation"] {
        assert!(checkup.ok && checkup.to_string().contains(said), "{checkup}");
    }
}

#[tokio::test]
async fn simulation_names_the_resources_and_the_context_of_each_right_to_write() {
    let fleet = fleet().await;
    let checkup = doctor(&fleet, &[("OWNER_ID", "team-a")]).await;
    let checks = &checkup.clusters[0].checks;
    let untested = checks.iter().find(|check| check.detail.starts_with("not tested"));
    let command = untested.and_then(|check| check.fix.clone()).expect("a command");
    let arn = "arn:aws:servicediscovery:eu-central-1:111122223333";
    let service = fleet.cloud_map.service_id("prod", "web");
    for part in [
        format!("--resource-arns {arn}:service/{service} "),
        format!("--resource-arns {arn}:namespace/{} ", fleet.http),
        "ContextKeyName=aws:RequestTag/cloud-map-sync/owner,ContextKeyType=string,ContextKeyValues=team-a".into(),
        "ContextKeyName=aws:ResourceTag/cloud-map-sync/owner,ContextKeyType=string,ContextKeyValues=team-a".into(),
        "ContextKeyName=aws:TagKeys,ContextKeyType=stringList,ContextKeyValues=cloud-map-sync/owner".into(),
        "ContextKeyName=aws:RequestedRegion,ContextKeyType=string,ContextKeyValues=eu-central-1".into(),
        format!("ContextKeyName=servicediscovery:NamespaceArn,ContextKeyType=string,ContextKeyValues={arn}:namespace/{}", fleet.http),
    ] {
        assert!(command.contains(&part), "{part}\n{command}");
    }
}
