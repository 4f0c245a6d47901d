//! The times of the real world, and how much shorter the stage has them. Everything that is configured or modelled is
//! divided by one factor. What is not: the function's own five seconds, and the whole seconds of a record's TTL.

use std::time::Duration;

/// How much shorter every time is on the stage.
#[derive(Clone, Copy)]
pub struct Times {
    pub factor: u32,
    /// The longest time until a server of the DNS answers with a change, in seconds of the real world.
    pub propagation: u32,
}

/// Seconds of the real world.
impl Times {
    /// From the start of one scheduled run to the next: the function's default.
    pub const SCHEDULE: u32 = 60;
    /// From a change in a cluster to the invocation that has its message: forwarder, queue and poller.
    pub const FORWARDER: u32 = 1;
    /// Until a message that failed is delivered again: the first wait that the function sets.
    pub const REDELIVERY: u32 = 60;
    /// From the acceptance of an operation of Cloud Map to its end.
    pub const OPERATION: u32 = 2;
    /// From the end of an operation until DiscoverInstances shows it.
    pub const DISCOVERY: u32 = 5;
    /// From a pod's start to its readiness.
    pub const START: u32 = 5;
    /// `GUARD_WAIT`
    pub const GUARD_WAIT: u32 = 600;

    /// How long seconds of the real world take on the stage.
    pub fn seconds(self, seconds: u32) -> Duration {
        Duration::from_secs(u64::from(seconds)) / self.factor
    }

    /// A TTL on the stage, in whole seconds and at least one.
    pub fn ttl(self, seconds: u32) -> u32 {
        (seconds / self.factor).max(1)
    }

    /// How long a time of the stage is in the real world, in seconds.
    pub fn in_reality(self, time: Duration) -> f64 {
        (time * self.factor).as_secs_f64()
    }
}
