//! The lists of services: one of each namespace, or one of all. Cloud Map filters a list by namespace only after it has
//! made the pages, so that the list of one namespace has as many pages as that of all; but a service in the list of all
//! does not name its namespace, for which GetService is asked once. The list of all is believed for a namespace
//! only if it shows as many services as Cloud Map counts there; otherwise the namespace is listed by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::try_join_all;
use futures_util::stream::poll_fn;
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use tokio::sync::mpsc;
use tokio::try_join;

use super::{Failure, SharedRegistry};
use crate::cloud_map::instances::{Reading, Unread};
use crate::cloud_map::{Call, Class, Error, SIDE_BY_SIDE, Urgency};
use crate::clusterset::record;
use crate::error::chain;
use crate::model::{CloudMapService, Namespace, ServiceKey};
use crate::publish::observe::mirror::{Moment, Services};

/// The list of all services did not become a list of each namespace.
enum Problem {
    /// The list could not be read to the end.
    List(Error),
    /// The namespace of a service could not be read.
    Service(Error),
}

impl SharedRegistry {
    /// The services of namespaces, with the instances of those that have any, as they were read in this invocation. The
    /// instances are read while the lists go on, since the lists take longer with more namespaces. The records of a
    /// member are read even if the list counts none: the count may be late, and without records all its exports end.
    pub(in crate::publish::observe) async fn read_namespaces(
        &self,
        namespaces: impl Iterator<Item = &Namespace>,
    ) -> Result<Services, Failure> {
        let namespaces: Vec<&Namespace> = namespaces.collect();
        let of_records = namespaces.iter().filter(|it| record::is_namespace(&it.name));
        let of_records: BTreeSet<&str> = of_records.map(|it| it.id.as_str()).collect();
        let (tell, mut told) = mpsc::unbounded_channel();
        let lists = async move {
            // A namespace that is listed a second time shows its services again.
            let begun = Mutex::new(BTreeSet::new());
            let filled = |key: &ServiceKey, service: &CloudMapService| {
                let is_read = self.memory.mirror().is_read_since(key, self.began);
                let mut begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
                let is_record = of_records.contains(key.namespace.as_str());
                let is_filled = service.held() > 0 || is_record;
                if is_filled && !is_read && begun.insert(service.arn.clone()) {
                    let due = self.memory.mirror().due(key, service);
                    if !is_record && !self.budget.spend(due, service) {
                        return;
                    }
                    self.memory.mirror().see(key, service);
                    // The receiver exists until this sender is dropped.
                    _ = tell.send(Unread::new(key, service));
                }
            };
            self.list(namespaces.iter().copied(), self.began, filled).await
        };
        let began = self.memory.mirror().take_moment();
        // What a sync does first, and its turns, do not wait for these.
        let cloud_map = self.cloud_map.with(Urgency::Rest);
        let reads = cloud_map.instances_of(poll_fn(move |context| told.poll_recv(context)));
        let keep = async |(of, reading): (Unread, Reading)| {
            let kept = self.memory.mirror().keep_read(&of, reading, (began, self.now));
            (kept == Reading::Gone).then_some(of)
        };
        let gone = reads.filter_map(keep).collect::<Vec<Unread>>();
        let (services, gone) = try_join!(lists, gone.map(Ok))?;
        // The list that showed them may have ended later.
        for of in &gone {
            self.memory.mirror().keep_read(of, Reading::Gone, (began, self.now));
        }
        Ok(self.services_of(&services.into_keys().map(|key| key.namespace).collect()))
    }

    /// The services of namespaces, listed at or after a moment, without instances.
    pub(in crate::publish::observe) async fn list_services(
        &self,
        namespaces: impl Iterator<Item = &Namespace>,
        since: Moment,
    ) -> Result<Services, Failure> {
        self.list(namespaces, since, |_, _| ()).await
    }

