//! The process of `kubectl cloudmap`, which kubectl runs from the PATH. `cli` parses the arguments and returns the exit
//! code. No decisions.

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    Box::pin(kubectl_cloudmap::main()).await
}
