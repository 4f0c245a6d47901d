//! The health of instances, which is not an attribute: a registration sets it by AWS_INIT_HEALTH_STATUS.

use std::collections::BTreeMap;

use super::CloudMap;
use super::resource::Service;
use super::seed::seeded;

impl Service {
    /// Sets the custom health of an instance as its registration says: HEALTHY unless the attribute says otherwise.
    /// Assumed (registration_sets_the_status): a registration over an instance starts its health anew.
    pub fn start_health(&mut self, id: &str, attributes: &BTreeMap<String, String>) {
        if self.custom_health {
            let stated = attributes.get("AWS_INIT_HEALTH_STATUS");
            let is_unhealthy = stated.is_some_and(|status| status == "UNHEALTHY");
            let status = if is_unhealthy { "UNHEALTHY" } else { "HEALTHY" };
            self.health.insert(id.to_owned(), status);
        }
    }

    /// Whether any health check is configured.
    pub fn has_health_check(&self) -> bool {
        self.custom_health || self.health_check.is_some()
    }

    /// An instance's status. No prober runs here, so a Route 53 check always passes.
    /// Assumed (health_without_a_check): UNKNOWN without a check, as the examples of DiscoverInstances have it.
    pub fn health_of(&self, instance: &str) -> &'static str {
        match self.health.get(instance) {
            Some(status) if self.custom_health => status,
            _ if self.health_check.is_some() => "HEALTHY",
            _ => "UNKNOWN",
        }
    }
}

impl CloudMap {
    /// The status of every instance of a service, by instance id.
    pub fn health(&self, service_id: &str) -> BTreeMap<String, &'static str> {
        let mut state = self.look();
        let service = seeded(&mut state, service_id);
        service.present().map(|(id, _)| (id.clone(), service.health_of(id))).collect()
    }
}
