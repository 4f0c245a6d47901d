//! Commands of programs that are in other languages: whether kubectl and Helm find the files that they name, and what the
//! parsers of the AWS CLI and SAM have against theirs.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use super::shell::Command;
use super::usage::is_released;

use testbed::ROOT;
use testbed::programs::skip;

/// Where `.ci/run` has the tools in Python.
const PYTHON: &str = "target/ci/venv/bin/python";
/// Where the definitions of the Multi-Cluster Services API come from.
const OF_MCS_API: &str = "https://raw.githubusercontent.com/kubernetes-sigs/mcs-api/v";

/// Whether kubectl and Helm find what a command names.
pub fn names_what_is_there(command: &Command) -> Result<(), String> {
    let mut words = command.arguments.iter();
    while let Some(word) = words.next() {
        let named = match word.as_str() {
            "-f" | "-k" | "--set" => words.next().map(String::as_str),
            _ => Some(word.as_str()),
        };
        let Some(named) = named else {
            return if command.is_whole { Err(format!("{word} without a value")) } else { Ok(()) };
        };
        match word.as_str() {
            "-f" if named == "-" => {}
            "-f" if named.starts_with("https://") => is_in_mcs_api(named)?,
            "-f" => is_there(named)?,
            "-k" => is_there(&format!("{named}/kustomization.yaml"))?,
            "--set" => is_value_of_the_chart(named)?,
            _ if named.contains("charts/") => is_there(&format!("{named}/Chart.yaml"))?,
            _ if Path::new(named).extension().is_some_and(|it| it == "tgz") => is_there(named)?,
            _ => {}
        }
    }
    Ok(())
}

fn is_there(file: &str) -> Result<(), String> {
    let is_there = is_released(file) || Path::new(ROOT).join(file).is_file();
    if is_there { Ok(()) } else { Err(format!("there is no {file}")) }
}

/// The definitions are of the version that the tests install.
fn is_in_mcs_api(url: &str) -> Result<(), String> {
    let go_mod = include_str!("../../../../../tests/control_plane/multi_cluster/go.mod");
    let path = url.strip_prefix(OF_MCS_API).and_then(|it| it.split_once("/config/crd/"));
    match path {
        Some((version, file))
            if go_mod.contains(&format!("sigs.k8s.io/mcs-api v{version}\n"))
                && file.starts_with("multicluster.x-k8s.io_service") =>
        {
            Ok(())
        }
        _ => Err(format!("{url} is none of the definitions that the tests install")),
    }
}

fn is_value_of_the_chart(assignment: &str) -> Result<(), String> {
    let values = include_str!("../../../../../deploy/charts/cloud-map-forwarder/values.yaml");
    let values: Value = serde_saphyr::from_str(values).expect("YAML");
    let path = assignment.split('=').next().unwrap_or_default();
    let found = values.pointer(&format!("/{}", path.replace('.', "/")));
    found.map(drop).ok_or_else(|| format!("no value {path}"))
}

/// What the parsers of the AWS CLI and of SAM have against commands. None without the tools, except in CI.
pub fn judged_by_python(commands: &[Command]) -> Option<Vec<String>> {
    let python = Path::new(ROOT).join(PYTHON);
    if !python.exists() {
        skip(&format!("commands of aws and sam need {PYTHON}"));
        return None;
    }
    let mut judge = std::process::Command::new(python)
        .arg(Path::new(ROOT).join(".ci/arguments.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python starts");
    let mut stdin = judge.stdin.take().expect("it is piped");
    stdin.write_all(&serde_json::to_vec(commands).expect("JSON")).expect("it reads");
    drop(stdin);
    let output = judge.wait_with_output().expect("it ends");
    assert!(output.status.success(), ".ci/arguments.py failed");
    Some(serde_json::from_slice(&output.stdout).expect("a list of texts"))
}

#[test]
fn the_aws_cli_and_sam_refuse_what_they_do_not_take() {
    let rows = [
        ("aws", "lambda invoke --function FUNCTION --qualifer live out", "--qualifer"),
        ("aws", "lambda invoke --function-name FUNCTION out", ""),
        ("aws", "eks create-access-entries --cluster-name blue", "create-access-entries"),
        ("aws", "eks create-access-entry --cluster-name blue", "--principal-arn"),
        (
            "aws",
            "servicediscovery update-service --id x --service DnsConfig={DnsRecord=[]}",
            "DnsRecord",
        ),
        (
            "aws",
            "cloudformation deploy --template-file deploy/queue.yaml --stack-name x",
            "deploy/queue.yaml",
        ),
        (
            "aws",
            "cloudformation deploy --template-file deploy/forwarders/queue-access.yaml --stack-name x --parameter-overrides Cluster=blue",
            "Cluster",
        ),
        (
            "aws",
            "cloudformation deploy --template-file deploy/forwarders/queue-access.yaml --stack-name x --parameter-overrides ClusterName=blue QueueArn=QUEUE_ARN",
            "CAPABILITY_IAM",
        ),
        ("sam", "deploy --guide", "--guide"),
        ("sam", "biuld", "biuld"),
        ("sam", "deploy --template cloud-map-sync-9.9.9-x86_64.yaml", "cloud-map-sync-9.9.9"),
    ];
    let commands = rows.iter().zip(1..).map(|((program, arguments, _), line)| Command {
        at: format!("page:{line}"),
        program: (*program).to_owned(),
        arguments: arguments.split(' ').map(str::to_owned).collect(),
        function: None,
        is_whole: true,
    });
    let Some(mistakes) = judged_by_python(&commands.collect::<Vec<_>>()) else { return };
    for ((program, arguments, words), line) in rows.iter().zip(1..) {
        let found: Vec<&String> =
            mistakes.iter().filter(|it| it.starts_with(&format!("page:{line}: "))).collect();
        assert_eq!(found.is_empty(), words.is_empty(), "{program} {arguments}: {found:?}");
        assert!(found.iter().all(|it| it.contains(words)), "{program} {arguments}: {found:?}");
    }
}
