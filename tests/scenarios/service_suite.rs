//! The suite of tests/cloud_map against the stand-in: boto3 calls it for each behaviour that the stand-in has, and
//! would call AWS in the same way. Also the suite itself: the differences that it prints, and that it leaves nothing
//! behind. Without Python and boto3 that is skipped, except in CI.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

use testbed::Sandbox;
use testbed::cloud_map::{Behaviour, Fault, FaultKind};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// The environment that `.ci/run` makes.
const PYTHON: &str = "target/ci/venv/bin/python";
const SUITE: &str = "tests/cloud_map/run.py";
const WITHOUT_BOTO3: i32 = 3;
const INTERRUPTED: i32 = 130;
/// Any will do: the stand-in does not look into it.
const VPC: [&str; 2] = ["--vpc", "vpc-0123456789abcdef0"];

/// A sandbox without a cluster, in which discovery has the host of all other calls.
async fn sandbox(behaviour: Behaviour) -> Sandbox {
    let sandbox = Sandbox::in_process().await;
    sandbox.cloud_map().behave(Behaviour { discovery_on_any_host: true, ..behaviour });
    sandbox
}

/// Starts the suite as a person does who has exported what the sandbox prints. None without Python.
fn start(sandbox: &Sandbox, arguments: &[&str]) -> Option<Child> {
    let own = Path::new(ROOT).join(PYTHON);
    let python = if own.exists() { own } else { "python3".into() };
    let mut suite = Command::new(python);
    suite.arg("-B").arg(Path::new(ROOT).join(SUITE)).args(arguments).env_clear();
    suite.env("PATH", std::env::var_os("PATH").unwrap_or_default()).envs(sandbox.environment());
    suite.env("AWS_DEFAULT_REGION", testbed::REGION);
    suite.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    suite.spawn().ok().or_else(|| skip("Python does not start"))
}

/// How the suite ended, and all that it printed. None without boto3.
async fn end(suite: Child) -> Option<(i32, String)> {
    let output = suite.wait_with_output().await.expect("it ends");
    let code = output.status.code().expect("it ends by itself");
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8(printed).expect("UTF-8");
    if code == WITHOUT_BOTO3 { skip(printed.trim()) } else { Some((code, printed)) }
}

async fn run(sandbox: &Sandbox, arguments: &[&str]) -> Option<(i32, String)> {
    end(start(sandbox, arguments)?).await
}

fn skip<T>(reason: &str) -> Option<T> {
    testbed::programs::skip(&format!("the suite of Cloud Map's behaviours: {reason}"));
    None
}

#[tokio::test]
async fn stand_in_behaves_as_each_case_of_the_suite_expects() {
    // In AWS discovery follows later, and the suite must wait for it.
    let lag = Duration::from_millis(40);
    let behaviour = Behaviour { discover_lag: lag, ..Behaviour::default() };
    let sandbox = sandbox(behaviour).await;
    let Some((code, printed)) = run(&sandbox, &VPC).await else { return };
    assert!(
        code == 0 && printed.contains(" as in the stand-in, 0 differ, 0 not asked"),
        "{printed}"
    );
    assert_eq!(sandbox.cloud_map().namespaces().len(), 0);
}

#[tokio::test]
async fn suite_prints_each_difference_and_fails() {
    let behaviour = Behaviour {
        rewrite_raises_revision: true,
        default_health_filter: "ALL",
        ..Behaviour::default()
    };
    let sandbox = sandbox(behaviour).await;
    let cases = ["revision_of_a_replacement", "default_filter_by_health", "registration_replaces"];
    let mut arguments = vec!["--aws", "--patience", "1"];
    arguments.extend(cases.iter().flat_map(|case| ["--case", case]));
    let Some((code, printed)) = run(&sandbox, &arguments).await else { return };
    assert_eq!(code, 1, "{printed}");
    for line in [
        "DIFFERS    revision_of_a_replacement\n",
        "DIFFERS    default_filter_by_health\n",
        "    stand-in: {'up'}\n    answered: ",
        "DIFFERS    revision_of_a_replacement: it stays",
        "ok         registration_replaces\n",
        "\n1 as in the stand-in, 2 differ, 0 not asked\n",
    ] {
        assert!(printed.contains(line), "no {line:?} in\n{printed}");
    }
    assert_eq!(sandbox.cloud_map().namespaces().len(), 0);
}

#[tokio::test]
async fn cases_that_end_early_leave_nothing_behind() {
    let sandbox = sandbox(Behaviour::default()).await;
    let map = sandbox.cloud_map();
    let denied = Fault::on("RegisterInstance", FaultKind::AccessDenied);
    map.inject(denied.after(1).always());
    let cases = ["--case", "registration_replaces", "--case", "deletion_of_a_namespace"];
    let Some((code, printed)) = run(&sandbox, &cases).await else { return };
    assert!(code == 1 && printed.contains("the case ended early"), "{printed}");
    assert!(printed.contains("AccessDeniedException"), "{printed}");
    assert_eq!((map.namespaces().len(), map.count("DeregisterInstance")), (0, 1), "{printed}");
}

#[tokio::test]
async fn namespace_that_cannot_be_removed_is_named() {
    let sandbox = sandbox(Behaviour::default()).await;
    sandbox.cloud_map().deny("DeleteNamespace");
    let Some((code, printed)) = run(&sandbox, &["--case", "names_by_case"]).await else { return };
    let (_, left) = sandbox.cloud_map().namespaces().into_iter().next().expect("it is still there");
    assert!(code == 1 && printed.contains(&format!("LEFT  {left}: ")), "{printed}");
}

#[tokio::test]
async fn namespace_whose_creation_was_not_answered_is_removed() {
    // The client repeats the call within a second, so that the namespace comes after the case has ended.
    let behaviour = Behaviour { operation_delay: Duration::from_secs(2), ..Behaviour::default() };
    let sandbox = sandbox(behaviour).await;
    let map = sandbox.cloud_map();
    map.inject(Fault::on("CreateHttpNamespace", FaultKind::FailAfterEffect));
    let Some((code, printed)) = run(&sandbox, &["--case", "names_by_case"]).await else { return };
    assert!(code == 1 && printed.contains("the case ended early"), "{printed}");
    assert!(map.count("DeleteNamespace") == 1 && map.namespaces().is_empty(), "{printed}");
}

#[tokio::test]
async fn interrupted_suite_removes_what_it_made() {
    let sandbox = sandbox(Behaviour::default()).await;
    let map = sandbox.cloud_map();
    map.inject(Fault::on("RegisterInstance", FaultKind::OperationHangs));
    let Some(mut suite) = start(&sandbox, &["--case", "registration_replaces"]) else { return };
    while map.count("RegisterInstance") == 0 {
        if suite.try_wait().expect("it can be asked").is_some() {
            assert!(end(suite).await.is_none(), "it registers an instance first");
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(map.namespaces().len(), 1);
    let process = suite.id().expect("it runs").to_string();
    let sent = Command::new("kill").args(["-INT", &process]).status().await;
    assert!(sent.expect("kill starts").success());
    map.heal();
    let (code, printed) = end(suite).await.expect("it has boto3");
    assert_eq!((code, map.namespaces().len()), (INTERRUPTED, 0), "{printed}");
}
