//! The budget of a run that cannot read all of Cloud Map in its time: so many reads of instances, of those services that
//! were never read, of those that seem to have changed, and of those that were read longest ago. Changes rest on none of
//! the others (`plan::part`). A run leaves none out if it has the time, or is to read everything. A list of services that
//! takes long at the rates of the account is not read in each run either.

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::mirror::ListCalls;
use crate::cloud_map::{Call, QuotaShare, Rate};
use crate::model::{CloudMapService, ServiceKey};

/// The part of the time of a run that reads of what was read before may take, and that of all reads.
const READ_AGAIN: f64 = 1.0 / 3.0;
const READ: f64 = 0.8;

/// A list of services stands for so many times the time that the rates force on reading it.
const LIST_STANDS: u32 = 3;

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
    /// The rates of `ListServices` and `GetService`.
    pages: Rate,
    services: Rate,
    /// Reads that changes rest on begin before this time.
    until: Instant,
}

impl ReadLimit {
    /// The limits of a run that is given a time, and has a period until the next one, by the rates of an account.
    pub fn new(share: QuotaShare, (given, period): (Duration, Duration)) -> Self {
        let time = given.min(period);
        let calls = |part| share.calls_in(Call::ListInstances, time.mul_f64(part)).max(1);
        Self {
            instances: CallCounts { again: calls(READ_AGAIN), first: calls(READ) },
            pages: share.apply_to(Call::ListServices.rate()),
            services: share.apply_to(Call::GetService.rate()),
            until: Instant::now() + given.mul_f64(READ),
        }
    }

    /// The same with this number of reads of instances, and two pages of a list of services a second.
    #[must_use]
    pub fn of_calls(self, calls: usize) -> Self {
        let instances = CallCounts { again: calls, first: calls * 12 / 5 };
        Self { instances, pages: Rate { per_second: 2.0, burst: 2.0 }, ..self }
    }

    /// The time for which a list stands that took these calls.
    fn list_stands(&self, calls: ListCalls) -> Duration {
        let pages = self.pages.forced_time(calls.pages);
        pages.max(self.services.forced_time(calls.services)) * LIST_STANDS
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

    /// The time for which a list stands that took these calls. If everything is read, no list of an earlier run stands.
    pub fn list_stands(&self, calls: ListCalls) -> Duration {
        self.limit.map_or(Duration::ZERO, |limit| limit.list_stands(calls))
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

    /// Two and four reads of instances.
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
            let [limit, other] = limits.map(|limit| limit.instances);
            assert_eq!(limit, other, "the shorter time counts");
            (limit.again, limit.first)
        };
        assert_eq!(limit(0.5, 1), (500, 1200));
        assert_eq!(limit(0.5, 5), (2500, 6000));
        // Beyond the rates of the account no run gains anything.
        assert_eq!(limit(1000.0, 1), (1000, 2400));
        assert_eq!(limit(0.001, 1), (1, 2));
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
    async fn list_stands_for_three_times_what_the_rates_force_on_reading_it() {
        let calls = |pages, services| ListCalls { pages, services };
        for (share, list, seconds) in [
            (0.5, calls(5, 0), 0),
            (0.5, calls(105, 0), 300),
            (0.25, calls(105, 0), 615),
            // By the calls for the namespaces of its services.
            (0.5, calls(105, 10_025), 1200),
            (1000.0, calls(100, 100), 0),
        ] {
            let share = QuotaShare::new(share).expect("a share");
            let limit = ReadLimit::new(share, (Duration::from_mins(1), Duration::MAX));
            let stands = Budget::new(Some(limit)).list_stands(list);
            assert_eq!(stands.as_secs(), seconds, "{list:?}");
        }
    }

    #[test]
    fn run_without_limit_leaves_nothing() {
        let budget = Budget::new(None);
        assert!((0..9000).all(|_| spend(&budget, false, "web", 300)));
        let list = ListCalls { pages: 9000, services: 9000 };
        assert!(budget.list_stands(list).is_zero() && !budget.has_left() && budget.has_time());
    }
}
