//! The budget of a run that cannot read all of Cloud Map in its time: as many pages of the list of services as that allows,
//! from the one at which the last run stopped, and as many reads of instances, of those services that were never read, of
//! those that seem to have changed, and of those that were read longest ago. Changes rest on none of the others
//! (`plan::part`). A run leaves none out if it has the time, or is to read everything.

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::cloud_map::{Call, QuotaShare};
use crate::model::{CloudMapService, ServiceKey};

/// The part of the time of a run that reads of what was read before may take, and that of all reads.
const READ_AGAIN: f64 = 1.0 / 3.0;
const READ: f64 = 0.8;

/// The instances in an answer of `ListInstances`, and the services in one of `ListServices`.
pub(super) const PAGE: usize = 100;

/// A number of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallCounts {
    /// For what was read before.
    again: usize,
    /// The same with those for what was never read, or seems to have changed.
    first: usize,
}

/// The limits of the reads of one run.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimit {
    instances: CallCounts,
    /// Pages of the lists of services, of so many services each; `None` if these are read to the end.
    lists: Option<CallCounts>,
    page: usize,
    /// Calls for the namespaces of services that a list shows for the first time.
    namespaces: usize,
    /// Reads that changes rest on begin before this time.
    until: Instant,
}

impl ReadLimit {
    /// The limits of a run that is given a time, and has a period until the next one, by the rates of an account.
    pub fn new(share: QuotaShare, (given, period): (Duration, Duration)) -> Self {
        let time = given.min(period);
        let calls = |call| {
            let calls = |part| share.calls_in(call, time.mul_f64(part));
            CallCounts { again: calls(READ_AGAIN).max(1), first: calls(READ).max(1) }
        };
        let until = Instant::now() + given.mul_f64(READ);
        let (instances, lists) = (calls(Call::ListInstances), Some(calls(Call::ListServices)));
        Self { instances, lists, page: PAGE, namespaces: calls(Call::GetService).first, until }
    }

    /// The same for a run that needs the whole list of services.
    #[must_use]
    pub fn with_whole_lists(self) -> Self {
        Self { lists: None, ..self }
    }

    /// The same with this number of reads of instances, and one page of two services, or two for a first list.
    #[must_use]
    pub fn of_calls(self, calls: usize) -> Self {
        let lists = self.lists.map(|_| CallCounts { again: 1, first: 2 });
        let instances = CallCounts { again: calls, first: calls * 12 / 5 };
        Self { instances, lists, page: 2, ..self }
    }
}

impl CloudMapService {
    /// The calls that read its instances.
    pub(super) fn pages(&self) -> usize {
        self.held().div_ceil(PAGE).max(1)
    }
}

/// The budget of one run.
#[derive(Debug)]
pub(super) struct Budget {
    /// `None` if the run reads everything.
    limit: Option<ReadLimit>,
    /// The services whose turn it is, once one is asked for: a message asks for none. Others that were read before wait for a
    /// later run.
    oldest: OnceLock<BTreeSet<ServiceKey>>,
    spent: Mutex<Spent>,
}

#[derive(Debug, Default)]
struct Spent {
    calls: usize,
    pages: usize,
    namespaces: usize,
    /// Whether a service was left to a later run.
    has_left: bool,
}

impl Budget {
    pub fn new(limit: Option<ReadLimit>) -> Self {
        Self { limit, oldest: OnceLock::new(), spent: Mutex::default() }
    }

    /// Whether the instances of a service are read in this run. The last one may take more calls than are left, since no
    /// later run would have more for it. Those that seem to be unchanged since they were read wait for their turn: `oldest`
    /// has the services that were read longest ago, for a number of calls.
    pub fn spend(
        &self,
        seems_unchanged: bool,
        (key, service): (&ServiceKey, &CloudMapService),
        oldest: impl FnOnce(usize) -> BTreeSet<ServiceKey>,
    ) -> bool {
        let Some(limit) = self.limit else { return true };
        let oldest = || self.oldest.get_or_init(|| oldest(limit.instances.again));
        let is_due = !seems_unchanged || oldest().contains(key);
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let is_read = is_due && spent.calls < limit.instances.first;
        if is_read {
            spent.calls += service.pages();
        } else {
            spent.has_left = true;
        }
        is_read
    }

    /// Whether a list of so many services, so many times, is too long for the time of a run that knows it.
    pub fn is_exceeded_by(&self, (lists, services): (usize, usize)) -> bool {
        let limit = self.limit.and_then(|limit| Some((limit.lists?, limit.page)));
        limit.is_some_and(|(calls, page)| lists * services.div_ceil(page) > calls.again)
    }

