//! Weeks in virtual time: two clusters, one of them through a role, a full sync every half an hour and messages between
//! them (`play`), while pods roll, nodes are replaced, Services come and go, processes start anew, credentials and tokens
//! expire, Cloud Map throttles or is away, and so is an API server (`story`). All the time nothing foreign is touched and
//! no name loses a pod that has been registered and stays ready; a full sync outside of trouble reports none, and has
//! Cloud Map as it is wanted; after the week one full sync does, and the next writes nothing (`outcome`).
//!
//! The real clients talk to the servers of the sandbox over sockets of this machine, on one thread in which tokio's time
//! goes on only if nothing else is to be done: what has been sent over such a socket is there at once, so that no time
//! passes between a call and its answer.
//!
//! The first day of ten weeks is played, always the same. `WEEKS=1000` plays so many whole weeks, and `WEEKS_FIRST` begins
//! with that seed.

mod outcome;
mod play;
mod story;

/// The weeks of which the first day is played if nobody asks for more. Each takes seconds of processor time.
const WEEKS: u64 = 10;
/// The tests that share the weeks, which run side by side.
const TESTS: u64 = 2;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Plays every other week.
fn weeks(of_test: u64) {
    let (first, count) = (number("WEEKS_FIRST").unwrap_or(1), number("WEEKS").unwrap_or(WEEKS));
    let seeds = (first..first + count).filter(|seed| seed % TESTS == of_test);
    let (length, unit) = match number("WEEKS") {
        Some(_) => (story::WEEK, "weeks"),
        None => (story::DAY, "days"),
    };
    let (mut played, mut sums) = (0_u64, play::Sums::default());
    for seed in seeds {
        sums.add(&play::week(seed, length));
        played += 1;
    }
    println!("{of_test}: {played} {unit}, {sums}");
}

#[test]
fn even_weeks_lose_nothing_and_come_to_rest() {
    weeks(0);
}

#[test]
fn odd_weeks_lose_nothing_and_come_to_rest() {
    weeks(1);
}
