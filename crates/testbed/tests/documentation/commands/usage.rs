//! How the pages use programs that no test can ask: those that are not there (docker, gh, cosign, terraform ...), and those
//! of every machine. A usage is written as in a manual: words, options, and values in capitals, each with its own check.

use std::path::Path;

use super::shell::Command;

use testbed::ROOT;

/// Of each program what the pages may say, from its own documentation.
pub const USAGES: &[(&str, &str)] = &[
    (".ci/iam.py", "--write"),
    (".ci/release", ""),
    (".ci/release", "function WORD"),
    (".ci/run", ""),
    (".ci/sam-build", ""),
    ("cargo", "bench -p CRATE --bench BENCH --bench BENCH -- WORD"),
    ("cargo", "doc --open"),
    ("cargo", "install --locked --path FOLDER"),
    ("cargo", "lambda watch"),
    ("cargo", "mutants"),
    ("cargo", "run --example EXAMPLE -- --migration --multi-cluster --serve"),
    ("cargo", "sandbox"),
    ("cargo", "test --workspace"),
    ("cargo", "test --profile WORD --lib -- WORD WORD WORD WORD"),
    (
        "cargo",
        "test --profile WORD --workspace --no-run --lib --test TEST WORD -- --test-threads NUMBER",
    ),
    ("cargo", "test WORD --workspace --profile WORD --test TEST"),
    ("chmod", "+x FILE"),
    ("cosign", "verify IMAGE --certificate-oidc-issuer URL --certificate-identity URL"),
    ("cp", "FILE FILE"),
    ("date", "+%F"),
    ("dig", "+short WORD"),
    ("docker", "build -f FILE -t IMAGE ."),
    ("docker", "push IMAGE"),
    ("eksctl", "create iamserviceaccount"),
    ("gh", "attestation verify FILE --repo WORD --predicate-type URL"),
    ("gh", "attestation verify IMAGE --repo WORD"),
    ("gh", "pr comment WORD --body-file WORD"),
    ("gh", "release download WORD --pattern RELEASED"),
    ("git", "checkout FILE"),
    ("git", "clone URL"),
    ("git", "pull"),
    ("go", "install MODULE"),
    ("mv", "FILE FILE"),
    ("pip", "install --requirement FILE"),
    ("pip", "install PACKAGE PACKAGE"),
    ("python3", "FILE --aws"),
    ("python3", "FILE WORD"),
    ("python3", "FILE WORD WORD"),
    ("rustup", "target add TARGET"),
    ("sed", "-i.bak SUBSTITUTION FILE"),
    ("sed", "SUBSTITUTION FILE"),
    ("sha256sum", "--check --ignore-missing FILE"),
    ("terraform", "apply"),
    ("terraform", "plan -detailed-exitcode"),
    ("terraform", "state rm ADDRESS"),
    ("tests/conformance/run", ""),
];

/// Files that a reader has and the repository has not.
const OF_THE_READER: [&str; 4] =
    ["kubectl_complete-cloudmap", "samconfig.toml", "saved", "SHA256SUMS"];

/// Whether a command is one of the usages of its program.
pub fn check(command: &Command) -> Result<(), String> {
    let usages: Vec<&str> =
        USAGES.iter().filter(|it| it.0 == command.program).map(|it| it.1).collect();
    if command.program.contains('/') && !Path::new(ROOT).join(&command.program).exists() {
        return Err(format!("there is no {}", command.program));
    }
    if usages.iter().any(|usage| fits(command, usage)) {
        return Ok(());
    }
    Err(format!("is none of the usages {usages:?}, or a value in it is wrong"))
}

/// Small letters at the begin are words as they stand. Options come in any order and may be missing, values that belong to
/// none may not, in a command that is whole.
fn fits(command: &Command, usage: &str) -> bool {
    let words: Vec<&str> = usage.split_whitespace().collect();
    let is_fixed = |word: &&&str| word.starts_with(|c: char| c.is_ascii_lowercase() || c == '+');
    let fixed = words.iter().take_while(is_fixed).count();
    if command.arguments.len() < fixed || command.arguments[..fixed] != words[..fixed] {
        return false;
    }
    let mut left = words[fixed..].to_vec();
    let mut given = command.arguments[fixed..].iter();
    while let Some(argument) = given.next() {
        if let Some(at) = left.iter().position(|word| word == argument) {
            left.remove(at);
            if left.get(at).is_some_and(|next| is_kind(next)) && argument.starts_with('-') {
                let kind = left.remove(at);
                if !given.next().is_some_and(|value| is_value(kind, value)) {
                    return false;
                }
            }
        } else if let Some(at) =
            operands(&left).into_iter().find(|at| is_value(left[*at], argument))
        {
            left.remove(at);
        } else {
            return false;
        }
    }
    !command.is_whole || operands(&left).is_empty()
}

fn is_kind(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase())
}

/// Where a usage has values that belong to no option.
fn operands(words: &[&str]) -> Vec<usize> {
    let of_option = |at: usize| at > 0 && words[at - 1].starts_with('-');
    (0..words.len()).filter(|at| is_kind(words[*at]) && !of_option(*at)).collect()
}

