//! A role without rights in Route 53 (`DNS_NAMESPACES` `false`): services with DNS records are not served,
//! and a plan and `doctor` report that before the first registration.

use serde_json::json;

use crate::doctor::doctor;
use crate::fleet::{Fleet, OTHER_ACCOUNT};
use crate::run::{converge, converged, held_back, plan, report, said_of, sync};
use testbed::REGION;
use testbed::cloud_map::{RecordType, ServiceKind};

const NO_RIGHTS: (&str, &str) = ("DNS_NAMESPACES", "false");

/// `shop/web` in the DNS namespace, `shop/cart` in the HTTP namespace, an HTTP service `api` in the former.
async fn fleet() -> Fleet {
    let fleet = Fleet::with_web("web", "prod.local", &["10.0.1.1"]).await;
    fleet.web("cart", "prod", &["10.0.1.2"]);
    fleet.web("api", "prod.local", &["10.0.1.3"]);
    fleet.cloud_map.service(&fleet.dns, "api", ServiceKind::Http);
    fleet
}

#[tokio::test]
async fn plan_reports_services_with_records_before_any_registration() {
    let fleet = fleet().await;
    let function = fleet.function_with(&[NO_RIGHTS, ("DRY_RUN", "true")]).await;

    let report = plan(&function).await;

    assert!(held_back(&report).contains(&"DnsNotAllowed"), "{report}");
    let said = said_of(&report, "DnsNotAllowed");
    assert!(said.contains("HostedZoneIds"), "{said}");
}

#[tokio::test]
async fn only_services_with_records_are_left_out_and_no_run_fails() {
    let fleet = fleet().await;
    let function = fleet.function_with(&[NO_RIGHTS]).await;

    let report = converge(&fleet, &function).await;

    assert_eq!(fleet.cloud_map.find_service("prod.local", "web"), None, "{report}");
    assert_eq!(fleet.addresses("prod", "cart"), ["10.0.1.2"]);
    assert_eq!(fleet.addresses("prod.local", "api"), ["10.0.1.3"]);
}

#[tokio::test]
async fn registered_instances_stay_until_rights_return() {
    let fleet = fleet().await;
    fleet.web("web", "prod.local", &["10.0.1.1", "10.0.1.4"]);
    converged(&fleet).await;
    let function = fleet.function_with(&[NO_RIGHTS]).await;
    assert!(!held_back(&converge(&fleet, &function).await).contains(&"DnsNotAllowed"));

    fleet.pods("web", &["10.0.1.5", "10.0.1.6"]);
    let report = converge(&fleet, &function).await;

    assert!(held_back(&report).contains(&"DnsNotAllowed"), "{report}");
    assert!(!fleet.addresses("prod.local", "web").is_empty(), "the name stays");
    converge(&fleet, &fleet.function().await).await;
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.5", "10.0.1.6"]);
}

#[tokio::test]
async fn instances_of_others_are_not_adopted_into_records() {
    let fleet = fleet().await;
    let service = fleet.dns_service("web", &[RecordType::A]);
    fleet.cloud_map.instance(&service, "by-hand", &[("AWS_INSTANCE_IPV4", "10.0.1.1")]);
    let function = fleet.function_with(&[NO_RIGHTS]).await;
    let report = report(&function, &json!({"action": "adopt", "confirm": true})).await;
    assert!(held_back(&report).contains(&"DnsNotAllowed"), "{report}");
    assert_eq!(fleet.cloud_map.writes(), 0);
}

#[tokio::test]
async fn registry_with_a_role_of_its_own_has_its_own_rights() {
    let fleet = Fleet::start().await;
    let role = "arn:aws:iam::444455556666:role/registry-writer";
    fleet.sandbox.role(role, None);
    let far = fleet.registry(REGION, OTHER_ACCOUNT, &fleet.sandbox.cluster_arn("blue"));
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    let clusters = json!([{ "cluster": "blue", "registryRoleArn": role }]).to_string();

    sync(&fleet.function_with(&[NO_RIGHTS, ("CLUSTERS", &clusters)]).await).await;

    assert_eq!(far.instances(&far.service_id("prod.local", "web")).len(), 1);
}

#[tokio::test]
async fn doctor_names_the_services_and_the_parameter() {
    let fleet = fleet().await;
    for settings in [&[NO_RIGHTS][..], &[NO_RIGHTS, ("DRY_RUN", "true")]] {
        let checkup = doctor(&fleet, settings).await;
        let said = checkup.to_string();
        assert!(!checkup.ok && said.contains("! cloud map  shop/web prod.local/web"), "{said}");
        assert!(said.contains("fix: deploy with their hosted zones in HostedZoneIds"), "{said}");
        assert!(!said.contains("shop/cart") && !said.contains("shop/api"), "{said}");
    }
}
