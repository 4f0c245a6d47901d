//! The lists of services: one of each namespace, or one of all. Cloud Map filters a list by namespace only after it has
//! made the pages, so that the list of one namespace has as many pages as that of all; but a service in the list of all
//! does not name its namespace, for which GetService is asked once. The list of all is believed for a namespace
//! only if it shows as many services as Cloud Map counts there; otherwise the namespace is listed by itself.
//!
//! A list of a large Cloud Map takes minutes at the rates of an account. It stands for three times as long as the rates
//! force on reading it, so lists take a third of the time at most; a short list is read in each invocation. While a list
//! stands, a service that it does not show does not exist as far as the process knows: if one does, its creation is
//! refused with its id. A service that is to be changed is read by its id. The records of members are listed in each
//! invocation, since the endpoints of a member that is missing would leave the imports.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, TryStreamExt, future, stream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

use super::budget::PAGE;
use super::mirror::{ListCalls, Moment, Services};
use super::{Failure, SharedRegistry};
use crate::cloud_map::{Call, Class, Error, ListedService, Reading, SIDE_BY_SIDE, Unread};
use crate::clusterset::record;
use crate::error::chain;
use crate::model::{CloudMapService, Namespace, NewService, ServiceKey, ServiceKind};

/// The list of all services did not become a list of each namespace.
enum ListProblem {
    /// The list could not be read to the end.
    List(Error),
    /// The namespace of a service could not be read.
    Service(Error),
}

/// The queues of services of which a full sync reads the instances, the first one first.
#[derive(Clone, Copy)]
enum Queue {
    /// Services that are due now, under names that clusters of the invocation claim or have instances under.
    Own,
    /// All others that are due now.
    Due,
    /// Services that are due by their age.
    Aged,
}

const QUEUES: usize = Queue::Aged as usize + 1;

type Waiting = [UnboundedReceiver<Unread>; QUEUES];

fn queues() -> ([UnboundedSender<Unread>; QUEUES], Waiting) {
    let queues = [Queue::Own, Queue::Due, Queue::Aged].map(|_| unbounded_channel());
    let senders = std::array::from_fn(|queue| queues[queue].0.clone());
    (senders, queues.map(|(_, receiver)| receiver))
}

/// The next service of the first queue that has one.
fn poll_next(waiting: &mut Waiting, context: &mut Context<'_>) -> Poll<Option<Unread>> {
    let mut is_open = false;
    for queue in waiting {
        match queue.poll_recv(context) {
            Poll::Ready(Some(unread)) => return Poll::Ready(Some(unread)),
            Poll::Ready(None) => {}
            Poll::Pending => is_open = true,
        }
    }
    if is_open { Poll::Pending } else { Poll::Ready(None) }
}

/// The time between two looks at the reads of records that have not ended.
const POLL: Duration = Duration::from_millis(100);

/// The reads of the clusters' own names that have not ended.
#[derive(Default)]
struct OwnNames(Mutex<OpenReads>);

#[derive(Default)]
struct OpenReads {
    own: BTreeSet<ServiceKey>,
    others: usize,
    /// Whether the namespaces of own names are listed, and whether all are.
    own_listed: bool,
    all_listed: bool,
}

impl OwnNames {
    /// With fewer other reads that are left, it is not worth the while to begin before them: they take two seconds.
    const FEW: usize = 50;

    fn enqueue(&self, queue: Queue, key: &ServiceKey) {
        let mut open = self.lock();
        match queue {
            Queue::Own => _ = open.own.insert(key.clone()),
            Queue::Due | Queue::Aged => open.others += 1,
        }
    }

    /// Whether a read of one of these services has not ended, or a list may show more of them.
    fn has_open(&self, is_asked: &impl Fn(&ServiceKey) -> bool) -> bool {
        let open = self.lock();
        !open.all_listed || open.own.iter().any(is_asked)
    }

    fn end_own_lists(&self, registry: &SharedRegistry) {
        self.lock().own_listed = true;
        self.note_end(registry);
    }

    fn end_lists(&self) {
        self.lock().all_listed = true;
    }

    fn end_read(&self, key: &ServiceKey, registry: &SharedRegistry) {
        {
            let mut open = self.lock();
            if !open.own.remove(key) {
                open.others = open.others.saturating_sub(1);
            }
        }
        self.note_end(registry);
    }

