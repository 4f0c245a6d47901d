//! The lists of services: one list of each namespace, or one list of all services. Cloud Map filters a list by
//! namespace only after it has made the pages, so the list of one namespace has as many pages as the list of all. But a
//! service in the list of all does not name its namespace, which takes one call of GetService. The list of all is used
//! for a namespace only if it shows as many services as Cloud Map counts there; otherwise the namespace is listed by
//! itself.
//!
//! A list of a large Cloud Map takes minutes at the rates of an account. It is reused for three times the minimum time
//! that its calls take, so lists take at most a third of the time; a short list is read in each invocation. While a
//! list is reused, the process treats a service that the list lacks as missing: if the service exists, Cloud Map
//! refuses its creation with its id. A service that is to be changed is read by its id. The records of members are
//! listed in each invocation, since the endpoints of a missing member would leave the imports.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, future, stream};

use super::budget::PAGE;
use super::mirror::{ListCalls, Moment, Services};
use super::{Failure, SharedRegistry};
use crate::cloud_map::{Call, Class, Error, ListedService, SIDE_BY_SIDE};
use crate::clusterset::record;
use crate::error::chain;
use crate::model::{CloudMapService, Namespace, NewService, ServiceKey, ServiceKind};

/// The error of a list of services.
enum ListProblem {
    /// The list could not be read to the end.
    List(Error),
    /// The namespace of a service could not be read.
    Service(Error),
}

/// Counts the calls that read lists.
#[derive(Default)]
struct CallCounter {
    pages: AtomicUsize,
    services: AtomicUsize,
}

impl CallCounter {
    fn count(&self) -> ListCalls {
        ListCalls {
            pages: self.pages.load(Ordering::Relaxed),
            services: self.services.load(Ordering::Relaxed),
        }
    }
}

impl SharedRegistry {
    /// Returns the services of namespaces, without instances. The lists began at or after a moment, or are reused.
    pub(super) async fn list_services(
        &self,
        namespaces: impl Iterator<Item = &Namespace> + Clone,
        since: Moment,
    ) -> Result<Services, Failure> {
        self.list(namespaces.clone(), since, |_, _| ()).await?;
        let mirror = self.memory.mirror();
        Ok(namespaces.flat_map(|namespace| mirror.listed_services(&namespace.id)).collect())
    }

    /// Lists the services of each namespace whose last list is too old. Passes the services of all namespaces to
    /// `send`, each as soon as it is known.
    pub(super) async fn list(
        &self,
        namespaces: impl Iterator<Item = &Namespace>,
        since: Moment,
        send: impl Fn(&ServiceKey, &CloudMapService),
    ) -> Result<(), Failure> {
        let _listing = self.listing.lock().await;
        let mut unlisted = Vec::new();
        for namespace in namespaces {
            if !self.is_listed(namespace, since) {
                unlisted.push(namespace);
                continue;
            }
            let listed = self.memory.mirror().listed_services(&namespace.id);
            for (key, service) in &listed {
                send(key, service);
            }
        }
        let calls = CallCounter::default();
        let (own, mut each): (Vec<_>, Vec<_>) =
            unlisted.iter().copied().partition(|namespace| !self.is_shared(namespace));
        if self.costs_less_together(own.len()) {
            each.extend(self.list_together(own, &calls, &send).await?);
        } else {
            each.extend(own);
        }
        let lists = each.into_iter().map(|namespace| self.list_one(namespace, &calls, &send));
        future::try_join_all(lists).await?;
        let mut mirror = self.memory.mirror();
        for namespace in unlisted {
            mirror.record_list_calls(&namespace.id, calls.count());
        }
        Ok(())
    }

    /// Whether the services of a namespace were listed at or after a moment, or an older list is reused.
    pub(super) fn is_listed(&self, namespace: &Namespace, since: Moment) -> bool {
        let Some(list) = self.memory.mirror().last_list(&namespace.id) else { return false };
        let max_age = self.budget.list_max_age(list.calls);
        let age = self.began.at.duration_since(list.start.at).unsigned_abs();
        list.start >= since || !record::is_namespace(&namespace.name) && age < max_age
    }

