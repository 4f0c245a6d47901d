//! No secret is ever logged: not by the function, and at no level by what it is built from.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;

use crate::fleet::{Fleet, attributes};
use crate::logged::Log;
use crate::run::{said_of, sync};
use testbed::cloud_map::{Fault, FaultKind};
use testbed::kubernetes::{Fault as ClusterFault, FaultKind as ClusterFaultKind};

/// The SDK's debug form of an answer that cannot be read has the whole of it, with what belongs to others.
#[tokio::test]
async fn answer_that_cannot_be_read_is_not_repeated() {
    let log = Log::default();
    let lines = fmt::layer().with_ansi(false).with_writer(log.clone());
    let filter = Targets::new().with_target("cloud_map_sync", LevelFilter::TRACE);
    let _logging =
        tracing::subscriber::set_default(tracing_subscriber::registry().with(lines).with(filter));
    let fleet = Fleet::start().await;
    let service = fleet.ecs_service("web", "10.0.9.1");
    fleet.put(&service, "canary", &attributes(&[("colour", "canary-of-another")]));
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    fleet.cloud_map.inject(Fault::on("ListInstances", FaultKind::TruncatedJson));

    let report = sync(&fleet.function().await).await;

    let held = said_of(&report, "Unreadable");
    assert!(held.ends_with("unterminated string key"), "{held}");
    let all = format!("{report}{}{}", log.text(), serde_json::to_string(&report).expect("JSON"));
    assert!(log.text().contains("unterminated") && !all.contains("canary-of-another"), "{all}");
}

#[tokio::test]
async fn neither_keys_nor_tokens_are_logged_at_any_level() {
    let log = Log::default();
    // As the binary keeps it: the signer tells the session token of each presigned URL at TRACE.
    let filter =
        Targets::new().with_default(LevelFilter::TRACE).with_target("aws_sigv4", LevelFilter::INFO);
    let lines = fmt::layer().with_ansi(false).with_writer(log.clone());
    let _logging =
        tracing::subscriber::set_default(tracing_subscriber::registry().with(lines).with(filter));
    let fleet = Fleet::start().await;
    fleet.sandbox.use_sockets();
    let role = "arn:aws:iam::111122223333:role/registry";
    fleet.sandbox.role(role, Some("external-id-canary"));
    let clusters = format!(
        r#"[{{"cluster": "blue", "registryRoleArn": "{role}", "externalId": "external-id-canary"}}]"#
    );
    fleet.web("web", "prod", &["10.0.1.1"]);
    let function = fleet.function_with(&[("CLUSTERS", &clusters)]).await;
    fleet.cloud_map.inject(Fault::on("RegisterInstance", FaultKind::AccessDenied));
    fleet.cluster.fail(ClusterFault::once("/api", ClusterFaultKind::Status(401)));

    let mut reports = String::new();
    for _ in 0..3 {
        reports += &sync(&function).await.to_string();
    }
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"], "{reports}");

    let text = log.text() + &reports;
    assert!(text.contains("TRACE") && text.contains("DEBUG"), "all levels were kept");
    for (what, secret) in fleet.sandbox.aws().identities.secrets() {
        let found = text.lines().find(|line| line.contains(&secret));
        assert_eq!(found, None, "{what} is in the log");
    }
}
