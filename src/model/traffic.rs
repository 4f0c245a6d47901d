//! How much was asked of Cloud Map.

use std::iter::Sum;

/// Tries of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// All of them.
    pub calls: usize,
    /// Those that Cloud Map throttled.
    pub throttles: usize,
}

impl Traffic {
    /// What has come since `earlier`.
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
