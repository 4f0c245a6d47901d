//! The budget of a run: it reads the instances of services that are due now for most of its time, and those that are due by
//! their age alone for a third of its time or of the interval of the schedule, so that runs do not pile up. Changes rest
//! on no older reads (`plan::part`). A run that is to read everything has no budget. A list of services that takes long
//! at the rates of the account is not read in each run.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::mirror::ListCalls;
use crate::cloud_map::{Call, QuotaShare, Rate};
use crate::model::{CloudMapService, ServiceKey};

/// The part of the time that reads of services that are due by their age may take, and the part of a run's time for all.
const REFRESH: f64 = 1.0 / 3.0;
const READ: f64 = 0.8;

/// A list of services stands for so many times the time that the rates force on reading it.
const LIST_STANDS: u32 = 3;

/// The instances in an answer of `ListInstances`, and the services in one of `ListServices`.
pub(super) const PAGE: usize = 100;

/// The limits of the reads of one run.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimit {
    /// The calls that read instances of services that are due by their age.
    refresh: usize,
    /// The calls that read instances.
    all: usize,
    /// The rates of `ListServices` and `GetService`.
    pages: Rate,
    services: Rate,
}

impl ReadLimit {
    /// The limits of a run that is given a time, and has a period until the next one, by the rates of an account.
    pub fn new(share: QuotaShare, (given, period): (Duration, Duration)) -> Self {
        let calls = |time| share.calls_in(Call::ListInstances, time).max(1);
        Self {
            refresh: calls(given.min(period).mul_f64(REFRESH)),
            all: calls(given.mul_f64(READ)),
            pages: share.apply_to(Call::ListServices.rate()),
            services: share.apply_to(Call::GetService.rate()),
        }
    }

    /// The same with this number of reads of instances, and two pages of a list of services a second.
    #[must_use]
    pub fn of_calls(self, calls: usize) -> Self {
        Self {
            refresh: calls,
            all: calls * 12 / 5,
            pages: Rate { per_second: 2.0, burst: 2.0 },
            ..self
        }
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
    /// The services that are read for their age, once one is asked for: a message asks for none.
    oldest: OnceLock<BTreeSet<ServiceKey>>,
    spent: AtomicUsize,
    /// Whether a service was left to a later run.
    has_left: AtomicBool,
}

impl Budget {
    pub fn new(limit: Option<ReadLimit>) -> Self {
        Self {
            limit,
            oldest: OnceLock::new(),
            spent: AtomicUsize::default(),
            has_left: AtomicBool::default(),
        }
    }

    /// Whether a service is read for its age: `oldest` has the services that were read longest ago, for a number of calls.
    pub fn is_oldest(
        &self,
        key: &ServiceKey,
        oldest: impl FnOnce(usize) -> BTreeSet<ServiceKey>,
    ) -> bool {
        let Some(limit) = self.limit else { return true };
        let is_oldest = self.oldest.get_or_init(|| oldest(limit.refresh)).contains(key);
        if !is_oldest {
            self.has_left.store(true, Ordering::Relaxed);
        }
        is_oldest
    }

    /// Whether the instances of a service, of so many pages, are read in this run. The last one may take more calls than are
    /// left, since no later run would have more for it.
    pub fn spend(&self, pages: usize) -> bool {
        let Some(limit) = self.limit else { return true };
        let is_read = self.spent.load(Ordering::Relaxed) < limit.all;
        if is_read {
            self.spent.fetch_add(pages, Ordering::Relaxed);
        } else {
            self.has_left.store(true, Ordering::Relaxed);
        }
        is_read
    }

    /// The time for which a list stands that took these calls. If everything is read, no list of an earlier run stands.
    pub fn list_stands(&self, calls: ListCalls) -> Duration {
        self.limit.map_or(Duration::ZERO, |limit| limit.list_stands(calls))
    }

    /// Whether a service was left to a later run.
    pub fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(share: f64, given: u64, period: u64) -> ReadLimit {
        let times = (Duration::from_mins(given), Duration::from_mins(period));
        ReadLimit::new(QuotaShare::new(share).expect("a share"), times)
    }

    #[tokio::test]
    async fn a_third_of_the_interval_is_for_what_is_due_by_age_and_the_run_for_the_rest() {
        for (share, given, period, expected) in [
            (0.5, 1, 1, (500, 1200)),
            (0.5, 5, 1, (500, 6000)),
            (0.5, 1, 5, (500, 1200)),
            (0.5, 5, 5, (2500, 6000)),
            // Beyond the rates of the account no run gains anything.
            (1000.0, 1, 1, (1000, 2400)),
            (0.001, 1, 1, (1, 2)),
        ] {
            let limit = limit(share, given, period);
            assert_eq!((limit.refresh, limit.all), expected, "{share} {given} {period}");
        }
    }

    fn key(name: &str) -> ServiceKey {
        ServiceKey { namespace: "ns-1".to_owned(), name: name.to_owned() }
    }

    #[tokio::test]
    async fn every_page_is_a_call_and_the_last_service_may_take_more() {
        let budget = Budget::new(Some(ReadLimit { refresh: 2, all: 4, ..limit(1.0, 1, 1) }));
        let oldest = |calls| {
            assert_eq!(calls, 2);
            [key("old")].into()
        };
        assert!(budget.is_oldest(&key("old"), oldest) && !budget.has_left());
        assert!(!budget.is_oldest(&key("web"), oldest) && budget.has_left());
        assert!(budget.spend(1) && budget.spend(2) && budget.spend(10) && !budget.spend(1));
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
            let stands = Budget::new(Some(limit(share, 1, 1))).list_stands(list);
            assert_eq!(stands.as_secs(), seconds, "{list:?}");
        }
    }

    #[test]
    fn run_without_limit_leaves_nothing() {
        let budget = Budget::new(None);
        assert!((0..9000).all(|_| budget.spend(3)));
        assert!(budget.is_oldest(&key("web"), |_| BTreeSet::new()));
        let list = ListCalls { pages: 9000, services: 9000 };
        assert!(budget.list_stands(list).is_zero() && !budget.has_left());
    }
}
