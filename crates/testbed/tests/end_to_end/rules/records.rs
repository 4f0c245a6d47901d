//! Ports and address families as the endpoint-slice controller tells them: a slice for each set of target
//! ports, and one for each family.

use serde_json::{Value, json};

use super::{Story, claim};
use testbed::cloud_map::RecordType;

const IPV4_AND_PORT: [&str; 2] = ["AWS_INSTANCE_IPV4", "AWS_INSTANCE_PORT"];

/// A claim in the DNS namespace with ports.
fn claim_with_port(hostname: &str, port: &str) -> Value {
    let mut claim = claim("prod.local", hostname);
    claim["cloudmap.controller/port"] = port.into();
    claim
}

impl Story {
    pub(super) async fn named_port_is_the_one_behind_it_in_each_pods_own_slice(&self) {
        let spec = json!({
            "clusterIP": "None",
            "ports": [{"name": "metrics", "port": 80, "targetPort": "metrics"}],
        });
        self.cluster.service("meter", &claim_with_port("meter", "metrics"), &spec).await;
        let pods = [("meter-a", "10.0.2.1", 9100), ("meter-b", "10.0.2.2", 9200)];
        for (name, address, port) in pods {
            self.cluster.pod_with_port("meter", name, address, ("metrics", port)).await;
        }
        self.cluster.wait_for_ready("meter", &["10.0.2.1", "10.0.2.2"]).await;

        self.converge().await;

        let found = self.values("prod.local", "meter", &IPV4_AND_PORT);
        assert_eq!(found, ["10.0.2.1 9100", "10.0.2.2 9200"]);
        assert_eq!(self.records("meter"), [RecordType::Srv]);
    }

    pub(super) async fn several_ports_are_several_instances_of_a_pod(&self) {
        let spec = json!({
            "clusterIP": "None",
            "ports": [
                {"name": "http", "port": 80, "targetPort": 8080},
                {"name": "grpc", "port": 90, "targetPort": 9090},
            ],
        });
        self.cluster.service("api", &claim_with_port("api", "http,90"), &spec).await;
        self.cluster.pod("api", "api-a", &["10.0.2.3"]).await;
        self.cluster.wait_for_ready("api", &["10.0.2.3"]).await;
        self.converge().await;
        let found = self.values("prod.local", "api", &IPV4_AND_PORT);
        assert_eq!(found, ["10.0.2.3 8080", "10.0.2.3 9090"]);
    }

    /// The record types of a service in the DNS namespace.
    fn records(&self, name: &str) -> Vec<RecordType> {
        let services = self.world.services("prod.local");
        let service = services.into_iter().find(|service| service.name == name).expect("created");
        let records = service.dns.expect("DNS records").records;
        records.into_iter().map(|(record, _)| record).collect()
    }
}
