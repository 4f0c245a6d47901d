//! The process of `kubectl cloudmap`, which kubectl runs from the PATH. [`kubectl_cloudmap::main`] parses the
//! arguments and returns the exit code. This file makes no decision.

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    Box::pin(kubectl_cloudmap::main()).await
}
