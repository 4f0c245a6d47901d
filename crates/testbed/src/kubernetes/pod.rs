//! The pods of a Service, with the fields that the endpoint controllers read.
//!
//! The builder of ordinary Services for tests, which get a cluster IP from the cluster they are put into.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::service::Headless;
use super::store::uid;

/// A scheduled pod with its addresses; ready unless changed.
#[derive(Clone, Debug)]
pub struct Pod {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) node: Option<String>,
    pub(super) zone: Option<String>,
    pub(super) hostname: Option<String>,
    pub(super) ready: bool,
    pub(super) terminating: bool,
}

impl Pod {
    /// A ready pod with one address, IPv4 or IPv6.
    pub fn new(name: &str, address: &str) -> Self {
        let pod = Self {
            name: name.to_owned(),
            uid: uid(&format!("pod {name} {address}")),
            addresses: Vec::new(),
            node: Some("ip-10-0-0-10.eu-central-1.compute.internal".to_owned()),
            zone: Some("eu-central-1a".to_owned()),
            hostname: None,
            ready: true,
            terminating: false,
        };
        pod.address(address)
    }

    /// Adds an address, usually of the other family.
    #[must_use]
    pub fn address(mut self, address: &str) -> Self {
        self.addresses.push(address.parse().expect("an IP address"));
        self
    }

    #[must_use]
    pub fn uid(mut self, uid: &str) -> Self {
        uid.clone_into(&mut self.uid);
        self
    }

    #[must_use]
    pub fn node(mut self, node: &str) -> Self {
        self.node = Some(node.to_owned());
        self
    }

    /// Sets the node's zone.
    #[must_use]
    pub fn zone(mut self, zone: &str) -> Self {
        self.zone = Some(zone.to_owned());
        self
    }

    /// Sets the hostname of a pod whose subdomain is the Service, as StatefulSets do.
    #[must_use]
    pub fn hostname(mut self, hostname: &str) -> Self {
        self.hostname = Some(hostname.to_owned());
        self
    }

    /// Makes its readiness probe fail.
    #[must_use]
    pub fn not_ready(mut self) -> Self {
        self.ready = false;
        self
    }

    /// Deletes it: it terminates, and serves as long as it is ready.
    #[must_use]
    pub fn terminating(mut self) -> Self {
        self.terminating = true;
        self
    }

    /// Its first address of a family.
    pub(super) fn address_of(&self, family: &str) -> Option<String> {
        let wanted = |address: &&IpAddr| address.is_ipv6() == (family == "IPv6");
        self.addresses.iter().find(wanted).map(ToString::to_string)
    }

    /// The pod itself, as far as clients of Services look at it: with the labels that its Service selects.
    pub(super) fn object(&self, service: &Value) -> Value {
        let condition = if self.ready { "True" } else { "False" };
        let ip = |address: &IpAddr| json!({"ip": address.to_string()});
        let mut object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": self.name, "namespace": service["metadata"]["namespace"], "uid": self.uid,
                "labels": service["spec"]["selector"],
            },
            "spec": {"containers": [{"name": "app", "image": "app"}]},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": condition}],
                "podIP": self.addresses.first().map(ToString::to_string),
                "podIPs": self.addresses.iter().map(ip).collect::<Vec<_>>(),
            },
        });
        set(&mut object["spec"], [("nodeName", &self.node), ("hostname", &self.hostname)]);
        if self.terminating {
            object["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z".into();
        }
        object
    }

    /// The reference that endpoints carry.
    pub(super) fn reference(&self, namespace: &Value) -> Value {
        json!({"kind": "Pod", "namespace": namespace, "name": self.name, "uid": self.uid})
    }
}

/// Sets the members that are there.
pub(super) fn set<const N: usize>(object: &mut Value, members: [(&str, &Option<String>); N]) {
    for (key, value) in members {
        if let Some(value) = value {
            object[key] = value.as_str().into();
        }
    }
}

/// The ports of a Service's pods under the Service's names. No pod here names its ports, so a target by name is left out,
/// as the controllers do.
pub(super) fn ports_of(service: &Value) -> Vec<Value> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let ports = ports.filter(|port| !port["targetPort"].is_string());
    ports.map(of_pods).collect()
}

fn of_pods(port: &Value) -> Value {
    let target = Some(&port["targetPort"]).filter(|target| !target.is_null());
    let mut found = json!({
        "name": port["name"].as_str().unwrap_or_default(),
        "port": target.unwrap_or(&port["port"]),
        "protocol": port["protocol"].as_str().unwrap_or("TCP"),
    });
    if let Some(protocol) = port["appProtocol"].as_str() {
        found["appProtocol"] = protocol.into();
    }
    found
}

/// A Service of type ClusterIP to be.
#[derive(Clone, Debug)]
pub struct ClusterIp(Headless);

impl ClusterIp {
    /// An IPv4 Service without ports that selects `app: <name>`.
    pub fn new(namespace: &str, name: &str) -> Self {
        let unset = |service: Headless, key| service.spec(key, Value::Null);
        Self(["clusterIP", "clusterIPs"].into_iter().fold(Headless::new(namespace, name), unset))
    }

    /// Adds a TCP port whose target is the same number; the name may be empty.
    #[must_use]
    pub fn port(self, name: &str, number: u16) -> Self {
        self.with(|service| service.port(name, number))
    }

    /// Adds a port of any protocol with another target.
    #[must_use]
    pub fn port_of(
        self,
        protocol: &str,
        name: &str,
        number: u16,
        target: impl Into<Value>,
    ) -> Self {
        self.with(|service| service.port_of(protocol, name, number, target))
    }

    /// Sets the address families, in their order.
    #[must_use]
    pub fn families(self, families: &[&'static str]) -> Self {
        self.with(|service| service.families(families))
    }

    /// Sets any member of the spec.
    #[must_use]
    pub fn spec(self, key: &str, value: impl Into<Value>) -> Self {
        self.with(|service| service.spec(key, value))
    }

    /// Does whatever the builder of headless Services can.
    #[must_use]
    pub fn with(self, change: impl FnOnce(Headless) -> Headless) -> Self {
        Self(change(self.0))
    }
}

impl From<ClusterIp> for Value {
    fn from(service: ClusterIp) -> Value {
        let mut service = service.0.build();
        let spec = service["spec"].as_object_mut().expect("a spec");
        spec.retain(|_, value| !value.is_null());
        service
    }
}
