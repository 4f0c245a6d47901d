//! The builder of ordinary Services for tests, which get a cluster IP from the cluster they are put into.

use serde_json::Value;

use super::service::Headless;

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
        self.with(|it| it.port(name, number))
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
        self.with(|it| it.port_of(protocol, name, number, target))
    }

    /// Sets the address families, in their order.
    #[must_use]
    pub fn families(self, families: &[&'static str]) -> Self {
        self.with(|it| it.families(families))
    }

    /// Sets any member of the spec.
    #[must_use]
    pub fn spec(self, key: &str, value: impl Into<Value>) -> Self {
        self.with(|it| it.spec(key, value))
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
