//! The sandbox command, `cargo run --example sandbox`: starts stand-ins for EKS, STS, Cloud Map and two Kubernetes API
//! servers on loopback, seeds them, and sends `events/` to the real handler. With `--serve` the servers keep running,
//! and the command prints their addresses for other programs; with `--migration` it plays docs/ecs-to-eks.md instead,
//! and with `--multi-cluster` docs/multi-cluster.md. With `--multi-cluster --serve` it serves a clusterset, and with
//! `--shop --serve` a shop in the middle of its move.

mod clusterset;
mod migration;
mod multi_cluster;
mod seed;
mod serve;
mod shop;
mod story;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => Box::pin(story::run()).await,
        ["--migration"] => Box::pin(migration::run()).await,
        ["--multi-cluster"] => Box::pin(multi_cluster::run()).await,
        ["--serve"] => serve::serve(seed::served().await, "sandbox-kubeconfig").await,
        ["--multi-cluster", "--serve"] => {
            serve::serve(clusterset::served().await, "sandbox-clusterset-kubeconfig").await
        }
        ["--shop", "--serve"] => {
            serve::serve(shop::served().await, "sandbox-shop-kubeconfig").await
        }
        _ => {
            eprintln!(
                "usage: cargo run --example sandbox [-- [--multi-cluster | --shop] --serve | --migration | --multi-cluster]"
            );
            ExitCode::from(2)
        }
    }
}
