//! The budget of a run. For 80 % of its time, a run reads the instances of services that are due now. It reads services
//! that are due only by their age for a third of its time, or of the interval of the schedule if that is shorter, so
//! that runs do not pile up. A run that a person requests reads as much as there is time for. A list of services that
//! takes long at the rates of the account is not read in each run of the schedule.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::mirror::ListCalls;
use crate::cloud_map::{Call, QuotaShare, Rate};
use crate::model::{CloudMapService, ServiceKey};
use crate::time::Deadline;

/// The share of the time for reads of services that are due by their age.
const REFRESH_SHARE: f64 = 1.0 / 3.0;
/// The share of the time of a run for all reads of instances.
const READ_SHARE: f64 = 0.8;

/// A list of services is reused for this multiple of the minimum time that its calls take at the rates of the account.
const LIST_REUSE_FACTOR: u32 = 3;

/// The maximum number of instances on a page of `ListInstances`, and of services on a page of `ListServices`.
pub(super) const PAGE: usize = 100;

/// The limits of the reads of one run.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimit {
    /// The maximum number of calls that read instances of services that are due by their age.
    max_refreshes: usize,
    /// The maximum number of calls that read instances.
    max_reads: usize,
    /// The time at which filling the mirror stops.
    until: Instant,
    /// The rates of `ListServices` and `GetService`; `None` if no list of an earlier run is reused.
    lists: Option<ListRates>,
}

#[derive(Clone, Copy, Debug)]
struct ListRates {
    pages: Rate,
    services: Rate,
}

impl ReadLimit {
    /// The limits of a run that a person requests: it reads as much as there is time for.
    pub fn of_person(deadline: Deadline) -> Self {
        let until = Instant::now() + deadline.left().mul_f64(READ_SHARE);
        Self { max_refreshes: usize::MAX, max_reads: usize::MAX, until, lists: None }
    }

    /// The limits of a run of the schedule, by the period until the next run and the rates of the account.
    pub fn of_schedule(share: QuotaShare, deadline: Deadline, period: Duration) -> Self {
        let time = deadline.left().min(period).mul_f64(REFRESH_SHARE);
        let max_refreshes = share.calls_in(Call::ListInstances, time);
        let lists = ListRates {
            pages: share.apply_to(Call::ListServices.rate()),
            services: share.apply_to(Call::GetService.rate()),
        };
        Self {
            max_refreshes: max_refreshes.max(1),
            lists: Some(lists),
            ..Self::of_person(deadline)
        }
    }

    /// Returns the limits with this number of calls for services that are due by their age, 2.4 times as many calls for
    /// all instances, and two pages of a list of services a second.
    #[must_use]
    pub fn of_calls(self, calls: usize) -> Self {
        let pages = Rate { per_second: 2.0, burst: 2.0 };
        let lists = self.lists.map(|rates| ListRates { pages, ..rates });
        Self { max_refreshes: calls, max_reads: calls * 12 / 5, lists, ..self }
    }

    /// The time for which a list that took these calls is reused.
    fn list_max_age(&self, calls: ListCalls) -> Duration {
        self.lists.map_or(Duration::ZERO, |rates| {
            let pages = rates.pages.forced_time(calls.pages);
            pages.max(rates.services.forced_time(calls.services)) * LIST_REUSE_FACTOR
        })
    }
}

impl CloudMapService {
    /// The number of calls that read its instances.
    pub(super) fn pages(&self) -> usize {
        self.instance_total().div_ceil(PAGE).max(1)
    }
}

/// The budget of one run.
#[derive(Debug)]
pub(super) struct Budget {
    limit: ReadLimit,
    /// The services that are read because of their age. Chosen on first use: a message needs none.
    oldest: OnceLock<BTreeSet<ServiceKey>>,
    spent: AtomicUsize,
    /// Whether a service was deferred to a later run.
    has_deferred: AtomicBool,
}

impl Budget {
    pub fn new(limit: ReadLimit) -> Self {
        Self {
            limit,
            oldest: OnceLock::new(),
            spent: AtomicUsize::default(),
            has_deferred: AtomicBool::default(),
        }
    }

    /// Whether this number of services is small enough to be read because of their age in one run.
    pub fn covers(&self, services: usize) -> bool {
        services <= self.limit.max_refreshes
    }

