//! Full syncs of a Cloud Map that is too large to be read in each of them, by formula. `tests/scenarios/standing_lists.rs`
//! compares them with the function.

use std::time::Duration;

use cloud_map_sync::cloud_map::{Call, QuotaShare};

/// Items on a page of a list of Cloud Map.
const PAGE: usize = 100;
/// The part of the time of a run for reads of instances.
const AGAIN: f64 = 1.0 / 3.0;
/// A list stands for so many times the time that the rates force on reading it.
const STANDS: u32 = 3;

/// A Cloud Map with at most a hundred instances in each service, and the time and rates of its runs.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    pub services: usize,
    pub share: f64,
    /// The time from one run to the next.
    pub minutes: u64,
}

impl Turns {
    fn share(self) -> QuotaShare {
        QuotaShare::new(self.share).expect("a share")
    }

    /// The time that the rates force on a number of calls.
    fn forced(self, call: Call, calls: usize) -> Duration {
        self.share().apply_to(call.rate()).forced_time(calls)
    }

    /// The reads of instances of a run in step.
    pub fn reads(self) -> usize {
        let time = Duration::from_mins(self.minutes).mul_f64(AGAIN);
        self.services.min(self.share().calls_in(Call::ListInstances, time).max(1))
    }

    /// The runs in which each service is read again.
    pub fn round(self) -> usize {
        self.services.div_ceil(self.reads())
    }

    /// The pages of a list of services.
    pub fn pages(self) -> usize {
        self.services.div_ceil(PAGE)
    }

    /// The runs from one list of services to the next.
    pub fn list(self) -> u64 {
        let stands = self.forced(Call::ListServices, self.pages()) * STANDS;
        stands.as_secs().div_ceil(60 * self.minutes).max(1)
    }

    /// The time in which a new process gets to know all.
    pub fn first(self) -> Duration {
        let calls = [(Call::ListServices, self.pages()), (Call::GetService, self.services)];
        let lists = calls.map(|(call, count)| self.forced(call, count));
        lists[0].max(lists[1]).max(self.forced(Call::ListInstances, self.services))
    }
}
