//! What is logged: what says the same in each run is logged once when it begins and once when it ends, such as the
//! reasons for which something is held back. No secret is ever logged: not by the function, and at no level by what it
//! is built from.

use serde_json::{Value, json};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;

use crate::fleet::{Fleet, annotated, attributes, ips, refs};
use crate::logged::{Log, invoke_logged};
use crate::queue::batch_about;
use crate::run::{converged, said_of, sync};
use testbed::cloud_map::{Fault, FaultKind, ServiceKind};
use testbed::function::event;
use testbed::kubernetes::{Fault as ClusterFault, FaultKind as ClusterFaultKind};

const DRY_RUN: (&str, &str) = ("DRY_RUN", "true");

fn parsed(lines: &[String]) -> impl Iterator<Item = Value> {
    lines.iter().map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
}

/// The lines of changes, by their verb, and those about what is no longer planned.
fn changes(lines: &[String]) -> Vec<String> {
    let of = |line: Value| {
        let text = |key: &str| line[key].as_str().map(str::to_owned);
        let ended = text("message").filter(|it| it.starts_with("ended: planned: "));
        text("change").or(ended)
    };
    parsed(lines).filter_map(of).collect()
}

/// The reasons of the lines about what is held back, sorted; with a minus those that have ended.
fn held_back(lines: &[String]) -> Vec<String> {
    let of = |line: Value| {
        let message = line["message"].as_str()?;
        let reason = line["reason"].as_str()?;
        match message.strip_prefix("ended: ") {
            Some(ended) => ended.starts_with("held back: ").then(|| format!("-{reason}")),
            None => message.starts_with("held back: ").then(|| reason.to_owned()),
        }
    };
    let mut all: Vec<String> = parsed(lines).filter_map(of).collect();
    all.sort();
    all
}

/// The reasons with their numbers in the line with the counts of the cluster.
fn counted(lines: &[String]) -> Option<String> {
    parsed(lines).find_map(|line| line["reasons"].as_str().map(str::to_owned))
}

fn counts(lines: &[String]) -> usize {
    let is_of_cluster = |it: &&String| it.contains("\"cluster ") && it.contains("\"registered\"");
    lines.iter().filter(is_of_cluster).count()
}

#[tokio::test]
async fn dry_run_logs_each_planned_change_once_and_then_what_has_changed() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1", "10.0.1.2"]).await;
    fleet.web("cart", "prod", &["10.0.2.1"]);
    // The ARN is in the report of a run that cannot read the cluster, too.
    let arn = fleet.sandbox.cluster_arn("blue");
    let settings = [DRY_RUN, ("CLUSTERS", arn.as_str())];
    let function = fleet.function_with(&settings).await;
    let schedule = event("schedule-eventbridge-scheduler");

    let (_, first) = invoke_logged(&function, &schedule).await;
    let verbs = ["create", "register", "create", "register", "register"];
    assert_eq!((changes(&first), counts(&first)), (verbs.map(str::to_owned).to_vec(), 1));
    let (_, second) = invoke_logged(&function, &schedule).await;
    assert_eq!((changes(&second), counts(&second)), (vec![], 1), "{second:#?}");

    fleet.pods("web", &["10.0.1.1", "10.0.1.3"]);
    // A message shows what is new, and not that anything has ended.
    let (_, of_message) = invoke_logged(&function, &batch_about("blue", "web")).await;
    assert_eq!(changes(&of_message), ["register"]);
    let (_, third) = invoke_logged(&function, &schedule).await;
    let [ended] = changes(&third).try_into().expect("one line");
    assert!(ended.starts_with("ended: planned: register ip-10-0-1-2-"), "{ended}");

    fleet.cluster.refuse("/api/v1/services", 500);
    let (_, unread) = invoke_logged(&function, &schedule).await;
    fleet.cluster.clear_faults();
    let (_, again) = invoke_logged(&function, &schedule).await;
    assert_eq!((changes(&unread), changes(&again)), (vec![], vec![]), "nothing has ended");

    let cold = fleet.function_with(&settings).await;
    let (_, cold) = invoke_logged(&cold, &schedule).await;
    assert_eq!(changes(&cold).len(), 5);
}

