//! Who may claim what: `NAME_POLICY`, seen from the clusters that it is made for.

use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::run::{converge, plan, settled, sync, sync_service, writes};
use testbed::kubernetes::Headless;

/// The policy of one rule, under which Services of `shop` in `blue` may claim `web*` in `prod`.
fn policy(more: &[(&str, Value)]) -> String {
    let mut rule = json!({
        "clusters": ["blue"], "kubernetesNamespaces": ["shop"],
        "cloudMapNamespaces": ["prod"], "names": ["web*"],
    });
    for (field, value) in more {
        rule[*field] = value.clone();
    }
    json!([rule]).to_string()
}

/// `ops/web`, older than `shop/web` and with a pod of its own, claims the same name.
fn older_claimant(fleet: &Fleet) {
    let service = Headless::new("ops", "web").created("2020-01-01T00:00:00Z");
    let service = service.annotate("cloudmap.controller/hostname", "web");
    fleet.cluster.service(service.annotate("cloudmap.controller/namespace", "prod"));
    let pod = testbed::kubernetes::Pod::new("web-ops", "10.0.7.1");
    fleet.cluster.pods("ops", "web", &[pod]);
}

#[tokio::test]
async fn claim_that_is_not_allowed_any_more_is_ended_and_the_next_takes_the_name() {
    let fleet = Fleet::start().await;
    older_claimant(&fleet);
    fleet.web("web", "prod", &["10.0.1.1"]);
    fleet.web("cart", "prod", &["10.0.2.1"]);
    converge(&fleet, &fleet.function().await).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.7.1"]);
    let function = fleet.function_with(&[("NAME_POLICY", &policy(&[]))]).await;

    fleet.cloud_map.forget_calls();
    let planned = plan(&function).await.to_string();
    assert_eq!(writes(&fleet), Vec::<String>::new());
    for words in [
        "NAME_POLICY does not allow Service ops/web this name",
        "no rule of NAME_POLICY applies to Kubernetes namespace ops of cluster blue",
        "NAME_POLICY lets Services of Kubernetes namespace shop claim web* in the Cloud Map namespaces prod",
    ] {
        assert!(planned.contains(words), "{words}: {planned}");
    }
    sync(&function).await;

    let order = ["RegisterInstance web", "DeregisterInstance web"];
    let made = writes(&fleet).into_iter().filter(|call| call.ends_with(" web"));
    assert_eq!(made.collect::<Vec<_>>(), order, "the name never goes empty");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
    assert!(fleet.instances("prod", "cart").is_empty());
    settled(&fleet, &function).await;
}

#[tokio::test]
async fn message_about_a_service_whose_claim_is_not_allowed_any_more_ends_it() {
    let fleet = Fleet::start().await;
    fleet.web("cart", "prod", &["10.0.2.1"]);
    converge(&fleet, &fleet.function().await).await;
    let function = fleet.function_with(&[("NAME_POLICY", &policy(&[]))]).await;
    sync_service(&function, "cart").await;
    assert!(fleet.instances("prod", "cart").is_empty());
}
