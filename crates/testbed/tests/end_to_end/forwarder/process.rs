//! One pod of the forwarder: the binary as a process of its own, with the environment that its
//! Deployment and EKS give it and nothing of the test's.

use std::fs::File;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use testbed::programs::program;

use crate::lambda::{all_of, start_logged};

/// How long a test waits for the process to end before it calls that a hang.
const PATIENCE: Duration = Duration::from_mins(2);

/// A running forwarder.
pub struct Forwarder {
    process: Child,
    log: File,
}

impl Forwarder {
    /// Starts it with these variables.
    pub fn start(variables: &[(&str, String)]) -> Self {
        let mut command = Command::new(program("cloud-map-forwarder"));
        command.env_clear().envs(variables.iter().map(|(name, value)| (name, value)));
        let (process, log) = start_logged(&mut command);
        Self { process, log }
    }

    /// Asks it to end, as Kubernetes does.
    pub fn terminate(&self) {
        let id = self.process.id().expect("it runs").to_string();
        let killed = std::process::Command::new("kill").args(["-TERM", &id]).status();
        assert!(killed.expect("kill runs").success());
    }

    /// Waits for its end; the exit status and all that it said.
    pub async fn end(mut self) -> (Option<i32>, String) {
        let status = tokio::time::timeout(PATIENCE, self.process.wait()).await;
        let status = status.unwrap_or_else(|_| panic!("it does not end\n{}", self.log()));
        (status.expect("a child process").code(), self.log())
    }

    /// Asks what kubelet asks; the status and the text of the answer.
    pub async fn probe(&self, path: &str) -> (u16, String) {
        let log = self.log();
        let starts = log.lines().find(|line| line.contains("the forwarder starts"));
        let starts: Value = serde_json::from_str(starts.expect("it has started")).expect("JSON");
        let address = starts["fields"]["probes"].as_str().expect("an address");
        let port: u16 = address.rsplit(':').next().and_then(|it| it.parse().ok()).expect("a port");
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("text");
        let status = answer.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
        (status, answer.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned())
    }

    /// Everything that it has said so far.
    pub fn log(&self) -> String {
        all_of(&self.log)
    }

    /// How often it has said this. Every line must be JSON.
    pub fn said(&self, message: &str) -> usize {
        let log = self.log();
        let lines = log.lines().map(|line| {
            let line: Result<Value, _> = serde_json::from_str(line);
            line.unwrap_or_else(|error| panic!("{error} in the log\n{log}"))
        });
        lines.filter(|line| line["fields"]["message"] == message).count()
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- what the forwarder said:\n{}", self.log());
        }
    }
}
