//! The forwarder's process: reads the settings, builds the clients, and forwards until Kubernetes ends the pod. It
//! makes no decision.

use cloud_map_sync::error::chain;
use std::process::ExitCode;

use aws_sdk_sqs::Client;
use cloud_map_forwarder::{
    ForwarderSettings, PodHealth, Queue, answer_probes, connect, forward, listen, sdk_config,
};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    start_log();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!("the forwarder cannot start: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}

/// Logs JSON lines with the fields of the function's log, and with the time, which Lambda adds to the function's lines.
/// The targets of kube are off, since the forwarder logs the errors of its watches itself.
fn start_log() {
    let level = std::env::var("RUST_LOG").ok().and_then(|text| text.parse().ok());
    let filter = Targets::new()
        .with_default(level.unwrap_or(LevelFilter::INFO))
        .with_target("kube_client", LevelFilter::OFF)
        .with_target("kube_runtime", LevelFilter::OFF)
        .with_target("aws_sigv4", LevelFilter::INFO);
    let lines = fmt::layer().with_target(false).json();
    tracing_subscriber::registry().with(lines).with(filter).init();
}

async fn run() -> Result<(), Error> {
    let settings = ForwarderSettings::read(|name| std::env::var(name).ok())?;
    let client = connect().await?;
    let config = sdk_config(&settings.queue).load().await;
    let queue = Queue::new(Client::new(&config), &settings.queue.url, &settings.cluster);
    let health = PodHealth::default();
    let port = settings.probe_port;
    let listener = listen(port)
        .await
        .map_err(|error| format!("cannot listen on PROBE_PORT {port}: {error}"))?;
    let probes = listener.local_addr()?;
    tokio::spawn(answer_probes(listener, health.clone()));
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    info!(cluster = settings.cluster, queue = settings.queue.url, %probes, "the forwarder starts");
    let end = async {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    };
    forward(client, &queue, &settings, &health, end).await;
    Ok(())
}
