//! The health of instances: what Cloud Map tells of it, and what is reported to a service's custom
//! check.
//!
//! A report takes about 30 s to show, and until then a read tells what was before. A warm process
//! remembers its reports for that long and takes them for what is coming, so that it neither repeats
//! itself nor overlooks a pod that changes back meanwhile. A cold one repeats them, which changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_sdk_servicediscovery::error::SdkError;
use aws_sdk_servicediscovery::operation::get_instances_health_status::GetInstancesHealthStatusOutput;
use aws_sdk_servicediscovery::types::CustomHealthStatus;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::{Call, CloudMap, Error, Permit, SIDE_BY_SIDE};
use crate::model::{Health, KnownHealth, Place, Registry, ServiceKey};

/// How long a report may take to show; twice what is usual.
const COMING: Duration = Duration::from_mins(1);

/// What this process has reported lately, by service ARN and instance.
#[derive(Debug, Default)]
pub(super) struct Reported(Mutex<BTreeMap<(String, String), (Health, SystemTime)>>);

impl Reported {
    /// Lays what is coming over what was read.
    fn lay_over(&self, arn: &str, known: &mut BTreeMap<String, Health>, now: SystemTime) {
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reported.retain(|_, (_, at)| now.duration_since(*at).is_ok_and(|age| age < COMING));
        let here = reported.iter().filter(|((service, _), _)| service == arn);
        known.extend(here.map(|((_, instance), (health, _))| (instance.clone(), *health)));
    }

    fn note(&self, arn: &str, instance: &str, health: Health) {
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reported.insert((arn.to_owned(), instance.to_owned()), (health, SystemTime::now()));
    }

    /// A registration starts the health anew.
    pub(super) fn forget(&self, arn: &str, instance: &str) {
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reported.remove(&(arn.to_owned(), instance.to_owned()));
    }
}

impl CloudMap {
    /// Reads the health of the instances of the services under `keys` into `registry`. What cannot be
    /// read is marked so, and stops nothing else.
    pub async fn read_health(&self, registry: &mut Registry, keys: &BTreeSet<ServiceKey>) {
        let services = keys.iter().filter_map(|key| Some((key, registry.services.get(key)?)));
        let reads: Vec<(ServiceKey, KnownHealth)> = stream::iter(services)
            .map(|(key, service)| async move {
                let known = match self.health(&service.arn, &service.name).await {
                    Ok(known) => KnownHealth::Read(known),
                    Err(error) => KnownHealth::Unreadable(error.in_full()),
                };
                (key.clone(), known)
            })
            .buffer_unordered(SIDE_BY_SIDE)
            .collect()
            .await;
        for (key, known) in reads {
            if let Some(service) = registry.services.get_mut(&key) {
                service.health = known;
            }
        }
    }

    /// The health of every instance of a service, as far as Cloud Map knows it: of one that was
    /// registered a moment ago it may say UNKNOWN, or nothing.
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
        self.reported.lay_over(arn, &mut known, SystemTime::now());
        Ok(known)
    }

    /// Reports the health of an instance to the custom check of its service.
    ///
    /// # Errors
    /// What Cloud Map refuses: it may not know an instance yet that was registered a moment ago.
    pub async fn report_health(
        &self,
        _permit: Permit<'_>,
        service: &str,
        place: &Place,
        instance: &str,
        health: Health,
    ) -> Result<(), Error> {
        let status = match health {
            Health::Healthy => CustomHealthStatus::Healthy,
            Health::Unhealthy => CustomHealthStatus::Unhealthy,
        };
        let request = self.client.update_instance_custom_health_status().service_id(service);
        let answer = request.instance_id(instance).status(status).send().await;
        answer.map_err(|error| {
            Error::new(format!("report {instance} in {place} as {health}"), &error)
        })?;
        self.reported.note(service, instance, health);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_stands_for_what_is_read_until_it_must_show() {
        let reported = Reported::default();
        reported.note("arn", "a", Health::Unhealthy);
        reported.note("arn", "b", Health::Unhealthy);
        reported.note("arn", "b", Health::Healthy);
        reported.note("other", "c", Health::Unhealthy);
        reported.note("arn", "d", Health::Unhealthy);
        reported.forget("arn", "d");
        let read = || {
            let names = ["a", "b", "c", "d"].into_iter();
            names.map(|name| (name.to_owned(), Health::Healthy)).collect::<BTreeMap<_, _>>()
        };
        let laid_over = |later: Duration| {
            let mut known = read();
            reported.lay_over("arn", &mut known, SystemTime::now() + later);
            known.into_values().map(Health::as_str).collect::<Vec<_>>()
        };
        assert_eq!(laid_over(Duration::ZERO), ["UNHEALTHY", "HEALTHY", "HEALTHY", "HEALTHY"]);
        assert_eq!(laid_over(COMING), ["HEALTHY"; 4]);
        assert_eq!(laid_over(Duration::ZERO), ["HEALTHY"; 4], "it is forgotten");
    }
}
