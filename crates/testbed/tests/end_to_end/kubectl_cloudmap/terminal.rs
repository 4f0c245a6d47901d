//! A person's terminal: AWS credentials, a kubeconfig, and commands with what they print.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::cold_start::stand_in;
use crate::lambda::Lambda;
use crate::world::World;
use testbed::identity::AccessKey;
use testbed::kubernetes::KubernetesServer;
use testbed::lambda::{Deployed, Handler};
use testbed::programs::program;
use testbed::{ACCOUNT, REGION, Sandbox, kubeconfig};

/// The role of the person.
pub const ROLE: &str = "arn:aws:iam::111122223333:role/developer";
/// The function's name.
pub const FUNCTION: &str = "sync";

/// What a command printed, and its exit code.
#[derive(Debug)]
pub struct Printed {
    pub code: Option<i32>,
    pub output: String,
    pub errors: String,
}

/// A terminal of a person who may invoke functions and nothing else.
pub struct Terminal {
    home: PathBuf,
    environment: BTreeMap<String, String>,
}

impl Terminal {
    /// In the sandbox's AWS, with a kubeconfig of these clusters.
    pub fn new(sandbox: &Sandbox, clusters: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let home = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("terminal-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&home).expect("Cargo's folder for test files");
        let servers: Vec<_> = clusters.iter().map(|name| sandbox.kubernetes(name)).collect();
        let kubeconfig = home.join("config");
        kubeconfig::write(&kubeconfig, &servers).expect("the folder was just made");
        sandbox.aws().lambda.allow(ROLE);
        let key = sandbox.aws().identities.issue(ROLE, "alice", Duration::from_hours(1));
        let mut terminal = Self { home, environment: BTreeMap::new() };
        for (name, value) in [
            ("AWS_ENDPOINT_URL", sandbox.endpoint_url()),
            ("AWS_REGION", REGION.to_owned()),
            ("CLOUD_MAP_SYNC_FUNCTION", FUNCTION.to_owned()),
            ("HOME", terminal.home.display().to_string()),
            ("KUBECONFIG", kubeconfig.display().to_string()),
        ] {
            terminal.set(name, &value);
        }
        terminal.sign_in(&key);
        terminal
    }

    /// Uses these credentials from now on.
    pub fn sign_in(&mut self, key: &AccessKey) {
        self.set("AWS_ACCESS_KEY_ID", &key.id);
        self.set("AWS_SECRET_ACCESS_KEY", &key.secret);
        self.set("AWS_SESSION_TOKEN", &key.session_token);
    }

    /// Has no credentials in the environment any more.
    pub fn sign_out(&mut self) {
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"] {
            self.unset(name);
        }
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: &str) {
        self.environment.insert(name.to_owned(), value.to_owned());
    }

    /// Takes a variable away.
    pub fn unset(&mut self, name: &str) {
        self.environment.remove(name);
    }

    /// A file in the home folder.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.home.join(name);
        std::fs::create_dir_all(path.parent().expect("inside the home folder")).expect("a folder");
        std::fs::write(&path, text).expect("the home folder");
        path.display().to_string()
    }

    /// Runs `kubectl cloudmap` with these words.
    pub async fn run(&self, words: &str) -> Printed {
        let mut command = self.command(program("kubectl-cloudmap"));
        output(command.args(words.split_whitespace())).await
    }

    /// Runs it on a terminal, where somebody types a line. What it prints comes all in one, with the line
    /// ends of a terminal. `script` belongs to every Linux.
    pub async fn run_by_hand(&self, words: &str, typed: &str) -> Printed {
        let file = self.file("typed", &format!("{typed}\n"));
        let typed = std::fs::File::open(file).expect("the file was just made");
        let mut command = self.command("script".into());
        let words = format!("{} {words}", program("kubectl-cloudmap").display());
        command.args(["--quiet", "--return", "--command", &words, "/dev/null"]).stdin(typed);
        output(&mut command).await
    }

    fn command(&self, program: PathBuf) -> Command {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command.env_clear().env("PATH", path).envs(&self.environment).stdin(Stdio::null());
        command
    }
}

async fn output(command: &mut Command) -> Printed {
    let output = command.output().await.expect("the command starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let code = output.status.code();
    let errors = text(output.stderr);
    Printed { code, output: text(output.stdout), errors }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // What a failed test leaves there is of no use.
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

/// The function's binary in the world of `stand_in`, and a person before it.
pub async fn with_function(
    environment: &[(&str, &str)],
) -> (World, KubernetesServer, Lambda, Terminal) {
    let (world, blue) = stand_in().await;
    let lambda = world.lambda(environment).await;
    deploy(&world.sandbox, &[], lambda.handler());
    let terminal = Terminal::new(&world.sandbox, &["blue"]);
    (world, blue, lambda, terminal)
}

/// Deploys a function, and returns the payloads that it is invoked with.
pub fn deploy(
    sandbox: &Sandbox,
    environment: &[(&str, &str)],
    handler: Handler,
) -> Arc<Mutex<Vec<Value>>> {
    let payloads: Arc<Mutex<Vec<Value>>> = Arc::default();
    let seen = payloads.clone();
    let recording: Handler = Arc::new(move |payload: Value, alias| {
        seen.lock().expect("no poisoned lock").push(payload.clone());
        handler(payload, alias)
    });
    let environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    let function = Deployed {
        environment: environment.collect(),
        aliases: ["admin", "live"].map(str::to_owned).into(),
        handler: recording,
    };
    sandbox.aws().lambda.deploy(REGION, ACCOUNT, FUNCTION, function);
    payloads
}

/// A function that answers everything with this.
pub fn answering(answer: Result<Value, Value>) -> Handler {
    Arc::new(move |_, _| {
        let answer = answer.clone();
        Box::pin(async move { answer })
    })
}

/// The report of a plan that finds nothing to do.
pub fn in_step() -> Value {
    json!({
        "mode": "plan", "whole": true, "ok": true, "counts": {}, "clusters": [],
        "release": env!("CARGO_PKG_VERSION"),
    })
}
