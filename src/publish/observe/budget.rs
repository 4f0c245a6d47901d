//! The budget of a run that cannot read all of Cloud Map in its time: as many reads of instances as that allows, of those
//! services that were never read, of those that seem to have changed, and of those that were read longest ago. Changes
//! rest on none of the others (`plan::rests`). A run leaves none out if it has the time, or is to read everything.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::mirror::{Due, Moment};
use crate::cloud_map::{Call, QuotaShare};
use crate::model::CloudMapService;

/// The part of the time of a run that reads of what was read before may take, and that of all reads.
const READ_AGAIN: f64 = 1.0 / 3.0;
const READ: f64 = 0.8;

/// The instances in an answer of `ListInstances`.
const PAGE: usize = 100;

/// The limits of the reads of one run.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimit {
    /// The number of calls.
    calls: usize,
    /// The same with those for services that were never read, or seem to have changed.
    first_calls: usize,
    /// Reads that changes rest on begin before this time.
    until: Instant,
}

impl ReadLimit {
    /// The limits of a run that is given a time, and has a period until the next one, by the rate of an account that
    /// `sharing` runs share.
    pub fn new(share: QuotaShare, (given, period): (Duration, Duration), sharing: usize) -> Self {
        let time = given.min(period);
        let calls = |part| share.calls_in(Call::ListInstances, time.mul_f64(part)) / sharing.max(1);
        let until = Instant::now() + given.mul_f64(READ);
        Self { calls: calls(READ_AGAIN).max(1), first_calls: calls(READ).max(1), until }
    }

    /// The same with this number of calls.
    #[must_use]
    pub fn of_calls(self, calls: usize) -> Self {
        Self { calls, first_calls: calls * 12 / 5, ..self }
    }
}

/// The budget of one run.
#[derive(Debug)]
pub(super) struct Budget {
    /// `None` if the run reads everything.
    limit: Option<ReadLimit>,
    /// What was read after this moment waits for a later run.
    last: Moment,
    spent: Mutex<Spent>,
}

#[derive(Debug, Default)]
struct Spent {
    calls: usize,
    /// Whether a service was left to a later run.
    has_left: bool,
}

impl Budget {
    /// `oldest` is the moment before which a number of reads began that are the oldest.
    pub fn new(limit: Option<ReadLimit>, oldest: impl FnOnce(usize) -> Moment) -> Self {
        let last = limit.map_or(Moment::default(), |limit| oldest(limit.calls));
        Self { limit, last, spent: Mutex::default() }
    }

    /// Whether the instances of a service are read in this run.
    pub fn spend(&self, due: Due, service: &CloudMapService) -> bool {
        let Some(limit) = self.limit else { return true };
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = spent.calls + service.held().div_ceil(PAGE).max(1);
        let is_read = match due {
            Due::Never | Due::Changed => calls <= limit.first_calls,
            Due::Since(began) => began <= self.last && calls <= limit.calls,
        };
        if is_read {
            spent.calls = calls;
        } else {
            spent.has_left = true;
        }
        is_read
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

    #[tokio::test]
    async fn a_third_of_the_time_is_for_what_was_read_before() {
        let limit = |share, minutes, sharing| {
            let (share, minutes) = (QuotaShare::new(share), Duration::from_mins(minutes));
            let times = [(minutes, Duration::MAX), (Duration::from_hours(1), minutes)];
            let limits = times.map(|times| ReadLimit::new(share.expect("a share"), times, sharing));
            let [limit, other] = limits.map(|limit| (limit.calls, limit.first_calls));
            assert_eq!(limit, other, "the shorter time counts");
            limit
        };
        assert_eq!(limit(0.5, 1, 1), (500, 1200));
        assert_eq!(limit(0.5, 5, 1), (2500, 6000));
        assert_eq!(limit(0.5, 1, 10), (50, 120));
        // Beyond the rates of the account no run gains anything.
        assert_eq!(limit(1000.0, 1, 1), (1000, 2400));
        assert_eq!(limit(0.001, 1, 10), (1, 1));
    }

    #[test]
    fn every_page_is_a_call_and_what_is_new_may_take_more() {
        let limit = ReadLimit { calls: 2, first_calls: 4, until: Instant::now() };
        let budget = Budget::new(Some(limit), |_| Moment::default());
        let old = Due::Since(Moment::default());
        assert!(budget.spend(old, &service(100)));
        assert!(!budget.spend(old, &service(101)) && budget.has_left());
        assert!(budget.spend(Due::Changed, &service(1)));
        assert!(!budget.spend(old, &service(1)));
        assert!(budget.spend(Due::Never, &service(200)) && !budget.spend(Due::Never, &service(1)));
    }

    #[test]
    fn run_without_limit_leaves_nothing() {
        let budget = Budget::new(None, |_| Moment::default());
        assert!((0..9000).all(|_| budget.spend(Due::Never, &service(300))));
        assert!(!budget.has_left() && budget.has_time());
    }
}
