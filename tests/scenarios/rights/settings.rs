//! The rights to read settings from Parameter Store: without them each invocation fails, and its error is one line.

use cloud_map_sync::error::chain;
use cloud_map_sync::settings;

use crate::fleet::Fleet;
use crate::run::converge;
use testbed::runtime_api::FUNCTION_ARN;

pub const RIGHTS: [&str; 2] = ["ssm:GetParameter", "ssm:GetParametersByPath"];

#[tokio::test]
async fn parameters_that_may_not_be_read_are_an_error_that_names_the_right() {
    for (right, name, clusters) in [
        ("ssm:GetParameter", "/cloud-map-sync/clusters", "ssm:/cloud-map-sync/clusters"),
        ("ssm:GetParametersByPath", "/cloud-map-sync/clusters/", "ssm:/cloud-map-sync/clusters/"),
    ] {
        let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
        let parameter = if name.ends_with('/') { format!("{name}blue") } else { name.to_owned() };
        fleet.sandbox.parameter(&parameter, "blue");
        let config = fleet.sandbox.sdk_config().await;
        let variable = |name: &str| (name == "CLUSTERS").then(|| clusters.to_owned());

        let refused = settings::load(variable, Some(FUNCTION_ARN), &config).await;
        let refused = refused.expect_err("it is denied");

        let said = chain(&refused);
        assert_eq!((said.matches(right).count() > 0, said.lines().count()), (true, 1), "{said}");
        assert!(said.contains(name) && refused.kind() == "UnreadableSettings", "{said}");
        assert_eq!(fleet.cloud_map.calls(), []);
        fleet.sandbox.aws().parameter_store.allow(name);
        converge(&fleet, &fleet.function_with(&[("CLUSTERS", clusters)]).await).await;
        assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
    }
}
