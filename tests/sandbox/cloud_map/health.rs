//! The health of instances, which is not an attribute: AWS_INIT_HEALTH_STATUS stays as it was written while the status
//! moves on. A status reported for a custom check takes effect after a while, and repeating it does not hasten it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::dispatch::Output;
use super::error::ApiError;
use super::input::{Input, absent};
use super::instance::not_found;
use super::namespace_reads::with_token;
use super::page::Page;
use super::resource::Service;
use super::state::State;

/// The custom health of one instance.
pub(super) struct Health {
    status: &'static str,
    coming: Option<(&'static str, Instant)>,
}

impl Health {
    /// As a registration sets it: HEALTHY unless the attribute says otherwise.
    pub(super) fn initial(attributes: &BTreeMap<String, String>) -> Self {
        let unhealthy =
            attributes.get("AWS_INIT_HEALTH_STATUS").is_some_and(|status| status == "UNHEALTHY");
        Self { status: if unhealthy { "UNHEALTHY" } else { "HEALTHY" }, coming: None }
    }

    fn at(&self, now: Instant) -> &'static str {
        self.coming.filter(|(_, from)| *from <= now).map_or(self.status, |(status, _)| status)
    }

    fn report(&mut self, status: &'static str, now: Instant, from: Instant) {
        self.status = self.at(now);
        let coming = self.coming.filter(|(coming, since)| *since > now && *coming == status);
        self.coming = coming.or((self.status != status).then_some((status, from)));
    }
}

impl Service {
    /// Whether any health check is configured.
    pub(super) fn has_health_check(&self) -> bool {
        self.custom_health || self.health_check.is_some()
    }

    /// An instance's status; UNKNOWN without a check. No prober runs here, so a Route 53 check always passes.
    pub(super) fn health_of(&self, instance: &str, now: Instant) -> &'static str {
        match self.health.get(instance) {
            Some(health) if self.custom_health => health.at(now),
            _ if self.has_health_check() => "HEALTHY",
            _ => "UNKNOWN",
        }
    }
}

impl State {
    pub(super) fn get_instances_health_status(&mut self, input: Input<'_>) -> Output {
        let service_id = self.service_id(input, "ServiceId")?;
        let service = &self.services[&service_id];
        let asked = input.texts("Instances")?;
        if asked.as_ref().is_some_and(Vec::is_empty) {
            return Err(absent("Instances"));
        }
        let listed: Vec<&String> = service.listed(self.now).map(|(id, _)| id).collect();
        if let Some(unknown) =
            asked.iter().flatten().find(|id| !listed.iter().any(|listed| listed == *id))
        {
            return Err(not_found(unknown, &service_id));
        }
        let wanted = listed
            .into_iter()
            .filter(|id| asked.as_ref().is_none_or(|asked| asked.contains(&id.as_str())));
        let (page, token) =
            Page::read(input, &format!("health of {service_id}"), self.behaviour.page_limit)?
                .cut(wanted.map(|id| (id, (id, service.health_of(id, self.now)))));
        let status: BTreeMap<&String, &str> = page.into_iter().collect();
        Ok(with_token(json!({ "Status": status }), token))
    }

    pub(super) fn update_instance_custom_health_status(&mut self, input: Input<'_>) -> Output {
        let service_id = self.service_id(input, "ServiceId")?;
        let id = input.text("InstanceId", 64)?;
        let status = match input.choice("Status", &["HEALTHY", "UNHEALTHY"])? {
            Some("HEALTHY") => "HEALTHY",
            Some(_) => "UNHEALTHY",
            None => return Err(absent("Status")),
        };
        let (now, from) = (self.now, self.now + self.behaviour.health_delay);
        let service = self.services.get_mut(&service_id).expect("its id was just found");
        if !service.custom_health {
            let message = format!("The service {service_id} has no custom health check");
            return Err(ApiError::new(404, "CustomHealthNotFound", message));
        }
        let listed = service.instances.get(id).and_then(|history| history.listed(now)).is_some();
        let Some(health) = service.health.get_mut(id).filter(|_| listed) else {
            return Err(not_found(id, &service_id));
        };
        health.report(status, now, from);
        Ok(Value::Null)
    }
}