/// Whether a value is what a word in capitals stands for.
fn is_value(kind: &str, value: &str) -> bool {
    let root = Path::new(ROOT);
    // A target of Cargo is a file, or a folder with a main file.
    let is_target = |folder: &str| {
        let target = root.join(folder).join(value);
        target.join("main.rs").is_file() || target.with_extension("rs").is_file()
    };
    let is_word = !value.is_empty() && !value.starts_with('-');
    match kind {
        "ADDRESS" => value.starts_with("module.") || value.starts_with("aws_"),
        "BENCH" => is_target("crates/testbed/benches"),
        "CRATE" => root.join("crates").join(value).is_dir(),
        "EXAMPLE" => is_target("examples"),
        "FILE" => {
            OF_THE_READER.contains(&value) || is_released(value) || root.join(value).is_file()
        }
        "FOLDER" => root.join(value).is_dir(),
        "IMAGE" => value.ends_with(concat!("/cloud-map-forwarder:", env!("CARGO_PKG_VERSION"))),
        "MODULE" => value.contains("@v"),
        "NUMBER" => value.parse::<u32>().is_ok(),
        "PACKAGE" => {
            let files = [".ci/requirements.txt", ".ci/build-requirements.txt"];
            let texts = files.map(|file| std::fs::read_to_string(root.join(file)).expect(file));
            texts.concat().contains(&format!("{value}=="))
        }
        "RELEASED" => is_released(&value.replace(".*", ".zip")),
        // s/PATTERN/REPLACEMENT/ with one unescaped slash between them.
        "SUBSTITUTION" => {
            value.starts_with("s/") && value.ends_with('/') && value.matches('/').count() == 3
        }
        "TARGET" => {
            let workflow = include_str!("../../../../../.github/workflows/release.yml");
            workflow.contains(&format!("target: {value},"))
        }
        "TEST" => is_target("tests") || is_target("crates/testbed/tests"),
        "URL" => is_url(value),
        "WORD" => is_word,
        _ => false,
    }
}

/// A file of a release, by the names of `.ci/release`.
pub fn is_released(file: &str) -> bool {
    let version = env!("CARGO_PKG_VERSION");
    let function =
        ["zip", "yaml", "toml"].map(|it| format!("cloud-map-sync-{version}-x86_64.{it}"));
    let chart = format!("cloud-map-forwarder-{version}.tgz");
    function.iter().chain([&chart]).any(|it| it == file)
}

/// A signer's identity is the workflow of this repository, at this version's tag.
fn is_url(value: &str) -> bool {
    let path = value.strip_prefix("https://github.com/REPOSITORY/");
    match path.and_then(|it| it.split_once('@')) {
        Some((file, at)) => {
            Path::new(ROOT).join(file).is_file()
                && at == concat!("refs/tags/v", env!("CARGO_PKG_VERSION"))
        }
        None => value.starts_with("https://"),
    }
}

#[test]
fn commands_fit_their_usage_or_do_not() {
    let rows = [
        (
            "docker build -f deploy/forwarders/cloud-map-forwarder/Dockerfile -t R/cloud-map-forwarder:0.1.0 .",
            true,
        ),
        ("docker build -f deploy/Dockerfile -t R/cloud-map-forwarder:0.1.0 .", false),
        ("docker push R/cloud-map-forwarder:0.0.9", false),
        ("docker bulid .", false),
        ("cargo install --locked --path crates/kubectl-cloudmap", true),
        ("cargo install --locked --path crates/kubectl-cloud-map", false),
        ("cargo run --example sandbox -- --migrate", false),
        ("cargo test --workspace --test documentation", true),
        ("cargo test --workspace --test documentations", false),
        ("gh attestation verify cloud-map-sync-0.1.0-x86_64.zip --repo R", true),
        ("gh attestation verify cloud-map-sync-0.0.9-x86_64.zip --repo R", false),
        ("gh attestation verify --repo R --predicate-type", false),
        ("gh release download v0.1.0 --pattern cloud-map-sync-0.1.0-x86_64.*", true),
        ("gh release download v0.1.0 --pattern cloud-map-sync-0.0.9-x86_64.*", false),
        (
            "cosign verify G/cloud-map-forwarder:0.1.0 --certificate-identity https://github.com/REPOSITORY/.github/workflows/release.yml@refs/tags/v0.1.0",
            true,
        ),
        (
            "cosign verify G/cloud-map-forwarder:0.1.0 --certificate-identity https://github.com/REPOSITORY/.github/workflows/publish.yml@refs/tags/v0.1.0",
            false,
        ),
        ("cp samconfig.example.toml samconfig.toml", true),
        ("cp samconfig.example.toml", false),
        ("cp samconfig.sample.toml samconfig.toml", false),
        ("git checkout samconfig.toml", true),
        ("git push", false),
        ("pip install aws-sam-cli cargo-lambda", true),
        ("pip install sam-cli", false),
        ("rustup target add arm64-unknown-linux-gnu", false),
        ("terraform destroy", false),
        (".ci/iam.py --write", true),
        (".ci/iam.py --wirte", false),
    ];
    for (text, expected) in rows {
        let (program, arguments) = text.split_once(' ').expect("arguments");
        let text = text.replace("0.1.0", env!("CARGO_PKG_VERSION"));
        let arguments = arguments.replace("0.1.0", env!("CARGO_PKG_VERSION"));
        let command = Command {
            at: "page:1".into(),
            program: program.into(),
            arguments: arguments.split(' ').map(str::to_owned).collect(),
            function: None,
            is_whole: true,
        };
        assert_eq!(check(&command).is_ok(), expected, "{text}");
    }
}
