//! One execution environment: the binary as a process of its own, with the environment that Lambda
//! gives it and nothing of the test's, and its log in a file that has no name.

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::{Child, Command};

use testbed::REGION;
use testbed::function::TIMEOUT;
use testbed::lambda::Handler;
use testbed::programs;
use testbed::runtime_api::{Outcome, RuntimeApi};

/// How long a test waits for a word of the binary before it calls that a hang.
const PATIENCE: Duration = Duration::from_mins(3);

/// How much of the log is shown where a test fails.
const LAST_LINES: usize = 40;

/// A running function.
pub struct Lambda {
    api: RuntimeApi,
    program: LoggedProgram,
}

impl Lambda {
    /// Starts the function with Lambda's environment and these variables of its own configuration.
    pub async fn start(variables: &[(String, String)]) -> Self {
        let api = RuntimeApi::start().await;
        let mut command = Command::new(programs::function());
        command
            .env_clear()
            .env("AWS_LAMBDA_RUNTIME_API", api.address())
            .envs(LAMBDA_ENVIRONMENT)
            .envs(variables.iter().map(|(name, value)| (name, value)));
        Self { api, program: LoggedProgram::start(&mut command) }
    }

    /// Invokes the function with the time that the template gives.
    pub async fn invoke(&mut self, payload: Value) -> Outcome {
        let outcome = self.api.invoke(payload, TIMEOUT);
        tokio::select! {
            outcome = outcome => outcome.expect("the runtime API keeps its end"),
            ended = self.program.process.wait() => panic!("the function ended: {ended:?}"),
            () = tokio::time::sleep(PATIENCE) => panic!("no answer comes"),
        }
    }

    /// What a caller of this function gets for a payload.
    pub fn handler(&self) -> Handler {
        let api = self.api.clone();
        Arc::new(move |payload, alias| {
            let outcome = api.invoke_through(alias, payload, TIMEOUT);
            Box::pin(async move {
                let outcome = outcome.await.expect("the runtime API keeps its end");
                outcome.map_err(|failure| json!(failure))
            })
        })
    }

    /// Everything that the function has said so far. It logs before it answers.
    pub fn log(&self) -> String {
        self.program.log()
    }
}

/// What Lambda sets by itself, with the JSON log format that the template chooses.
/// <https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html>
const LAMBDA_ENVIRONMENT: [(&str, &str); 14] = [
    ("AWS_DEFAULT_REGION", REGION),
    ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
    ("AWS_LAMBDA_FUNCTION_NAME", "cloud-map-sync"),
    ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
    ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand"),
    ("AWS_LAMBDA_LOG_FORMAT", "JSON"),
    ("AWS_LAMBDA_LOG_GROUP_NAME", "/aws/lambda/cloud-map-sync"),
    ("AWS_LAMBDA_LOG_LEVEL", "INFO"),
    ("AWS_LAMBDA_LOG_STREAM_NAME", "2026/11/21/[$LATEST]0123456789abcdef0123456789abcdef"),
    ("AWS_REGION", REGION),
    ("LANG", "en_US.UTF-8"),
    ("LAMBDA_TASK_ROOT", "/var/task"),
    ("TZ", ":UTC"),
    ("_HANDLER", "bootstrap"),
];

/// A running binary, whose log is a file that leaves nothing behind. A pipe would have the test wait for lines of which it
/// does not know whether they come.
pub struct LoggedProgram {
    process: Child,
    log: File,
}

impl LoggedProgram {
    pub fn start(command: &mut Command) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let path = folder.join(format!("end-to-end-{}-{number}.log", std::process::id()));
        let output = File::create_new(&path).expect("Cargo's folder for test files");
        let log = File::open(&path).expect("the file that was just made");
        fs::remove_file(&path).expect("the file that was just made");
        let errors = output.try_clone().expect("a second handle of the log");
        let command = command.stdin(Stdio::null()).stdout(output).stderr(errors).kill_on_drop(true);
        Self { process: command.spawn().expect("the binary starts"), log }
    }

    /// The id of its process.
    pub fn id(&self) -> u32 {
        self.process.id().expect("it runs")
    }

    /// Everything that it has said so far.
    pub fn log(&self) -> String {
        let mut log = &self.log;
        let mut text = String::new();
        log.rewind().and_then(|()| log.read_to_string(&mut text)).expect("the log is readable");
        text
    }

    /// Waits for its end; the exit status and all that it said.
    pub async fn end(mut self) -> (Option<i32>, String) {
        let status = tokio::time::timeout(PATIENCE, self.process.wait()).await;
        let status = status.expect("it ends").expect("a child process");
        (status.code(), self.log())
    }
}

impl Drop for LoggedProgram {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
            eprintln!("--- the end of what a program said:\n{}", last.join("\n"));
        }
    }
}
