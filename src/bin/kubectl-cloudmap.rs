//! `kubectl cloudmap`: kubectl runs this binary from the PATH. No decisions.

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    Box::pin(cloud_map_sync::cli::main()).await
}
