//! Fills and refreshes the mirror: reads the instances of services while the lists of services are still read. Services
//! that are due now are read before services that are due by their age, and names of the clusters before other names. A
//! group that begins meanwhile reads its names by itself, and these are not read here again.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

use super::mirror::Services;
use super::{Failure, SharedRegistry};
use crate::cloud_map::{InstancesRead, ServiceToRead};
use crate::model::{CloudMapService, Namespace, ServiceKey};

/// The queues of services whose instances a full sync reads, the first queue first.
#[derive(Clone, Copy)]
enum Queue {
    /// Services that are due now, under names that clusters of the invocation claim or have instances under.
    Own,
    /// All other services that are due now.
    Due,
    /// Services that are due by their age.
    Aged,
}

const QUEUES: usize = Queue::Aged as usize + 1;

type Waiting = [UnboundedReceiver<ServiceToRead>; QUEUES];

fn queues() -> ([UnboundedSender<ServiceToRead>; QUEUES], Waiting) {
    let queues = [Queue::Own, Queue::Due, Queue::Aged].map(|_| unbounded_channel());
    let senders = std::array::from_fn(|queue| queues[queue].0.clone());
    (senders, queues.map(|(_, receiver)| receiver))
}

/// The next service of the first queue that has one.
fn poll_next(waiting: &mut Waiting, context: &mut Context<'_>) -> Poll<Option<ServiceToRead>> {
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

/// The interval at which open reads of records are checked.
const POLL: Duration = Duration::from_millis(100);

/// The reads of the clusters' own names that have not ended, and the number of other reads.
#[derive(Default)]
struct OwnNames(Mutex<OpenReads>);

#[derive(Default)]
struct OpenReads {
    own: BTreeSet<ServiceKey>,
    others: usize,
    /// Whether the namespaces with own names are listed.
    own_listed: bool,
    /// Whether all namespaces are listed.
    all_listed: bool,
}

impl OwnNames {
    /// With fewer other reads left, early additions are not worthwhile: 50 reads take two seconds.
    const MIN_OTHER_READS: usize = 50;

    fn enqueue(&self, queue: Queue, key: &ServiceKey) {
        let mut open = self.lock();
        match queue {
            Queue::Own => _ = open.own.insert(key.clone()),
            Queue::Due | Queue::Aged => open.others += 1,
        }
    }

    /// Whether a read of one of these own names has not ended, or a list may show more of them.
    fn has_open(&self, is_included: &impl Fn(&ServiceKey) -> bool) -> bool {
        let open = self.lock();
        !open.all_listed || open.own.iter().any(is_included)
    }

    fn end_own_lists(&self, registry: &SharedRegistry) {
        self.lock().own_listed = true;
        self.record_end(registry);
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
        self.record_end(registry);
    }

    fn record_end(&self, registry: &SharedRegistry) {
        let open = self.lock();
        if open.own_listed && open.own.is_empty() && open.others >= Self::MIN_OTHER_READS {
            registry.record_own_names_read();
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenReads> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedRegistry {
    /// Reads the services of namespaces, with the instances of those that have any. The instances are read while the
    /// lists go on, since the lists take longer with more namespaces. The records of a member are read even if the list
    /// counts none: the count may lag, and without records all exports of the member end.
    pub(super) async fn read_namespaces(
        &self,
        namespaces: impl Iterator<Item = &Namespace>,
    ) -> Result<Services, Failure> {
        let namespaces: Vec<&Namespace> = namespaces.collect();
        let is_of_records = |key: &ServiceKey| self.memory.mirror().is_of_records(&key.namespace);
        let (queues, mut waiting) = queues();
        let own = &OwnNames::default();
        let lists = async {
            // A namespace that is listed a second time shows its services again.
            let begun = Mutex::new(BTreeSet::new());
            let enqueue = |key: &ServiceKey, service: &CloudMapService| {
                let is_record = is_of_records(key);
                let is_read = self.memory.mirror().read_since(key, self.began).is_some();
                if is_read || service.instance_total() == 0 && !is_record {
                    return;
                }
                let mut begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
                let queue = if is_record { Some(Queue::Own) } else { self.queue_of(key) };
                if let Some(queue) = queue.filter(|_| begun.insert(service.arn.clone())) {
                    own.enqueue(queue, key);
                    // The receiver exists until this sender is dropped.
                    _ = queues[queue as usize].send(ServiceToRead::new(key, service));
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
        // The start of each read, which is after the page of a list that showed its service.
        let starts = Mutex::new(BTreeMap::new());
        let starts = || starts.lock().unwrap_or_else(PoisonError::into_inner);
        // A service that a group has begun to read is read here last, and only if the read of the group has failed.
        let begun_by_groups = Mutex::new(Vec::new());
        let begun_by_groups = || begun_by_groups.lock().unwrap_or_else(PoisonError::into_inner);
        let next = stream::poll_fn(|context| poll_next(&mut waiting, context));
        let next = next.filter(|unread| {
            let is_begun = self.memory.mirror().has_begun_since(&unread.key, self.began);
            if is_begun {
                begun_by_groups().push(unread.clone());
            }
            ready(!is_begun)
        });
        let next = next.chain(stream::iter(std::iter::from_fn(|| begun_by_groups().pop())));
        let within_budget = next.filter(|unread| {
            let (is_read, pages) = {
                let mirror = self.memory.mirror();
                (mirror.read_since(&unread.key, self.began).is_some(), mirror.pages(&unread.key))
            };
            let begins = !is_read && (is_of_records(&unread.key) || self.budget.spend(pages));
            if begins {
                starts().insert(unread.arn.clone(), self.take_moment());
            } else {
                own.end_read(&unread.key, self);
            }
            ready(begins)
        });
        // The calls of group syncs go before these reads.
        let cloud_map = self.cloud_map.refreshing();
        let reads = cloud_map.instances_of(within_budget);
        let over = self.budget.over();
        let reads = reads.take_until(async {
            over.await;
            // The reads of records continue: without its records the exports of a member would end.
            while own.has_open(&is_of_records) {
                sleep(POLL).await;
            }
        });
        let keep = async |(of, reading): (ServiceToRead, InstancesRead)| {
            let start = starts().remove(&of.arn).unwrap_or_default();
            let kept = self.memory.mirror().keep_read(&of, reading, start);
            own.end_read(&of.key, self);
            (kept == InstancesRead::Gone).then_some(of)
        };
        let gone = reads.filter_map(keep).collect::<Vec<ServiceToRead>>();
        let ((), gone) = tokio::try_join!(lists, gone.map(Ok))?;
        // A list that ended later may have shown these services again.
        let now = self.take_moment();
        for of in &gone {
            self.memory.mirror().keep_read(of, InstancesRead::Gone, now);
        }
        Ok(self.services_of(&namespaces.iter().map(|namespace| namespace.id.clone()).collect()))
    }

    /// Returns the namespaces with names of the clusters, which are listed first, and the others. If all are listed
    /// together, all are first.
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

    /// Whether this invocation reads the instances of a service. If so, the calls are taken from the budget.
    pub(super) fn may_read(&self, key: &ServiceKey) -> bool {
        let is_queued = self.queue_of(key).is_some();
        let pages = self.memory.mirror().pages(key);
        is_queued && self.budget.spend(pages)
    }

    /// The queue of a service in a list that this run has read or reuses; `None` if a later run reads its instances.
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
}
