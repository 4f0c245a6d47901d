//! The health of instances: reads it, and reports readiness to the custom health check of a service.
//!
//! Cloud Map shows a reported health after about 30 s, and the previous health until then. A warm process remembers its
//! recent reports and prefers them to the health that it reads. So it neither repeats a report nor misses a pod that
//! changes back within that time. A cold process repeats reports, which has no effect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_sdk_servicediscovery::error::SdkError;
use aws_sdk_servicediscovery::operation::get_instances_health_status::GetInstancesHealthStatusOutput;
use aws_sdk_servicediscovery::types::CustomHealthStatus;
use futures_util::TryStreamExt;

use super::{Call, CloudMap, Error, Permit, read_each};
use crate::model::{CloudMapService, Health, KnownHealth, Place, Registry, ServiceKey};

/// How long a report may take until Cloud Map shows it; twice the usual time.
const PROPAGATION_TIME: Duration = Duration::from_mins(1);

/// The recent reports of this process, by service ARN and instance id.
#[derive(Debug, Default)]
pub(super) struct Reported(Mutex<BTreeMap<(String, String), (Health, SystemTime)>>);

impl Reported {
    /// Replaces the health that was read by the health that was recently reported.
    fn overlay(&self, arn: &str, known: &mut BTreeMap<String, Health>, now: SystemTime) {
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reported
            .retain(|_, (_, at)| now.duration_since(*at).is_ok_and(|age| age < PROPAGATION_TIME));
        let here = reported.iter().filter(|((service, _), _)| service == arn);
        known.extend(here.map(|((_, instance), (health, _))| (instance.clone(), *health)));
    }

    fn remember(&self, arn: &str, instance: &str, health: Health) {
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reported.insert((arn.to_owned(), instance.to_owned()), (health, SystemTime::now()));
    }

    /// Called at a registration, which resets the health of an instance.
    pub(super) fn forget(&self, arn: &str, instance: &str) {
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reported.remove(&(arn.to_owned(), instance.to_owned()));
    }
}

impl CloudMap {
    /// Reads the health of the instances of the services under `keys` into `registry`. A service that cannot be read is
    /// marked as unreadable; the others are read.
    pub async fn read_health(&self, registry: &mut Registry, keys: &BTreeSet<ServiceKey>) {
        let read = async |service: &CloudMapService| match self
            .health(&service.arn, &service.name)
            .await
        {
            Ok(known) => KnownHealth::Read(known),
            Err(error) => KnownHealth::Unreadable(error.in_full()),
        };
        for (key, known) in read_each(registry, keys, read).await {
            if let Some(service) = registry.services.get_mut(&key) {
                service.health = known;
            }
        }
    }

    /// The health of the instances of a service. Cloud Map may return UNKNOWN or nothing for an instance that was
    /// registered a moment ago.
    async fn health(&self, arn: &str, name: &str) -> Result<BTreeMap<String, Health>, Error> {
        let action = || format!("get the health of the instances of Cloud Map service {name}");
        let pages = self.client.get_instances_health_status().service_id(arn).into_paginator();
        let token = GetInstancesHealthStatusOutput::next_token;
        let failed = |error: &SdkError<_, _>| Error::new(action(), error);
        let pages = self.pages(Call::GetInstancesHealthStatus, pages.send(), token, failed);
        let pages: Vec<GetInstancesHealthStatusOutput> = pages.try_collect().await?;
        let all = pages.into_iter().filter_map(|page| page.status).flatten();
        let mut known: BTreeMap<String, Health> = all
            .filter_map(|(instance, status)| Some((instance, Health::parse(status.as_str())?)))
            .collect();
        self.reported.overlay(arn, &mut known, SystemTime::now());
        Ok(known)
    }

    /// Reports the health of an instance to the custom check of its service.
    ///
    /// # Errors
    /// Returns an error if the call fails. Cloud Map may not find an instance that was registered a moment ago.
    pub async fn report_health(
        &self,
        _permit: Permit<'_>,
        service: &str,
        place: &Place,
        instance: &str,
        health: Health,
    ) -> Result<(), Error> {
        let status = CustomHealthStatus::from(health.as_str());
        let request = self.client.update_instance_custom_health_status().service_id(service);
        let answer = request.instance_id(instance).status(status).send().await;
        answer.map_err(|error| {
            Error::new(format!("report {instance} in {place} as {health}"), &error)
        })?;
        self.reported.remember(service, instance, health);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_report_replaces_the_health_that_is_read() {
        let reported = Reported::default();
        reported.remember("arn", "a", Health::Unhealthy);
        reported.remember("arn", "b", Health::Unhealthy);
        reported.remember("arn", "b", Health::Healthy);
        reported.remember("other", "c", Health::Unhealthy);
        reported.remember("arn", "d", Health::Unhealthy);
        reported.forget("arn", "d");
        let read = || {
            let names = ["a", "b", "c", "d"].into_iter();
            names.map(|name| (name.to_owned(), Health::Healthy)).collect::<BTreeMap<_, _>>()
        };
        let overlaid = |later: Duration| {
            let mut known = read();
            reported.overlay("arn", &mut known, SystemTime::now() + later);
            known.into_values().map(Health::as_str).collect::<Vec<_>>()
        };
        assert_eq!(overlaid(Duration::ZERO), ["UNHEALTHY", "HEALTHY", "HEALTHY", "HEALTHY"]);
        assert_eq!(overlaid(PROPAGATION_TIME), ["HEALTHY"; 4]);
        assert_eq!(overlaid(Duration::ZERO), ["HEALTHY"; 4], "it is forgotten");
    }
}