    fn note_end(&self, registry: &SharedRegistry) {
        let open = self.lock();
        if open.own_listed && open.own.is_empty() && open.others >= Self::FEW {
            registry.note_own_names_read();
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenReads> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
    /// The services of namespaces, with the instances of those that have any, as they were read in this invocation. The
    /// instances are read while the lists go on, since the lists take longer with more namespaces. The records of a
    /// member are read even if the list counts none: the count may be late, and without records all its exports end.
    pub(super) async fn read_namespaces(
        &self,
        namespaces: impl Iterator<Item = &Namespace>,
    ) -> Result<Services, Failure> {
        let namespaces: Vec<&Namespace> = namespaces.collect();
        let is_of_records = |key: &ServiceKey| {
            let mut records = namespaces.iter().filter(|it| record::is_namespace(&it.name));
            records.any(|namespace| namespace.id == key.namespace)
        };
        let (queues, mut waiting) = queues();
        let own = &OwnNames::default();
        let lists = async {
            // A namespace that is listed a second time shows its services again.
            let begun = Mutex::new(BTreeSet::new());
            let enqueue = |key: &ServiceKey, service: &CloudMapService| {
                let is_record = is_of_records(key);
                let is_read = self.memory.mirror().read_since(key, self.began).is_some();
                if is_read || service.held() == 0 && !is_record {
                    return;
                }
                let mut begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
                let queue = if is_record { Some(Queue::Own) } else { self.queue_of(key) };
                if let Some(queue) = queue.filter(|_| begun.insert(service.arn.clone())) {
                    own.enqueue(queue, key);
                    // The receiver exists until this sender is dropped.
                    _ = queues[queue as usize].send(Unread::new(key, service));
                }
            };
            let (first, others) = self.with_own_names(&namespaces);
            self.list(first.into_iter(), self.began, &enqueue).await?;
            own.end_own_lists(self);
            self.list(others.into_iter(), self.began, &enqueue).await?;
            own.end_lists();
            drop(queues);
            Ok::<_, Failure>(())
        };
        // Each read begins after the page of a list that showed its service.
        let starts = Mutex::new(BTreeMap::new());
        let starts = || starts.lock().unwrap_or_else(PoisonError::into_inner);
        // What a group reads meanwhile is read here only if that fails.
        let of_groups = Mutex::new(Vec::new());
        let of_groups = || of_groups.lock().unwrap_or_else(PoisonError::into_inner);
        let next = stream::poll_fn(|context| poll_next(&mut waiting, context));
        let next = next.filter(|unread| {
            let is_begun = self.memory.mirror().has_begun_since(&unread.key, self.began);
            if is_begun {
                of_groups().push(unread.clone());
            }
            ready(!is_begun)
        });
        let next = next.chain(stream::iter(std::iter::from_fn(|| of_groups().pop())));
        let within_budget = next.filter(|unread| {
            let (is_read, pages) = {
                let mirror = self.memory.mirror();
                (mirror.read_since(&unread.key, self.began).is_some(), mirror.pages(&unread.key))
            };
            let begins = !is_read && (is_of_records(&unread.key) || self.budget.spend(pages));
            if begins {
                starts().insert(unread.arn.clone(), self.take_moment());
            }
            ready(begins)
        });
        // The syncs of groups do not wait for these.
        let cloud_map = self.cloud_map.refreshing();
        let reads = cloud_map.instances_of(within_budget);
        let over = self.budget.over();
        let reads = reads.take_until(async {
            over.await;
            // Without its records the exports of a member would end.
            while own.has_open(&is_of_records) {
                sleep(POLL).await;
            }
        });
        let keep = async |(of, reading): (Unread, Reading)| {
            let start = starts().remove(&of.arn).unwrap_or_default();
            let kept = self.memory.mirror().keep_read(&of, reading, start);
            own.end_read(&of.key, self);
            (kept == Reading::Gone).then_some(of)
        };
        let gone = reads.filter_map(keep).collect::<Vec<Unread>>();
        let ((), gone) = tokio::try_join!(lists, gone.map(Ok))?;
        // The list that showed them may have ended later.
        let now = self.take_moment();
        for of in &gone {
            self.memory.mirror().keep_read(of, Reading::Gone, now);
        }
        Ok(self.services_of(&namespaces.iter().map(|it| it.id.clone()).collect()))
    }

    /// The namespaces with names of the clusters, which are listed before the others. If all are listed together, there is
    /// no order.
    fn with_own_names<'a>(
        &self,
        namespaces: &[&'a Namespace],
    ) -> (Vec<&'a Namespace>, Vec<&'a Namespace>) {
        if self.costs_less_together(namespaces.len()) {
            return (namespaces.to_vec(), Vec::new());
        }
        let own = self.own();
        let own: BTreeSet<&str> = own.iter().map(|key| key.namespace.as_str()).collect();
        namespaces.iter().partition(|namespace| own.contains(namespace.id.as_str()))
    }

    /// The queue of a service with a list that this run has read or that stands; `None` if a later run reads its instances.
    fn queue_of(&self, key: &ServiceKey) -> Option<Queue> {
        let is_due = self.memory.mirror().is_due(key);
        if is_due && self.own().contains(key) {
            Some(Queue::Own)
        } else if is_due {
            Some(Queue::Due)
        } else {
            self.is_oldest(key).then_some(Queue::Aged)
        }
    }

    /// The services of namespaces, listed at or after a moment, without instances.
    pub(super) async fn list_services(
        &self,
        namespaces: impl Iterator<Item = &Namespace> + Clone,
        since: Moment,
    ) -> Result<Services, Failure> {
        self.list(namespaces.clone(), since, |_, _| ()).await?;
        let mirror = self.memory.mirror();
        Ok(namespaces.flat_map(|it| mirror.listed_services(&it.id)).collect())
    }

    /// Lists the services of those namespaces of which no list is new enough, and sends each service as soon as it is known.
    pub(super) async fn list(
        &self,
        namespaces: impl Iterator<Item = &Namespace>,
        since: Moment,
        send: impl Fn(&ServiceKey, &CloudMapService),
    ) -> Result<(), Failure> {
        let _alone = self.listing.lock().await;
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
            unlisted.iter().copied().partition(|namespace| !self.is_of_other(namespace));
        if self.costs_less_together(own.len()) {
            each.extend(self.list_together(own, &calls, &send).await?);
        } else {
            each.extend(own);
        }
        let lists = each.into_iter().map(|namespace| self.list_one(namespace, &calls, &send));
        future::try_join_all(lists).await?;
        let mut mirror = self.memory.mirror();
        for namespace in unlisted {
            mirror.note_list_calls(&namespace.id, calls.count());
        }
        Ok(())
    }

    /// Whether the services of a namespace were listed at or after a moment, or a list of them stands.
    pub(super) fn is_listed(&self, namespace: &Namespace, since: Moment) -> bool {
        let Some(list) = self.memory.mirror().last_list(&namespace.id) else { return false };
        let stands = self.budget.list_stands(list.calls);
        let age = self.began.at.duration_since(list.start.at).unsigned_abs();
        list.start >= since || !record::is_namespace(&namespace.name) && age < stands
    }

    /// Whether these namespaces of the account are listed together.
    fn costs_less_together(&self, namespaces: usize) -> bool {
        let lists = self.memory.mirror();
        let (services, unseen) = lists.all_and_unseen(self.account.get().map(String::as_str));
        !lists.is_denied(self.began.at) && costs_less_together(namespaces, services, unseen)
    }

    /// Reads a list of a namespace, or of all, to its end. Returns its start.
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
                // A remembered namespace that is gone.
                Class::NotFound => self.take_moment(),
                _ => return Err(Arc::new(error)),
            },
        };
        self.memory.mirror().end_list(&namespace.id, start);
        Ok(())
    }

    /// Lists all services once. Returns the namespaces for which the list is not believed.
    async fn list_together<'a>(
        &self,
        namespaces: Vec<&'a Namespace>,
        calls: &CallCounter,
        send: impl Fn(&ServiceKey, &CloudMapService),
    ) -> Result<Vec<&'a Namespace>, Failure> {
        let known = &self.memory.mirror().namespaces_of_services();
        let wanted = namespaces.iter().map(|namespace| (namespace.id.as_str(), *namespace));
        let (wanted, account) = (&wanted.collect::<BTreeMap<_, _>>(), self.account.get());
        let on_page = async |listed: Vec<ListedService>, start: Moment| {
            let own = listed.into_iter().filter(|listed| {
                account.is_none() || listed.owner.is_none() || account == listed.owner.as_ref()
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
                // Without an id it was deleted since.
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
                self.note_problem(&error);
                return Ok(namespaces);
            }
        };
        let mut mirror = self.memory.mirror();
        mirror.end_list_of_all(start);
        let mut others = namespaces;
        others.retain(|namespace| {
            let is_believed = mirror.has_all(&namespace.id, start);
            if is_believed {
                mirror.end_list(&namespace.id, start);
            }
            !is_believed
        });
        Ok(others)
    }

    /// Logs why the namespaces are listed one by one; if that is denied, not again for a while.
    pub(super) fn note_problem(&self, error: &Error) {
        if error.class == Class::Denied {
            self.memory.mirror().note_denial(self.began.at);
        }
        let error = chain(error);
        tracing::info!(
            "the services of each namespace are listed by themselves, which takes longer: {error}"
        );
    }

    /// Remembers a service that was created, with the instances that it will have. The next invocation knows it before a
    /// list shows it.
    pub fn note_created(&self, service: &NewService, arn: &str) {
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
        mirror.note_created(key, created, began);
    }
}

/// Whether one list of all services, with GetService for the `unseen` ones of which the namespace is unknown, takes less
/// time at the account's rates than a list of each of these namespaces, or as long by fewer calls. `services` are those of
/// all namespaces, with those of which no list is wanted.
fn costs_less_together(namespaces: usize, services: usize, unseen: usize) -> bool {
    let pages = services.div_ceil(PAGE).max(1);
    cost(pages, unseen) < cost(namespaces * pages, 0)
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
        // Namespaces, services, unseen services, whether one list costs less, and the seconds of each way.
        let cases = [
            (0_usize, 0_usize, 0_usize, false, (0.0, 0.0)),
            (1, 2000, 0, false, (5.0, 5.0)),
            // In step: one list is shorter, or fewer calls.
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