    /// Lists the services of those namespaces that were not listed at or after a moment, and sends each service as soon
    /// as it is known.
    async fn list(
        &self,
        namespaces: impl Iterator<Item = &Namespace>,
        since: Moment,
        tell: impl Fn(&ServiceKey, &CloudMapService),
    ) -> Result<Services, Failure> {
        let _alone = self.listing.lock().await;
        let mut services = Services::default();
        let is_known = |it: &Namespace| self.memory.mirror().is_listed_since(&it.id, since);
        let (known, unknown): (Vec<_>, Vec<_>) = namespaces.partition(|it| is_known(it));
        for namespace in known {
            let listed = self.memory.mirror().listed_services(&namespace.id);
            for (key, service) in &listed {
                tell(key, service);
            }
            services.extend(listed);
        }
        let (own, mut each): (Vec<_>, Vec<_>) =
            unknown.into_iter().partition(|it| !self.is_of_other(it));
        match self.way(own.len()) {
            Way::Each => each.extend(own),
            Way::Together => {
                let (listed, unlisted) = self.list_together(own, &tell).await?;
                services.extend(listed);
                each.extend(unlisted);
            }
        }
        let lists = each.into_iter().map(|namespace| self.list_one(namespace, &tell));
        services.extend(try_join_all(lists).await?.into_iter().flatten());
        Ok(services)
    }

    fn way(&self, namespaces: usize) -> Way {
        let lists = self.memory.mirror();
        let account = self.account.get().map(String::as_str);
        if lists.is_denied(self.now) {
            return Way::Each;
        }
        let (services, unseen) = lists.all_and_unseen(account);
        Way::choose(Counts { namespaces, services, unseen })
    }

    async fn list_one(
        &self,
        namespace: &Namespace,
        tell: impl Fn(&ServiceKey, &CloudMapService),
    ) -> Result<Services, Failure> {
        let began = self.memory.mirror().take_moment();
        let services = match self.cloud_map.services(namespace, tell).await {
            Ok(services) => services.into_iter().collect(),
            // A remembered namespace that is gone.
            Err(error) if error.class == Class::NotFound => Services::default(),
            Err(error) => return Err(Arc::new(error)),
        };
        self.keep_list(namespace, &services, began);
        Ok(services)
    }

    fn keep_list(&self, namespace: &Namespace, services: &Services, began: Moment) {
        self.memory.mirror().keep_services(&namespace.id, services, (began, self.now));
    }

    /// Lists all services once. Returns those of namespaces for which the list is believed, and the other namespaces.
    async fn list_together<'a>(
        &self,
        namespaces: Vec<&'a Namespace>,
        tell: impl Fn(&ServiceKey, &CloudMapService),
    ) -> Result<(Services, Vec<&'a Namespace>), Failure> {
        let began = self.memory.mirror().take_moment();
        let wanted = namespaces.iter().map(|namespace| (namespace.id.as_str(), *namespace));
        let mut listed = match self.services_by_namespace(&wanted.collect(), tell).await {
            Ok(listed) => listed,
            Err(Problem::List(error)) => return Err(Arc::new(error)),
            Err(Problem::Service(error)) => {
                self.note_problem(&error);
                return Ok((Services::default(), namespaces));
            }
        };
        let (mut believed, mut others) = (Services::default(), Vec::new());
        for namespace in namespaces {
            let services = listed.remove(&namespace.id).unwrap_or_default();
            let expected = self.memory.mirror().expected(&namespace.id);
            if expected.is_some_and(|expected| services.len() >= expected) {
                self.keep_list(namespace, &services, began);
                believed.extend(services);
            } else {
                others.push(namespace);
            }
        }
        Ok((believed, others))
    }

    /// The services of the wanted namespaces, by the namespace's id, from the list of all services.
    async fn services_by_namespace(
        &self,
        wanted: &BTreeMap<&str, &Namespace>,
        tell: impl Fn(&ServiceKey, &CloudMapService),
    ) -> Result<BTreeMap<String, Services>, Problem> {
        let known = self.memory.mirror().namespaces_of_services();
        let account = self.account.get();
        let known = &known;
        let listed = self.cloud_map.all_services().map_err(Problem::List);
        let own = listed.try_filter(|listed| {
            ready(account.is_none() || listed.owner.is_none() || account == listed.owner.as_ref())
        });
        let located = own.map_ok(|listed| async move {
            let id = match known.get(&listed.service.arn) {
                Some(id) => Some(id.clone()),
                None => {
                    self.cloud_map.namespace_of(&listed.service).await.map_err(Problem::Service)?
                }
            };
            Ok((id, listed.service))
        });
        let mut located = pin!(located.try_buffer_unordered(SIDE_BY_SIDE));
        let (mut all, mut services) = (BTreeMap::new(), BTreeMap::<String, Services>::new());
        while let Some((id, service)) = located.try_next().await? {
            // Without an id it was deleted since.
            let Some(id) = id else { continue };
            if let Some(namespace) = wanted.get(id.as_str()) {
                let key = ServiceKey::new(namespace, &service.name);
                tell(&key, &service);
                all.insert(service.arn.clone(), id.clone());
                services.entry(id).or_default().insert(key, service);
            } else {
                all.insert(service.arn, id);
            }
        }
        self.memory.mirror().keep_elsewhere(all);
        Ok(services)
    }

    /// Logs why the namespaces are listed one by one; if that is denied, not again for a while.
    fn note_problem(&self, error: &Error) {
        if error.class == Class::Denied {
            self.memory.mirror().note_denial(self.now);
        }
        let error = chain(error);
        tracing::info!(
            "the services of each namespace are listed by themselves, which takes longer: {error}"
        );
    }

    /// Remembers the namespace of a service that was created.
    pub fn note_service(&self, namespace: &Namespace, arn: &str) {
        // A namespace that was created in this run has its name as its id.
        let id = namespace.arn.as_ref().and_then(|reference| reference.rsplit('/').next());
        if let Some(id) = id {
            self.memory.mirror().note_service(arn.to_owned(), id.to_owned());
        }
    }
}

