//! Full syncs of a Cloud Map that is too large for the time of a run, by formula: the calls of a run, and the runs until a
//! process has read each service again, has seen a whole list, or knows all. `tests/scenarios/lists_by_turns.rs` compares
//! them with the function.

use std::time::Duration;

use cloud_map_sync::cloud_map::{Call, QuotaShare};

/// Items on a page of a list of Cloud Map.
const PAGE: usize = 100;
/// The part of the time of a run for reads of what was read before, and for all reads.
const AGAIN: f64 = 1.0 / 3.0;
const FIRST: f64 = 0.8;

/// A Cloud Map with at most a hundred instances in each service, and the time and rates of its runs.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    pub services: usize,
    pub share: f64,
    /// The time from one run to the next.
    pub minutes: u64,
}

impl Turns {
    fn calls(self, call: Call, part: f64) -> usize {
        let share = QuotaShare::new(self.share).expect("a share");
        let time = Duration::from_mins(self.minutes).mul_f64(part);
        share.calls_in(call, time).max(1)
    }

    /// The reads of instances of a run in step.
    pub fn reads(self) -> usize {
        self.services.min(self.calls(Call::ListInstances, AGAIN))
    }

    /// The most pages of the list of a run in step.
    pub fn pages(self) -> usize {
        self.all_pages().min(self.calls(Call::ListServices, AGAIN))
    }

    /// The runs in which each service is read again.
    pub fn round(self) -> usize {
        self.services.div_ceil(self.reads())
    }

    /// The runs in which a list comes to its end.
    pub fn list(self) -> usize {
        self.all_pages().div_ceil(self.pages())
    }

    /// The runs in which a new process gets to know all.
    pub fn first(self) -> usize {
        let read = self.services.div_ceil(self.calls(Call::ListInstances, FIRST));
        let is_long = self.all_pages() > self.calls(Call::ListServices, AGAIN);
        let listed = self.all_pages().div_ceil(self.calls(Call::ListServices, FIRST));
        if is_long { read.max(listed) } else { read }
    }

    fn all_pages(self) -> usize {
        self.services.div_ceil(PAGE)
    }
}
