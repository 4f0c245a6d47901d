//! The health of instances, which is not an attribute: AWS_INIT_HEALTH_STATUS never changes while the status does. A
//! status that is reported to a custom health check takes effect after a delay, which a repetition does not shorten. A
//! registration resets the status. The status of a new instance is shown a moment later than the instance.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::CloudMap;
use super::input::{Input, Page, absent};
use super::instance::not_found;
use super::namespace::with_token;
use super::resource::Service;
use super::seed::seeded;
use super::state::State;
use super::wire::{ApiError, Checked};

/// The custom health of one instance.
pub struct Health {
    status: &'static str,
    known_from: Instant,
    coming: Option<(&'static str, Instant)>,
}

impl Health {
    /// As a registration sets it: HEALTHY unless the attribute says otherwise.
    pub fn initial(attributes: &BTreeMap<String, String>, known_from: Instant) -> Self {
        let unhealthy =
            attributes.get("AWS_INIT_HEALTH_STATUS").is_some_and(|status| status == "UNHEALTHY");
        let status = if unhealthy { "UNHEALTHY" } else { "HEALTHY" };
        Self { status, known_from, coming: None }
    }

    fn is_known(&self, now: Instant) -> bool {
        self.known_from <= now
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
    /// Starts the custom health of an instance as its registration says; one that has just come is not known before
    /// `known_from`.
    /// Assumed (registration_sets_the_status): a registration over an instance starts its health anew.
    pub fn start_health(
        &mut self,
        id: &str,
        attributes: &BTreeMap<String, String>,
        known_from: Instant,
    ) {
        if self.custom_health {
            let former = self.health.get(id).map(|former| former.known_from);
            let known_from = former.map_or(known_from, |former| former.min(known_from));
            self.health.insert(id.to_owned(), Health::initial(attributes, known_from));
        }
    }

    /// Whether any health check is configured.
    pub fn has_health_check(&self) -> bool {
        self.custom_health || self.health_check.is_some()
    }

    /// An instance's status. No prober runs here, so a Route 53 check always passes.
    /// Assumed (health_without_a_check): UNKNOWN without a check, as the examples of DiscoverInstances have it.
    pub fn health_of(&self, instance: &str, now: Instant) -> &'static str {
        match self.health.get(instance) {
            Some(health) if self.custom_health && health.is_known(now) => health.at(now),
            _ if self.custom_health => "UNKNOWN",
            _ if self.has_health_check() => "HEALTHY",
            _ => "UNKNOWN",
        }
    }
}

impl State {
    pub fn get_instances_health_status(&mut self, input: Input<'_>) -> Checked<Value> {
        Page::check_size(input)?;
        let asked = input.texts("Instances")?;
        if asked.as_ref().is_some_and(Vec::is_empty) {
            return Err(absent("Instances"));
        }
        let service_id = self.service_id(input, "ServiceId")?;
        let service = &self.services[&service_id];
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

    pub fn update_instance_custom_health_status(&mut self, input: Input<'_>) -> Checked<Value> {
        let id = input.text("InstanceId", 64)?;
        let status = match input.choice("Status", &["HEALTHY", "UNHEALTHY"])? {
            Some("HEALTHY") => "HEALTHY",
            Some(_) => "UNHEALTHY",
            None => return Err(absent("Status")),
        };
        let service_id = self.service_id(input, "ServiceId")?;
        let (now, from) = (self.now, self.now + self.behaviour.health_delay);
        let service = self.services.get_mut(&service_id).expect("its id was just found");
        if !service.custom_health {
            let message = format!("The service {service_id} has no custom health check");
            return Err(ApiError::new(400, "CustomHealthNotFound", message));
        }
        let listed = service.instances.get(id).and_then(|history| history.listed(now)).is_some();
        let health = service.health.get_mut(id).filter(|health| listed && health.is_known(now));
        let Some(health) = health else { return Err(not_found(id, &service_id)) };
        health.report(status, now, from);
        Ok(Value::Null)
    }
}

impl CloudMap {
    /// The status of every instance of a service, by instance id, as GetInstancesHealthStatus reports it now.
    pub fn health(&self, service_id: &str) -> BTreeMap<String, &'static str> {
        let mut state = self.look();
        let now = state.now;
        let service = seeded(&mut state, service_id);
        service.present().map(|(id, _)| (id.clone(), service.health_of(id, now))).collect()
    }

    /// Lets the health of all new instances of a service be known.
    pub fn health_is_known(&self, service_id: &str) {
        self.change(|state| {
            let now = state.now;
            seeded(state, service_id).health.values_mut().for_each(|it| it.known_from = now);
        });
    }
}