#[tokio::test]
async fn what_is_held_back_is_logged_when_it_begins_and_when_it_ends() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1", "10.0.1.2"]).await;
    let refused = fleet.cloud_map.service(&fleet.http, "cart", ServiceKind::Http);
    fleet.web("cart", "prod", &["10.0.2.1"]);
    let settings = [("POLICY", "create-only")];
    let function = fleet.function_with(&settings).await;
    let invalid = FaultKind::Error(400, "InvalidInput", "Not like this");
    fleet.cloud_map.inject(Fault::on("RegisterInstance", invalid).service(&refused).always());
    let schedule = event("schedule-eventbridge-scheduler");
    let (_, first) = invoke_logged(&function, &schedule).await;
    assert_eq!(held_back(&first), ["InvalidInput"]);

    // A leftover of the policy, and a mistake.
    fleet.pods("web", &["10.0.1.1"]);
    fleet.service(annotated("www", "prod", "www").annotate("cloudmap.controller/ttl", "soon"));
    let (_, second) = invoke_logged(&function, &schedule).await;
    assert_eq!(held_back(&second), ["BadAnnotation", "Policy"], "{second:#?}");
    for _ in 0..2 {
        let (answer, later) = invoke_logged(&function, &schedule).await;
        assert_eq!(held_back(&later), [""; 0]);
        assert_eq!(counted(&later).as_deref(), Some("1 BadAnnotation, 1 InvalidInput, 1 Policy"));
        assert_eq!(answer.report.expect("a report").counts.held_back, 3);
    }
    // Another mistake is new, and the reason has not ended.
    fleet.annotate("www", "ttl", "later");
    let (_, other) = invoke_logged(&function, &schedule).await;
    assert_eq!(held_back(&other), ["BadAnnotation"]);
    let (_, cold) = invoke_logged(&fleet.function_with(&settings).await, &schedule).await;
    assert_eq!(held_back(&cold), ["BadAnnotation", "InvalidInput", "Policy"], "{cold:#?}");

    fleet.annotate("www", "ttl", "");
    fleet.pods("web", &["10.0.1.1", "10.0.1.2"]);
    let (_, mended) = invoke_logged(&function, &schedule).await;
    assert_eq!(held_back(&mended), ["-BadAnnotation", "-Policy"], "{mended:#?}");
    let (_, last) = invoke_logged(&function, &schedule).await;
    assert_eq!((held_back(&last), counted(&last)), (vec![], Some("1 InvalidInput".to_owned())));
}

#[tokio::test]
async fn answers_and_plans_of_a_person_stay_whole() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    let function = fleet.function_with(&[DRY_RUN]).await;
    for action in ["plan", "sync", "plan", "sync"] {
        let (answer, lines) = invoke_logged(&function, &json!({ "action": action })).await;
        assert_eq!(answer.report.expect("a report").counts.registered, 1);
        let response = answer.response.expect("a report");
        let changes = &response["clusters"][0]["services"][0]["lines"];
        assert_eq!(changes.as_array().map(Vec::len), Some(2));
        assert!(action == "sync" || self::changes(&lines).len() == 2, "{lines:#?}");
    }
}

/// The assumption of the page about cost.
const RUNS_A_MONTH: f64 = 43_800.0;
const DOLLARS_A_GIGABYTE: f64 = 0.50;
const COST: &str = include_str!("../../docs/sizing.md");

/// The rows of the table of docs/sizing.md, each with the kilobytes that it names.
fn documented() -> Vec<(String, f64)> {
    let table = COST.split("<!-- log -->\n").nth(1).expect("the table");
    let rows = table.split("<!-- end -->").next().expect("its end").lines().skip(2);
    let row = |row: &str| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let kilobytes = cells[1].strip_suffix(" kB").expect("kilobytes").replace(',', "");
        (cells[0].to_owned(), kilobytes.parse().expect("a number"))
    };
    rows.map(row).collect()
}