    /// Whether one more page of such a list is read in this run.
    pub fn spend_page(&self, is_first: bool) -> bool {
        let Some((limit, calls)) = self.limit.and_then(|limit| Some((limit, limit.lists?))) else {
            return true;
        };
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let pages = if is_first { calls.first } else { calls.again };
        let is_read = spent.pages < pages && spent.namespaces < limit.namespaces;
        if is_read {
            spent.pages += 1;
        } else {
            spent.has_left = true;
        }
        is_read
    }

    /// Counts a call for the namespace of a service.
    pub fn spend_namespace(&self) {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).namespaces += 1;
    }

    /// Whether a service was left to a later run.
    pub fn has_left(&self) -> bool {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).has_left
    }

    /// Whether reads that changes rest on may begin.
    pub fn has_time(&self) -> bool {
        self.limit.is_none_or(|limit| Instant::now() < limit.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ServiceKind;

    fn service(instances: u32) -> CloudMapService {
        let service = CloudMapService::created("arn".to_owned(), "web", ServiceKind::Http);
        CloudMapService { instance_count: instances, instances: None, ..service }
    }

    /// Two and four reads of instances, one and two pages.
    fn few(share: f64) -> ReadLimit {
        let share = QuotaShare::new(share).expect("a share");
        let limit = ReadLimit::new(share, (Duration::from_mins(1), Duration::MAX));
        ReadLimit { instances: CallCounts { again: 2, first: 4 }, ..limit.of_calls(2) }
    }

    #[tokio::test]
    async fn a_third_of_the_time_is_for_what_was_read_before() {
        let limit = |share, minutes| {
            let (share, minutes) = (QuotaShare::new(share), Duration::from_mins(minutes));
            let times = [(minutes, Duration::MAX), (Duration::from_hours(1), minutes)];
            let limits = times.map(|times| ReadLimit::new(share.expect("a share"), times));
            let [limit, other] = limits.map(|it| [it.instances, it.lists.expect("a limit")]);
            assert_eq!(limit, other, "the shorter time counts");
            limit.map(|calls| (calls.again, calls.first))
        };
        assert_eq!(limit(0.5, 1), [(500, 1200), (20, 48)]);
        assert_eq!(limit(0.5, 5), [(2500, 6000), (100, 240)]);
        // Beyond the rates of the account no run gains anything.
        assert_eq!(limit(1000.0, 1), [(1000, 2400), (40, 96)]);
        assert_eq!(limit(0.001, 1), [(1, 2), (1, 1)]);
    }

    fn spend(budget: &Budget, seems_unchanged: bool, name: &str, instances: u32) -> bool {
        let key = |name: &str| ServiceKey { namespace: "ns-1".to_owned(), name: name.to_owned() };
        budget.spend(seems_unchanged, (&key(name), &service(instances)), |calls| {
            assert_eq!(calls, 2);
            [key("old")].into()
        })
    }

    #[tokio::test]
    async fn every_page_is_a_call_and_what_is_new_may_take_more() {
        let budget = Budget::new(Some(few(1.0)));
        assert!(!spend(&budget, true, "web", 1) && budget.has_left());
        assert!(spend(&budget, true, "old", 100));
        assert!(spend(&budget, false, "web", 101));
        assert!(spend(&budget, false, "new", 1000));
        assert!(!spend(&budget, false, "web", 1));
    }

    #[tokio::test]
    async fn list_that_is_too_long_is_left_after_its_pages_and_the_calls_for_namespaces() {
        let budget = |limit| Budget::new(Some(limit));
        let of_few = budget(few(1.0));
        assert!(!of_few.is_exceeded_by((1, 2)) && of_few.is_exceeded_by((1, 3)));
        assert!(of_few.is_exceeded_by((2, 2)) && !of_few.is_exceeded_by((50, 0)));
        assert!(of_few.spend_page(false) && !of_few.spend_page(false) && of_few.has_left());
        assert!(of_few.spend_page(true) && !of_few.spend_page(true));

        // 0.04 of a call of GetService in a second are two in 48.
        let of_namespaces = budget(few(0.001));
        assert!(of_namespaces.spend_page(true));
        (0..2).for_each(|_| of_namespaces.spend_namespace());
        assert!(!of_namespaces.spend_page(true) && of_namespaces.has_left());

        let whole = budget(few(1.0).with_whole_lists());
        assert!(!whole.is_exceeded_by((50, 9000)) && (0..90).all(|_| whole.spend_page(false)));
    }

    #[test]
    fn run_without_limit_leaves_nothing() {
        let budget = Budget::new(None);
        assert!((0..9000).all(|_| spend(&budget, false, "web", 300)));
        assert!(!budget.is_exceeded_by((50, 9000)) && budget.spend_page(false));
        assert!(!budget.has_left() && budget.has_time());
    }
}
