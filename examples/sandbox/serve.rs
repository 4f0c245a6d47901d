//! `--serve`: the seeded servers keep running for `cargo lambda`, the AWS CLI, kubectl and its plugin.

use std::path::PathBuf;
use std::process::ExitCode;

use cloud_map_sync::function::Function;

use testbed::cloud_map::Behaviour;
use testbed::lambda::Deployed;
use testbed::{ACCOUNT, REGION, ROLE_ARN, Sandbox, kubeconfig as kubeconfigs};

/// Commands for the other shell.
const EXAMPLES: &str = "\
# then, for instance:
#   cargo lambda watch                                      # in one shell, and in another:
#   cargo lambda invoke --data-file events/direct-plan.json cloud-map-sync
#   aws servicediscovery list-services
#   aws servicediscovery discover-instances --namespace-name shop.local --service-name web
#   cargo run -p kubectl-cloudmap -- plan -A
#   kubectl --context blue -n shop get services";

/// Serves until the process is interrupted. `kubeconfig` is the name of a file in `target`.
pub async fn serve((sandbox, function): (Sandbox, Function), kubeconfig: &str) -> ExitCode {
    // Clients that disable the host prefix `data-` send DiscoverInstances to this host.
    let behaviour = Behaviour { discovery_on_any_host: true, ..Behaviour::default() };
    sandbox.cloud_map().behave(behaviour);
    let mut clusters = sandbox.clusters();
    // The first cluster becomes the current context.
    clusters.sort_by_key(|it| it.identity().name != "blue");
    let kubeconfig = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target").join(kubeconfig);
    if let Err(error) = kubeconfigs::write(&kubeconfig, &clusters) {
        eprintln!("cannot write {}: {error}", kubeconfig.display());
        return ExitCode::FAILURE;
    }
    let function = Deployed::in_process(function);
    sandbox.aws().lambda.allow(ROLE_ARN);
    sandbox.aws().lambda.deploy(REGION, ACCOUNT, "cloud-map-sync", function);
    println!("# The sandbox serves until it is interrupted. In another shell:");
    // The AWS CLI reads the Region from this older variable. With the host prefix it would send DiscoverInstances to
    // `data-127.0.0.1`.
    let more = [
        ("AWS_DEFAULT_REGION", REGION),
        ("AWS_DISABLE_HOST_PREFIX_INJECTION", "true"),
        ("CLOUD_MAP_SYNC_FUNCTION", "cloud-map-sync"),
    ];
    let more = more.map(|(name, value)| (name.to_owned(), value.to_owned()));
    for (name, value) in sandbox.environment().into_iter().chain(more) {
        println!("export {name}='{value}'");
    }
    println!("export KUBECONFIG='{}'", kubeconfig.display());
    println!("{EXAMPLES}");
    let interrupted = tokio::signal::ctrl_c().await;
    // A person may have changed foreign instances with the AWS CLI, which is no violation.
    sandbox.cloud_map().take_violations();
    match interrupted {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot wait for an interrupt: {error}");
            ExitCode::FAILURE
        }
    }
}