/// A row of the table, as far as it follows from the measured bytes.
fn row(name: &str, kilobytes: f64, every_minute: bool) -> String {
    let gigabytes = kilobytes * RUNS_A_MONTH / 1e6;
    let month = if every_minute {
        format!("{gigabytes:.2} GB, ${:.2}", gigabytes * DOLLARS_A_GIGABYTE)
    } else {
        "once for each process".to_owned()
    };
    format!("| {name} | {} kB | {month} |", with_one_place(kilobytes))
}

fn with_one_place(kilobytes: f64) -> String {
    if kilobytes < 10.0 { format!("{kilobytes:.1}") } else { format!("{kilobytes:.0}") }
}

#[tokio::test]
async fn documented_cost_of_the_log_is_the_measured_one() {
    let fleet = Fleet::start().await;
    for service in 0..200 {
        let addresses = ips(&format!("10.1.{service}"), 1..=5);
        fleet.web(&format!("service-{service}"), "prod", &refs(&addresses));
    }
    let schedule = event("schedule-eventbridge-scheduler");
    let dry = fleet.function_with(&[DRY_RUN]).await;
    let (_, first) = invoke_logged(&dry, &schedule).await;
    let (_, later) = invoke_logged(&dry, &schedule).await;
    let function = converged(&fleet).await;
    let (answer, in_step) = invoke_logged(&function, &schedule).await;
    assert_eq!(answer.report.expect("a report").counts.unchanged, 1_000);

    let kilobytes = |lines: &[String]| {
        let bytes: usize = lines.iter().map(|line| line.len() + 1).sum();
        f64::from(u32::try_from(bytes).expect("some kilobytes")) / 1e3
    };
    let measured = [kilobytes(&in_step), kilobytes(&first), kilobytes(&later)];
    let documented = documented();
    assert_eq!(documented.len(), measured.len());
    let mut wrong = Vec::new();
    for (index, (measured, (name, shown))) in measured.into_iter().zip(documented).enumerate() {
        let expected = row(&name, shown, index != 1);
        let is_close = (measured / shown - 1.0).abs() < 0.08;
        if !(is_close && COST.contains(&expected)) {
            wrong.push(format!("measured {measured:.2} kB: {}", row(&name, measured, index != 1)));
        }
    }
    assert!(wrong.is_empty(), "docs/sizing.md: {wrong:#?}");
}

/// What is logged from now on as far as a filter lets it pass.
fn traced(filter: Targets) -> (Log, DefaultGuard) {
    let log = Log::default();
    let lines = fmt::layer().with_ansi(false).with_writer(log.clone());
    let all = tracing_subscriber::registry().with(lines).with(filter);
    (log, tracing::subscriber::set_default(all))
}

/// The SDK's debug form of an answer that cannot be read has the whole of it, with what belongs to others.
#[tokio::test]
async fn answer_that_cannot_be_read_is_not_repeated() {
    let filter = Targets::new().with_target("cloud_map_sync", LevelFilter::TRACE);
    let (log, _logging) = traced(filter);
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
    // As the binary keeps it: the signer tells the session token of each presigned URL at TRACE.
    let filter =
        Targets::new().with_default(LevelFilter::TRACE).with_target("aws_sigv4", LevelFilter::INFO);
    let (log, _logging) = traced(filter);
    let fleet = Fleet::start().await;
    fleet.sandbox.use_sockets();
    let role = "arn:aws:iam::111122223333:role/registry";
    fleet.sandbox.role(role, Some("external-id-canary"));
    let id = "external-id-canary";
    let blue = json!({ "cluster": "blue", "registryRoleArn": role, "externalId": id });
    fleet.web("web", "prod", &["10.0.1.1"]);
    let function = fleet.serving(&json!([blue])).await;
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