    /// Whether one list of all services is cheaper than a list of each of this number of namespaces.
    pub(super) fn costs_less_together(&self, namespaces: usize) -> bool {
        let mirror = self.memory.mirror();
        let (services, unseen) = mirror.all_and_unseen(self.account.get().map(String::as_str));
        !mirror.is_denied(self.began.at) && costs_less_together(namespaces, services, unseen)
    }

    /// Reads the list of a namespace, or of all services, to its end. Returns its start.
    async fn read_list(
        &self,
        of: Option<&Namespace>,
        calls: &CallCounter,
        on_page: &impl AsyncFn(Vec<ListedService>, Moment) -> Result<(), ListProblem>,
    ) -> Result<Moment, ListProblem> {
        let start = self.take_moment();
        let mut pages = pin!(self.cloud_map.services(of).map_err(ListProblem::List)?);
        while let Some(page) = pages.try_next().await.map_err(ListProblem::List)? {
            calls.pages.fetch_add(1, Ordering::Relaxed);
            on_page(page, start).await?;
        }
        Ok(start)
    }

    async fn list_one(
        &self,
        namespace: &Namespace,
        calls: &CallCounter,
        send: impl Fn(&ServiceKey, &CloudMapService),
    ) -> Result<(), Failure> {
        let on_page = async |listed: Vec<ListedService>, start: Moment| {
            for ListedService { service, .. } in listed {
                let key = ServiceKey::new(namespace, &service.name);
                self.memory.mirror().keep_entry(&key, &service, start);
                send(&key, &service);
            }
            Ok(())
        };
        let start = match self.read_list(Some(namespace), calls, &on_page).await {
            Ok(start) => start,
            Err(ListProblem::List(error) | ListProblem::Service(error)) => match error.class {
                // The namespace is remembered, but gone.
                Class::NotFound => self.take_moment(),
                _ => return Err(Arc::new(error)),
            },
        };
        self.memory.mirror().end_list(&namespace.id, start);
        Ok(())
    }

    /// Lists all services once. Returns the namespaces for which the list may be incomplete.
    async fn list_together<'a>(
        &self,
        namespaces: Vec<&'a Namespace>,
        calls: &CallCounter,
        send: impl Fn(&ServiceKey, &CloudMapService),
    ) -> Result<Vec<&'a Namespace>, Failure> {
        let known = &self.memory.mirror().namespaces_of_services();
        let wanted = namespaces.iter().map(|namespace| (namespace.id.as_str(), *namespace));
        let wanted = &wanted.collect::<BTreeMap<_, _>>();
        let account = self.account.get();
        let on_page = async |listed: Vec<ListedService>, start: Moment| {
            let own = listed.into_iter().filter(|listed| {
                account.is_none()
                    || listed.namespace_account.is_none()
                    || account == listed.namespace_account.as_ref()
            });
            let located = own.map(async |listed| {
                let mut id = known.get(&listed.service.arn).cloned();
                if id.is_none() {
                    calls.services.fetch_add(1, Ordering::Relaxed);
                    id = self.cloud_map.namespace_of(&listed.service).await?;
                }
                Ok((id, listed.service))
            });
            let mut located = pin!(stream::iter(located).buffer_unordered(SIDE_BY_SIDE));
            while let Some((id, service)) =
                located.try_next().await.map_err(ListProblem::Service)?
            {
                // A service without the id of a namespace was deleted since.
                let Some(id) = id else { continue };
                if let Some(namespace) = wanted.get(id.as_str()) {
                    let key = ServiceKey::new(namespace, &service.name);
                    self.memory.mirror().keep_entry(&key, &service, start);
                    send(&key, &service);
                } else {
                    self.memory.mirror().keep_elsewhere(service.arn, id, start);
                }
            }
            Ok(())
        };
        let start = match self.read_list(None, calls, &on_page).await {
            Ok(start) => start,
            Err(ListProblem::List(error)) => return Err(Arc::new(error)),
            Err(ListProblem::Service(error)) => {
                self.record_problem(&error);
                return Ok(namespaces);
            }
        };
        let mut mirror = self.memory.mirror();
        mirror.end_list_of_all(start);
        let mut others = namespaces;
        others.retain(|namespace| {
            let is_complete = mirror.has_all(&namespace.id, start);
            if is_complete {
                mirror.end_list(&namespace.id, start);
            }
            !is_complete
        });
        Ok(others)
    }

    /// Logs why the namespaces are listed one by one. If GetService was denied, it is not called again for an hour.
    pub(super) fn record_problem(&self, error: &Error) {
        if error.class == Class::Denied {
            self.memory.mirror().record_denial(self.began.at);
        }
        let error = chain(error);
        tracing::info!(
            "the services of each namespace are listed by themselves, which takes longer: {error}"
        );
    }

    /// Remembers a created service, and counts the first instance that it will have. The next invocation knows the
    /// service before a list shows it.
    pub fn record_created(&self, service: &NewService, arn: &str) {
        let NewService { namespace, name, kind, ttl, routing_policy } = service;
        // A namespace that was created in this run has its name as its id.
        let id = namespace.arn.as_ref().and_then(|reference| reference.rsplit('/').next());
        let Some(id) = id else { return };
        let namespace = Namespace { id: id.to_owned(), ..namespace.clone() };
        let created = CloudMapService::created(arn.to_owned(), name.as_str(), *kind);
        let has_records = matches!(kind, ServiceKind::Dns(_));
        let created = CloudMapService {
            ttls: has_records.then_some(*ttl).into_iter().collect(),
            routing_policy: has_records.then_some(*routing_policy),
            instance_count: 1,
            ..created
        };
        let key = ServiceKey::new(&namespace, name.as_str());
        let mut mirror = self.memory.mirror();
        let began = mirror.take_moment(self.began.at);
        mirror.record_created(key, created, began);
    }
}

