//! The number of calls to Cloud Map. `cloud_map` counts them for the life of the process; the report of an invocation
//! contains a difference.

use std::iter::Sum;

/// Attempts of calls, including retries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub calls: usize,
    pub throttles: usize,
}

impl Traffic {
    /// The difference to an earlier count.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let (calls, throttles) = (self.calls - earlier.calls, self.throttles - earlier.throttles);
        Self { calls, throttles }
    }
}

impl Sum for Traffic {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |sum, part| Self {
            calls: sum.calls + part.calls,
            throttles: sum.throttles + part.throttles,
        })
    }
}
