//! The function under measurement: built as it is deployed, run as a process with Lambda's environment.
//!
//! What Linux says of a process under measurement.
//!
//! From exec to the first poll for work: of the function, and of one that does nothing, built in the same way.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde_json::Value;
use tokio::process::Child;

use testbed::Sandbox;
use testbed::programs;
use testbed::runtime_api::{Outcome, RuntimeApi};

/// The longest time that Lambda gives.
const TIME: Duration = Duration::from_mins(15);

/// Where TLS roots are in one file, as in Lambda's image. Debian has each in a file of its own besides, and reading
/// those takes longer than all the rest of the start.
const ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

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
        Self::at(programs::release_function()?)
    }

    /// Builds the function that does nothing.
    pub fn bare() -> Result<Self, String> {
        let here = Path::new(testbed::ROOT);
        cargo_build(
            &here.join("crates/testbed/benches/bare"),
            &["--locked", "--target-dir", "../../../../target/bare"],
        )?;
        Self::at(here.join("target/bare/release/bare"))
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
        let process = api
            .command(&self.path)
            .envs(Path::new(ROOTS).exists().then_some(("SSL_CERT_FILE", ROOTS)))
            .envs(sandbox.environment())
            .envs(settings.iter().copied())
            .spawn()
            .expect("the binary starts");
        Function { api, process }
    }

    /// From exec to the first poll for work, in milliseconds.
    pub async fn time_to_start(&self, sandbox: &Sandbox) -> f64 {
        let start = Instant::now();
        let function = self.start(sandbox, &[]).await;
        function.api.polled().await;
        start.elapsed().as_secs_f64() * 1000.0
    }
}

fn cargo_build(package: &Path, arguments: &[&str]) -> Result<(), String> {
    let mut cargo = std::process::Command::new(env!("CARGO"));
    let cargo = cargo.args(["build", "--release"]).args(arguments).current_dir(package);
    let status = cargo.status().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err("cargo build failed".to_owned()) }
}

impl Function {
    pub async fn invoke(&mut self, payload: Value) -> Outcome {
        let outcome = self.api.invoke(payload, TIME);
        tokio::select! {
            outcome = outcome => outcome.expect("the runtime API keeps its end"),
            ended = self.process.wait() => panic!("the function ended: {ended:?}"),
        }
    }

    /// What it has used so far.
    pub fn used(&self) -> Used {
        Used::by(self.process.id()).expect("it runs")
    }

    /// The processor time since then, and the peak memory up to now.
    pub fn used_since(&self, before: Used) -> Used {
        let Used { processor_time, peak_memory } = self.used();
        Used { processor_time: processor_time - before.processor_time, peak_memory }
    }
}

/// What a process has used so far.
#[derive(Clone, Copy, Default)]
pub struct Used {
    /// In seconds.
    pub processor_time: f64,
    /// The most memory that it has ever had resident (VmHWM), in megabytes.
    pub peak_memory: f64,
}

impl Used {
    /// `None` where the process has ended.
    pub fn by(process: Option<u32>) -> Option<Self> {
        let process = process?;
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}")).ok();
        let status = read("status")?;
        let stat = read("stat")?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kib: f64 = peak.trim().strip_suffix("kB")?.trim().parse().ok()?;
        // After the name, which may hold anything and ends with the last parenthesis: utime and stime are the
        // 12th and 13th field, in hundredths of a second.
        let fields: Vec<&str> = stat.rsplit(')').next()?.split(' ').collect();
        let ticks = |field: usize| fields.get(field)?.parse::<f64>().ok();
        let processor_time = (ticks(12)? + ticks(13)?) / 100.0;
        Some(Self { processor_time, peak_memory: kib * 1024.0 / 1e6 })
    }
}

/// How often each is started, in turns.
const STARTS: usize = 40;

/// In milliseconds.
pub struct Start {
    /// The function: the middle, and the least.
    pub function: (f64, f64),
    /// The one that does nothing.
    pub bare: (f64, f64),
}

impl Start {
    /// Starts both, again and again.
    pub async fn measure(function: &Binary, bare: &Binary) -> Self {
        let sandbox = Sandbox::start().await.cluster("blue").await;
        let mut of_function = Vec::new();
        let mut of_bare = Vec::new();
        for _ in 0..STARTS {
            of_function.push(function.time_to_start(&sandbox).await);
            of_bare.push(bare.time_to_start(&sandbox).await);
        }
        Self { function: middle_and_least(of_function), bare: middle_and_least(of_bare) }
    }
}

fn middle_and_least(mut times: Vec<f64>) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[0])
}