/// Whether one list of all services takes less time at the account's rates than a list of each namespace, or the same
/// time with fewer calls. The list of all needs GetService for the `unseen` services, whose namespace is unknown.
/// `services` is the number in all namespaces, including those that need no list.
fn costs_less_together(namespaces: usize, services: usize, unseen: usize) -> bool {
    let pages = services.div_ceil(PAGE).max(1);
    cost(pages, unseen) < cost(namespaces * pages, 0)
}

/// The minimum time that these calls take at the account's rates, and their number.
fn cost(lists: usize, services: usize) -> (Duration, usize) {
    let times = [(Call::ListServices, lists), (Call::GetService, services)]
        .map(|(call, count)| call.rate().forced_time(count));
    (times[0].max(times[1]), lists + services)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorter_time_at_the_account_s_rates_decides_and_then_the_number_of_calls() {
        // Namespaces, services, unseen services, whether one list costs less, and the seconds of each way.
        let cases = [
            (0_usize, 0_usize, 0_usize, false, (0.0, 0.0)),
            (1, 2000, 0, false, (5.0, 5.0)),
            // All services are known: one list takes less time, or fewer calls.
            (2, 0, 0, true, (0.0, 0.0)),
            (2, 150, 0, true, (0.0, 0.0)),
            (10, 1000, 0, true, (45.0, 0.0)),
            (50, 2000, 0, true, (495.0, 5.0)),
            // A new process knows no service.
            (2, 40, 40, false, (0.0, 0.0)),
            (3, 300, 300, false, (0.0, 5.0)),
            (10, 1000, 1000, true, (45.0, 19.0)),
            (50, 2000, 2000, true, (495.0, 39.0)),
            // The settings name two of many namespaces.
            (2, 2000, 1960, false, (15.0, 38.2)),
            // Two services are new.
            (4, 10, 2, true, (0.0, 0.0)),
            (3, 10, 2, false, (0.0, 0.0)),
        ];
        for (namespaces, services, unseen, together, seconds) in cases {
            let pages = usize::div_ceil(services, PAGE).max(1);
            let times = (cost(namespaces * pages, 0).0, cost(pages, unseen).0);
            let case = format!("{namespaces} namespaces, {services} services, {unseen} unseen");
            assert_eq!((times.0.as_secs_f64(), times.1.as_secs_f64()), seconds, "{case}");
            assert_eq!(costs_less_together(namespaces, services, unseen), together, "{case}");
        }
    }
}
