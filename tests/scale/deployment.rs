//! A fleet with its settings, and the least time of one of its rounds: what the rates of an account force, or the
//! processor of Lambda takes. Rounds follow each other, so that in the long run a rate allows no more than itself.

use cloud_map_sync::cloud_map::Call;

use super::calls::{Calls, Fleet, Process};
use super::measured::{self, Load};

/// The default of `QUOTA_SHARE`.
pub const SHARE: f64 = 0.5;
/// The clusters that an invocation syncs at once (`CONCURRENT_CLUSTERS` of src/function/run.rs).
pub const SIDE_BY_SIDE: usize = 8;
/// The choices of `FullSyncMinutes`.
pub const SCHEDULES: [usize; 7] = [1, 2, 5, 10, 15, 30, 60];
/// The longest time of an invocation, in seconds: Lambda's limit, and the longest of `FullSyncMinutes`.
pub const LONGEST: f64 = 900.0;
/// A round takes about a tenth longer than the rates force (the ratios of BENCHMARKS.md).
const SLACK: f64 = 1.1;
/// Namespaces are listed again after this time, in minutes.
const NAMESPACES_MAX_AGE: usize = 5;

/// A fleet and its settings.
#[derive(Clone, Copy, Debug)]
pub struct Deployment {
    pub fleet: Fleet,
    pub share: f64,
}

/// A time with its cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time {
    pub seconds: f64,
    pub cause: &'static str,
}

/// The cause of a time that no quota forces.
pub const PROCESSOR: &str = "the processor";

impl Deployment {
    /// The least time of one round after a pause; `None` if it takes more memory than Lambda has.
    pub fn time(&self) -> Option<Time> {
        let seconds = self.load().processing(self.memory()?);
        Some(longer(self.forced(), Time { seconds, cause: PROCESSOR }))
    }

    /// The time that the rates force on a round.
    pub fn forced(&self) -> Time {
        let read = self.fleet.calls_to_account(0, Process::Recent);
        let time = forced(&read, self.share);
        Time { seconds: self.accounts_in_turn() * time.seconds, cause: time.cause }
    }

    /// How many accounts are read one after the other.
    fn accounts_in_turn(&self) -> f64 {
        let accounts = self.fleet.accounts.min(self.fleet.clusters);
        count(accounts.div_ceil(SIDE_BY_SIDE))
    }

    /// Whether a round ends within Lambda's limit.
    ///
    /// # Errors
    /// Returns the time that it takes.
    pub fn ends_in_time(&self) -> Result<(), Time> {
        within(self.time().unwrap_or(NONE), LONGEST / SLACK)
    }

    /// Whether a new process gets to know an account within Lambda's limit. The next invocation knows it then.
    ///
    /// # Errors
    /// Returns the time that it takes.
    pub fn starts_in_time(&self) -> Result<(), Time> {
        let read = self.fleet.calls_to_account(0, Process::New);
        within(forced(&read, self.share), LONGEST / SLACK)
    }

    /// Whether one round ends before the next one begins, and the rates allow the calls of all.
    ///
    /// # Errors
    /// Returns the time that a round takes.
    pub fn keeps_pace(&self, minutes: usize) -> Result<(), Time> {
        let seconds = count(minutes * 60);
        within(self.time().unwrap_or(NONE), seconds / SLACK).and(within(self.lasting(), seconds))
    }

    /// The time after which the rates of an account allow another round: in the long run there are no bursts.
    fn lasting(&self) -> Time {
        let read = self.fleet.calls_to_account(0, Process::Recent);
        let times = times(&read, self.share, 0.0);
        times.reduce(longer).unwrap_or(NONE)
    }

    /// The shortest schedule with which all is well.
    pub fn schedule(&self) -> Option<usize> {
        self.memory()?;
        self.ends_in_time().and(self.starts_in_time()).ok()?;
        SCHEDULES.into_iter().find(|minutes| self.keeps_pace(*minutes).is_ok())
    }

    /// The work of one invocation.
    fn load(&self) -> Load {
        let registry = count(self.fleet.services_of(0) * self.fleet.instances_of_service(0));
        let Fleet { clusters, accounts, .. } = self.fleet;
        Load {
            clusters: count(clusters),
            instances: registry * count(accounts.min(clusters)),
            copied: registry * count(clusters),
            copied_at_once: registry * count(clusters.min(SIDE_BY_SIDE)),
        }
    }

    /// The memory to give, in MB: the smallest size that is enough and whose processor is faster than the rates, or else
    /// that of a whole processor, which costs no more. `None` if Lambda has none as large.
    pub fn memory(&self) -> Option<f64> {
        let quotas = self.forced().seconds;
        let load = self.load();
        let mut sizes = measured::SIZES.into_iter().filter(|size| load.fits(*size));
        let is_fast = |size: &f64| load.processing(*size) <= quotas;
        sizes.clone().find(is_fast).or_else(|| sizes.find(|size| *size >= measured::ONE_PROCESSOR))
    }

    /// The calls of a round by processes that know every service and namespace.
    pub fn calls(&self) -> Calls {
        self.fleet.calls(Process::Recent)
    }

    /// The calls of an hour. Each process lists the namespaces again after some time.
    pub fn calls_an_hour(&self, minutes: usize) -> f64 {
        let rounds = count(60 / minutes);
        let [recent, warm] = [Process::Recent, Process::Warm]
            .map(|process| count(self.fleet.calls(process).values().sum()));
        let relisted = rounds / count(NAMESPACES_MAX_AGE.div_ceil(minutes));
        recent * rounds + (warm - recent) * relisted
    }
}

const NONE: Time = Time { seconds: 0.0, cause: PROCESSOR };

/// The time that the rates of an account force on calls after a pause if this share is used.
fn forced(calls: &Calls, share: f64) -> Time {
    times(calls, share, share).reduce(longer).unwrap_or(NONE)
}

/// The time of each kind of call with these shares of its rate and of its burst.
fn times(calls: &Calls, share: f64, of_burst: f64) -> impl Iterator<Item = Time> {
    Call::ALL.into_iter().filter_map(move |call| {
        let (operation, calls) = calls.get_key_value(format!("{call:?}").as_str())?;
        let rate = call.rate();
        let beyond = (count(*calls) - rate.burst * of_burst).max(0.0);
        Some(Time { seconds: beyond / (rate.per_second * share), cause: operation })
    })
}

fn within(time: Time, seconds: f64) -> Result<(), Time> {
    if time.seconds > seconds { Err(time) } else { Ok(()) }
}

fn longer(one: Time, other: Time) -> Time {
    if other.seconds > one.seconds { other } else { one }
}

pub fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}
