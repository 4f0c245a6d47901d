//! The program of the Lambda function; [`cloud_map_sync::lambda`] is all that it does.

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    cloud_map_sync::lambda::main().await
}
