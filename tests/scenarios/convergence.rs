//! A converged world is read alone, whatever it is made of. What that costs is in `calls`.

use crate::fleet::Fleet;
use crate::run::{converge, sync};
use testbed::cloud_map::{Behaviour, NamespaceKind, RecordType, ServiceKind};

#[tokio::test]
async fn empty_services_that_nobody_claims_are_not_read() {
    let fleet = Fleet::start().await;
    for name in ["a", "b", "c"] {
        fleet.dns_service(name, &[RecordType::A]);
    }
    fleet.web("b", "prod.local", &[]);

    sync(&fleet.function().await).await;

    let claimed = fleet.cloud_map.find_service("prod.local", "b");
    let calls = fleet.cloud_map.calls().into_iter();
    let read: Vec<_> = calls.filter(|call| call.operation == "ListInstances").collect();
    assert_eq!(read.len(), 1, "{read:?}");
    assert_eq!(read[0].service, claimed);
}

#[tokio::test]
async fn registry_of_many_pages_converges_as_one_of_one_page() {
    let fleet = Fleet::start().await;
    fleet.cloud_map.behave(Behaviour { page_limit: 2, ..Behaviour::default() });
    for index in 0..5 {
        fleet.cloud_map.namespace(&format!("other-{index}"), NamespaceKind::Http);
        fleet.cloud_map.service(&fleet.http, &format!("other-{index}"), ServiceKind::Http);
    }
    fleet.web("web", "prod", &["10.0.1.1", "10.0.1.2", "10.0.1.3", "10.0.1.4", "10.0.1.5"]);
    fleet.web("cart", "prod.local", &["10.0.2.1", "10.0.2.2", "10.0.2.3"]);

    let report = converge(&fleet, &fleet.function().await).await;

    assert_eq!(report.counts.registered, 8, "{report}");
    assert_eq!(fleet.addresses("prod", "web").len(), 5);
}
