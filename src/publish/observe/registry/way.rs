//! The choice between two ways to list the services of several namespaces. Cloud Map filters a list by namespace only
//! after it has made the pages, so that the list of one namespace has as many pages as that of all; but a service in the
//! list of all does not name its namespace, for which GetService is asked once.

use std::time::Duration;

use crate::cloud_map::Call;

/// The most services of a page.
const PAGE: usize = 100;

/// A way to list the services of several namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A list of each namespace.
    Each,
    /// One list, with GetService for those services of which the namespace is unknown.
    Together,
}

/// The numbers on which the choice rests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    /// The namespaces to list.
    pub namespaces: usize,
    /// The services of all namespaces, with those of which no list is wanted.
    pub services: usize,
    /// The services of which the namespace is unknown.
    pub unseen: usize,
}

impl Way {
    /// The way on which the account's rates force the shorter time, or else that of fewer calls.
    pub fn choose(counts: Counts) -> Self {
        let pages = counts.services.div_ceil(PAGE).max(1);
        let each = cost(counts.namespaces * pages, 0);
        if cost(pages, counts.unseen) < each { Self::Together } else { Self::Each }
    }
}

/// The time that the rates force, and the number of calls.
fn cost(lists: usize, services: usize) -> (Duration, usize) {
    let times = [(Call::ListServices, lists), (Call::GetService, services)]
        .map(|(call, count)| call.rate().forced_time(count));
    (times[0].max(times[1]), lists + services)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorter_time_at_the_account_s_rates_decides_and_then_the_number_of_calls() {
        // Namespaces, services, unseen services, the way and the seconds of both.
        let cases = [
            (0_usize, 0_usize, 0_usize, Way::Each, (0.0, 0.0)),
            (1, 2000, 0, Way::Each, (5.0, 5.0)),
            // In step: one list is shorter, or fewer calls.
            (2, 0, 0, Way::Together, (0.0, 0.0)),
            (2, 150, 0, Way::Together, (0.0, 0.0)),
            (10, 1000, 0, Way::Together, (45.0, 0.0)),
            (50, 2000, 0, Way::Together, (495.0, 5.0)),
            // A new process knows no service.
            (2, 40, 40, Way::Each, (0.0, 0.0)),
            (3, 300, 300, Way::Each, (0.0, 5.0)),
            (10, 1000, 1000, Way::Together, (45.0, 19.0)),
            (50, 2000, 2000, Way::Together, (495.0, 39.0)),
            // The settings name two of many namespaces.
            (2, 2000, 1960, Way::Each, (15.0, 38.2)),
            // Two services are new.
            (4, 10, 2, Way::Together, (0.0, 0.0)),
            (3, 10, 2, Way::Each, (0.0, 0.0)),
        ];
        for (namespaces, services, unseen, way, seconds) in cases {
            let pages = usize::div_ceil(services, PAGE).max(1);
            let times = (cost(namespaces * pages, 0).0, cost(pages, unseen).0);
            let case = format!("{namespaces} namespaces, {services} services, {unseen} unseen");
            assert_eq!((times.0.as_secs_f64(), times.1.as_secs_f64()), seconds, "{case}");
            assert_eq!(Way::choose(Counts { namespaces, services, unseen }), way, "{case}");
        }
    }
}
