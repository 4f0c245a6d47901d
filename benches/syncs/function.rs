//! The function under measurement: built as it is deployed, run as a process with Lambda's environment.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::runtime_api::{Outcome, RuntimeApi};
use crate::sandbox::{REGION, Sandbox};

/// The longest time that Lambda gives.
const TIME: Duration = Duration::from_mins(15);

/// The release binary.
pub struct Binary {
    path: PathBuf,
    /// In bytes.
    pub size: u32,
    /// In bytes, as a zip archive holds it.
    pub zipped: u32,
}

/// One execution environment.
pub struct Function {
    api: RuntimeApi,
    process: Child,
}

impl Binary {
    /// Builds what `sam build` builds, unless a variable names a binary that was built before.
    pub fn build() -> Result<Self, String> {
        if let Some(path) = std::env::var_os("CLOUD_MAP_SYNC_BINARY") {
            return Self::at(path.into());
        }
        let status = std::process::Command::new(env!("CARGO"))
            .args(["build", "--release", "--no-default-features", "--bin", "cloud-map-sync"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .map_err(|error| error.to_string())?;
        if !status.success() {
            return Err("cargo build failed".to_owned());
        }
        Self::at(Path::new(env!("CARGO_MANIFEST_DIR")).join("target/release/cloud-map-sync"))
    }

    /// Looks how large a binary is.
    fn at(path: PathBuf) -> Result<Self, String> {
        let built = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut zip = DeflateEncoder::new(Vec::new(), Compression::best());
        std::io::Write::write_all(&mut zip, &built).map_err(|error| error.to_string())?;
        let zipped = zip.finish().map_err(|error| error.to_string())?;
        let bytes = |file: &[u8]| u32::try_from(file.len()).map_err(|error| error.to_string());
        Ok(Self { path, size: bytes(&built)?, zipped: bytes(&zipped)? })
    }

    /// Starts it in the sandbox's environment.
    pub async fn start(&self, sandbox: &Sandbox, settings: &[(&str, &str)]) -> Function {
        let api = RuntimeApi::start().await;
        let process = Command::new(&self.path)
            .env_clear()
            .env("AWS_LAMBDA_RUNTIME_API", api.address())
            .env("AWS_LAMBDA_FUNCTION_NAME", "cloud-map-sync")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .env("AWS_LAMBDA_LOG_GROUP_NAME", "/aws/lambda/cloud-map-sync")
            .env("AWS_LAMBDA_LOG_STREAM_NAME", "bench")
            .env("AWS_LAMBDA_LOG_FORMAT", "JSON")
            .env("AWS_LAMBDA_LOG_LEVEL", "ERROR")
            .env("AWS_REGION", REGION)
            .envs(sandbox.environment())
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("the binary starts");
        Function { api, process }
    }

    /// From exec to the answer to a payload that asks for nothing, in milliseconds: the middle of twenty.
    pub async fn time_to_start(&self) -> f64 {
        let sandbox = Sandbox::start().await.cluster("blue").await;
        let mut times = Vec::new();
        for _ in 0..20 {
            let start = Instant::now();
            let mut function = self.start(&sandbox, &[]).await;
            function.invoke(json!({ "action": "nothing" })).await.expect_err("it asks for nothing");
            times.push(start.elapsed().as_secs_f64() * 1000.0);
        }
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }
}

impl Function {
    /// Invokes the function.
    pub async fn invoke(&mut self, payload: Value) -> Outcome {
        let outcome = self.api.invoke(payload, TIME);
        tokio::select! {
            outcome = outcome => outcome.expect("the runtime API keeps its end"),
            ended = self.process.wait() => panic!("the function ended: {ended:?}"),
        }
    }

    /// The most memory that it has ever had resident, in MiB.
    pub fn peak_memory(&self) -> f64 {
        let status = format!("/proc/{}/status", self.process.id().expect("it runs"));
        let status = std::fs::read_to_string(status).expect("Linux's word on a process");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|peak| peak.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
        kib.expect("kB") / 1024.0
    }
}