/// The most services of a page.
const PAGE: usize = 100;

/// A way to list the services of several namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A list of each namespace.
    Each,
    /// One list, with GetService for those services of which the namespace is unknown.
    Together,
}

/// The numbers on which the choice rests.
#[derive(Clone, Copy, Debug)]
struct Counts {
    /// The namespaces to list.
    namespaces: usize,
    /// The services of all namespaces, with those of which no list is wanted.
    services: usize,
    /// The services of which the namespace is unknown.
    unseen: usize,
}

impl Way {
    /// The way on which the account's rates force the shorter time, or else that of fewer calls.
    fn choose(counts: Counts) -> Self {
        let pages = counts.services.div_ceil(PAGE).max(1);
        let each = cost(counts.namespaces * pages, 0);
        if cost(pages, counts.unseen) < each { Self::Together } else { Self::Each }
    }
}

/// The time that the rates force, and the number of calls.
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
        // Namespaces, services, unseen services, the way and the seconds of both.
        let cases = [
            (0_usize, 0_usize, 0_usize, Way::Each, (0.0, 0.0)),
            (1, 2000, 0, Way::Each, (5.0, 5.0)),
            // In step: one list is shorter, or fewer calls.
            (2, 0, 0, Way::Together, (0.0, 0.0)),
            (2, 150, 0, Way::Together, (0.0, 0.0)),
            (10, 1000, 0, Way::Together, (45.0, 0.0)),
            (50, 2000, 0, Way::Together, (495.0, 5.0)),
            // A new process knows no service.
            (2, 40, 40, Way::Each, (0.0, 0.0)),
            (3, 300, 300, Way::Each, (0.0, 5.0)),
            (10, 1000, 1000, Way::Together, (45.0, 19.0)),
            (50, 2000, 2000, Way::Together, (495.0, 39.0)),
            // The settings name two of many namespaces.
            (2, 2000, 1960, Way::Each, (15.0, 38.2)),
            // Two services are new.
            (4, 10, 2, Way::Together, (0.0, 0.0)),
            (3, 10, 2, Way::Each, (0.0, 0.0)),
        ];
        for (namespaces, services, unseen, way, seconds) in cases {
            let pages = usize::div_ceil(services, PAGE).max(1);
            let times = (cost(namespaces * pages, 0).0, cost(pages, unseen).0);
            let case = format!("{namespaces} namespaces, {services} services, {unseen} unseen");
            assert_eq!((times.0.as_secs_f64(), times.1.as_secs_f64()), seconds, "{case}");
            assert_eq!(Way::choose(Counts { namespaces, services, unseen }), way, "{case}");
        }
    }
}