    /// Whether a service is read because of its age. `oldest` returns the services that were read longest ago, as many
    /// as fit into a number of calls.
    pub fn is_oldest(
        &self,
        key: &ServiceKey,
        oldest: impl FnOnce(usize) -> BTreeSet<ServiceKey>,
    ) -> bool {
        let is_oldest = self.oldest.get_or_init(|| oldest(self.limit.max_refreshes)).contains(key);
        if !is_oldest {
            self.has_deferred.store(true, Ordering::Relaxed);
        }
        is_oldest
    }

    /// Spends calls on the instances of a service, one for each page. Returns whether these are read in this run.
    pub fn spend(&self, pages: usize) -> bool {
        let is_read = self.spent.load(Ordering::Relaxed) < self.limit.max_reads;
        if is_read {
            self.spent.fetch_add(pages, Ordering::Relaxed);
        } else {
            self.has_deferred.store(true, Ordering::Relaxed);
        }
        is_read
    }

    /// Waits until no more services are read in this run.
    pub async fn over(&self) {
        sleep_until(self.limit.until).await;
        self.has_deferred.store(true, Ordering::Relaxed);
    }

    /// The time for which a list that took these calls is reused. It is zero if a person requested the run.
    pub fn list_max_age(&self, calls: ListCalls) -> Duration {
        self.limit.list_max_age(calls)
    }

    /// Whether a service was deferred to a later run.
    pub fn has_deferred(&self) -> bool {
        self.has_deferred.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(share: f64, given: u64, period: u64) -> ReadLimit {
        let share = QuotaShare::new(share).expect("a share");
        let deadline = Deadline::after(Duration::from_mins(given));
        ReadLimit::of_schedule(share, deadline, Duration::from_mins(period))
    }

    #[tokio::test(start_paused = true)]
    async fn a_third_of_the_interval_is_for_services_due_by_age() {
        for (share, given, period, expected) in [
            // The last 15 % of the time of an invocation are reserved for work that was begun before.
            (0.5, 1, 1, 425),
            (0.5, 5, 1, 500),
            (0.5, 1, 5, 425),
            (0.5, 5, 5, 2125),
            // A share of more than 1 allows no more calls than the rates of the account.
            (1000.0, 1, 1, 850),
            (0.001, 1, 1, 1),
        ] {
            assert_eq!(
                limit(share, given, period).max_refreshes,
                expected,
                "{share} {given} {period}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reads_are_over_after_four_fifths_of_the_time() {
        let start = Instant::now();
        let deadline = Deadline::after(Duration::from_mins(5));
        let budget = Budget::new(ReadLimit::of_person(deadline));
        assert!((0..9000).all(|_| budget.spend(3)) && !budget.has_deferred());
        budget.over().await;
        assert!(budget.has_deferred() && start.elapsed() == Duration::from_secs(204));
    }

    fn key(name: &str) -> ServiceKey {
        ServiceKey { namespace: "ns-1".to_owned(), name: name.to_owned() }
    }

    #[tokio::test]
    async fn every_page_is_a_call_and_the_last_service_may_take_more() {
        let budget = Budget::new(ReadLimit { max_refreshes: 2, max_reads: 4, ..limit(1.0, 1, 1) });
        let oldest = |calls| {
            assert_eq!(calls, 2);
            [key("old")].into()
        };
        assert!(budget.is_oldest(&key("old"), oldest) && !budget.has_deferred());
        assert!(!budget.is_oldest(&key("web"), oldest) && budget.has_deferred());
        assert!(budget.spend(1) && budget.spend(2) && budget.spend(10) && !budget.spend(1));
    }

    #[tokio::test]
    async fn list_is_reused_for_three_times_what_the_rates_force_on_reading_it() {
        let calls = |pages, services| ListCalls { pages, services };
        for (share, list, seconds) in [
            (0.5, calls(5, 0), 0),
            (0.5, calls(105, 0), 300),
            (0.25, calls(105, 0), 615),
            // The `GetService` calls for the namespaces of its services take longest.
            (0.5, calls(105, 10_025), 1200),
            (1000.0, calls(100, 100), 0),
        ] {
            let max_age = Budget::new(limit(share, 1, 1)).list_max_age(list);
            assert_eq!(max_age.as_secs(), seconds, "{list:?}");
        }
    }

    #[tokio::test]
    async fn no_list_is_reused_for_a_person() {
        let budget = Budget::new(ReadLimit::of_person(Deadline::after(Duration::from_mins(5))));
        let list = ListCalls { pages: 9000, services: 9000 };
        assert!(budget.list_max_age(list).is_zero());
    }
}
