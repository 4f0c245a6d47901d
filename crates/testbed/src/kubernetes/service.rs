//! The builder of Services for tests: a headless Service by default, with the fields that a real server sets by
//! default.

use serde_json::{Map, Value, json};

/// A Service to be.
#[derive(Clone, Debug)]
pub struct Headless {
    metadata: Map<String, Value>,
    annotations: Map<String, Value>,
    labels: Map<String, Value>,
    ports: Vec<Value>,
    families: Vec<&'static str>,
    spec: Map<String, Value>,
}

impl Headless {
    /// A headless IPv4 Service without ports that selects `app: <name>`.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            metadata: members(json!({"name": name, "namespace": namespace})),
            annotations: Map::new(),
            labels: Map::new(),
            ports: Vec::new(),
            families: vec!["IPv4"],
            spec: members(json!({
                "type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"],
                "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                "selector": {"app": name},
            })),
        }
    }

    #[must_use]
    pub fn annotate(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.into());
        self
    }

    /// Claims names in a Cloud Map namespace.
    #[must_use]
    pub fn claim(self, names: &str, namespace: &str) -> Self {
        self.annotate("cloudmap.controller/hostname", names)
            .annotate("cloudmap.controller/namespace", namespace)
    }

    /// Adds a label, which the EndpointSlices copy.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.into());
        self
    }

    /// Adds a TCP port whose target is the same number; the name may be empty.
    #[must_use]
    pub fn port(self, name: &str, number: u16) -> Self {
        self.port_to(name, number, number)
    }

    /// Adds a TCP port with another target: a number or the name of a container port.
    #[must_use]
    pub fn port_to(self, name: &str, number: u16, target: impl Into<Value>) -> Self {
        self.port_of("TCP", name, number, target)
    }

    /// Adds a port of any protocol.
    #[must_use]
    pub fn port_of(
        mut self,
        protocol: &str,
        name: &str,
        number: u16,
        target: impl Into<Value>,
    ) -> Self {
        let mut port = json!({"port": number, "protocol": protocol, "targetPort": target.into()});
        if !name.is_empty() {
            port["name"] = name.into();
        }
        self.ports.push(port);
        self
    }

    /// Sets the appProtocol of the last port.
    #[must_use]
    pub fn app_protocol(mut self, protocol: &str) -> Self {
        self.ports.last_mut().expect("a port was added before")["appProtocol"] = protocol.into();
        self
    }

    /// Sets the creation time (`2026-01-02T03:04:05Z`), which claims are ordered by.
    #[must_use]
    pub fn created(mut self, time: &str) -> Self {
        self.metadata.insert("creationTimestamp".to_owned(), time.into());
        self
    }

    #[must_use]
    pub fn uid(mut self, uid: &str) -> Self {
        self.metadata.insert("uid".to_owned(), uid.into());
        self
    }

    /// Sets the address families: `IPv4`, `IPv6` or both.
    #[must_use]
    pub fn families(mut self, families: &[&'static str]) -> Self {
        self.families = families.to_vec();
        self
    }

    /// Without a selector no controller writes slices: tests put their own. The API server gives such a Service both
    /// families, also in a cluster with one.
    #[must_use]
    pub fn without_selector(mut self) -> Self {
        self.spec.remove("selector");
        self.families(&["IPv4", "IPv6"])
    }

    /// Makes it an ordinary Service with that cluster IP.
    #[must_use]
    pub fn cluster_ip(self, address: &str) -> Self {
        self.spec("clusterIP", address).spec("clusterIPs", vec![address])
    }

    /// Marks it as being deleted, held by a finalizer.
    #[must_use]
    pub fn deleting(mut self) -> Self {
        self.metadata.insert("deletionTimestamp".to_owned(), "2026-11-21T00:00:00Z".into());
        self.metadata.insert(
            "finalizers".to_owned(),
            json!(["service.kubernetes.io/load-balancer-cleanup"]),
        );
        self
    }

    /// Sets any member of the spec.
    #[must_use]
    pub fn spec(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.spec.insert(key.to_owned(), value.into());
        self
    }

    pub fn build(mut self) -> Value {
        for (key, members) in [("annotations", self.annotations), ("labels", self.labels)] {
            if !members.is_empty() {
                self.metadata.insert(key.to_owned(), members.into());
            }
        }
        if !self.ports.is_empty() {
            self.spec.insert("ports".to_owned(), self.ports.into());
        }
        if !self.families.is_empty() {
            let policy = if self.families.len() > 1 { "RequireDualStack" } else { "SingleStack" };
            self.spec.insert("ipFamilyPolicy".to_owned(), policy.into());
            self.spec.insert("ipFamilies".to_owned(), self.families.into());
        }
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": self.metadata, "spec": self.spec, "status": {"loadBalancer": {}},
        })
    }
}

impl From<Headless> for Value {
    fn from(service: Headless) -> Value {
        service.build()
    }
}

/// Fills in what the server fills in: type, protocol and target of ports, address family.
pub(super) fn with_defaults(mut service: Value) -> Value {
    client_defaults(&mut service);
    let spec = &mut service["spec"];
    if spec["type"] != "ExternalName" {
        default(spec, "ipFamilies", vec!["IPv4"]);
        default(spec, "ipFamilyPolicy", "SingleStack");
    }
    service
}

/// The same without families, which depend on the cluster.
pub(super) fn client_defaults(service: &mut Value) {
    let spec = &mut service["spec"];
    default(spec, "type", "ClusterIP");
    default(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "ClientIP" {
        default(&mut spec["sessionAffinityConfig"]["clientIP"], "timeoutSeconds", 10800);
    } else if let Some(spec) = spec.as_object_mut() {
        spec.remove("sessionAffinityConfig");
    }
    if spec["type"] != "ExternalName" {
        default(spec, "internalTrafficPolicy", "Cluster");
    }
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        let number = port["port"].clone();
        default(port, "protocol", "TCP");
        default(port, "targetPort", number);
    }
}

fn default(object: &mut Value, key: &str, value: impl Into<Value>) {
    if object[key].is_null() {
        object[key] = value.into();
    }
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
