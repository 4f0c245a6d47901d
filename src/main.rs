//! The program of the Lambda function. It only runs [`cloud_map_sync::lambda`].

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    cloud_map_sync::lambda::main().await
}
