//! A fleet with its settings, and the least time of one of its rounds: what the rates of an account force, or the
//! processor of Lambda takes. Rounds follow each other, so that in the long run a rate allows no more than itself.

use cloud_map_sync::cloud_map::Call;

use super::calls::{Calls, Fleet, Process, Round};
use super::measured::{self, Load};

/// The default of `QUOTA_SHARE`.
pub const SHARE: f64 = 0.5;
/// The choice of `FanOut`, the full syncs that SQS starts at once, of a fleet without another.
pub const AT_ONCE: usize = 8;
/// The clusters that an invocation syncs at once (`CONCURRENT_CLUSTERS` of src/function/run.rs).
pub const SIDE_BY_SIDE: usize = 8;
/// The choices of `FullSyncMinutes`.
pub const SCHEDULES: [usize; 7] = [1, 2, 5, 10, 15, 30, 60];
/// The longest time of an invocation, in seconds: Lambda's limit, and the longest of `FullSyncMinutes`.
pub const LONGEST: f64 = 900.0;
/// A round takes about a tenth longer than the rates force (the ratios of BENCHMARKS.md).
const SLACK: f64 = 1.1;
/// Namespaces are listed again after this time, in minutes.
const NAMESPACES_STAND: usize = 5;

/// A fleet and its settings.
#[derive(Clone, Copy, Debug)]
pub struct Deployment {
    pub fleet: Fleet,
    pub fan_out: bool,
    pub share: f64,
    pub at_once: usize,
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
    fn round(&self, process: Process) -> Round {
        Round { fan_out: self.fan_out, process }
    }

    /// The least time of one round after a pause; `None` if it takes more memory than Lambda has.
    pub fn time(&self) -> Option<Time> {
        let processing = self.load().processing(self.memory()?);
        let seconds = self.invocations_in_turn() * processing;
        Some(longer(self.forced(), Time { seconds, cause: PROCESSOR }))
    }

    /// The time that the rates force on a round.
    pub fn forced(&self) -> Time {
        let read = self.fleet.read_of_account(0, self.round(Process::Recent));
        let accounts = self.accounts_in_turn();
        let time = forced(&read, self.turns() / accounts, self.share);
        let time = Time { seconds: accounts * time.seconds, cause: time.cause };
        self.at_whole_rate(time, &read, self.fleet.clusters_of(0))
    }

    /// The time in which a new process reads one account, beside others as new.
    fn first(&self) -> Time {
        let read = self.fleet.read_of_account(0, self.round(Process::New));
        let time = forced(&read, 1.0, self.share);
        self.at_whole_rate(time, &read, self.fleet.clusters_of(0).min(self.at_once))
    }

    /// Invocations at once can take no more than the whole rate of an account.
    fn at_whole_rate(&self, time: Time, read: &Calls, reads: usize) -> Time {
        if self.fan_out { longer(time, forced(read, count(reads), 1.0)) } else { time }
    }

    /// How many accounts are read one after the other, by each of the processes at once.
    fn accounts_in_turn(&self) -> f64 {
        let accounts = self.fleet.accounts.min(self.fleet.clusters);
        if !self.fan_out {
            return count(accounts.div_ceil(SIDE_BY_SIDE));
        }
        count(accounts.min(self.fleet.clusters.div_ceil(self.at_once)))
    }

    /// How many reads of an account follow each other.
    fn turns(&self) -> f64 {
        if self.fan_out {
            count(self.fleet.clusters.div_ceil(self.at_once))
        } else {
            self.accounts_in_turn()
        }
    }

    /// How many invocations follow each other.
    pub fn invocations_in_turn(&self) -> f64 {
        if self.fan_out { self.turns() } else { 1.0 }
    }

    /// Whether each of its invocations ends within Lambda's limit.
    ///
    /// # Errors
    /// Returns the time of the longest one.
    pub fn ends_in_time(&self) -> Result<(), Time> {
        let round = self.time().unwrap_or(NONE);
        within(
            Time { seconds: round.seconds / self.invocations_in_turn(), ..round },
            LONGEST / SLACK,
        )
    }

    /// Whether a new process gets to know an account within Lambda's limit. The next invocation knows it then.
    ///
    /// # Errors
    /// Returns the time that it takes.
    pub fn starts_in_time(&self) -> Result<(), Time> {
        within(self.first(), LONGEST / SLACK)
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
        let read = self.fleet.read_of_account(0, self.round(Process::Recent));
        let clusters = self.fleet.clusters_of(0);
        let (reads, at_once) =
            if self.fan_out { (clusters, clusters.min(self.at_once)) } else { (1, 1) };
        let share = (self.share * count(at_once)).min(1.0);
        let times = times(&read, count(reads), share, 0.0);
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
        let (clusters, registries) =
            if self.fan_out { (1, 1) } else { (self.fleet.clusters, self.fleet.accounts) };
        Load {
            clusters: count(clusters),
            instances: registry * count(registries.min(clusters)),
            copied: registry * count(clusters),
            copied_at_once: registry * count(clusters.min(SIDE_BY_SIDE)),
        }
    }

    /// The memory to give, in MB: the smallest size that is enough and whose processor is faster than the rates, or else
    /// that of a whole processor, which costs no more. `None` if Lambda has none as large.
    pub fn memory(&self) -> Option<f64> {
        let quotas = self.forced().seconds / self.invocations_in_turn();
        let load = self.load();
        let mut sizes = measured::SIZES.into_iter().filter(|size| load.fits(*size));
        let is_fast = |size: &f64| load.processing(*size) <= quotas;
        sizes.clone().find(is_fast).or_else(|| sizes.find(|size| *size >= measured::ONE_PROCESSOR))
    }

    /// The calls of a round by processes that know every service and namespace.
    pub fn calls(&self) -> Calls {
        self.fleet.calls(self.round(Process::Recent))
    }

    /// The calls of an hour. Each process lists the namespaces again after some time.
    pub fn calls_an_hour(&self, minutes: usize) -> f64 {
        let rounds = count(60 / minutes);
        let [recent, warm] = [Process::Recent, Process::Warm]
            .map(|process| count(self.fleet.calls(self.round(process)).values().sum()));
        let relisted = rounds / count(NAMESPACES_STAND.div_ceil(minutes));
        recent * rounds + (warm - recent) * relisted
    }
}

const NONE: Time = Time { seconds: 0.0, cause: PROCESSOR };

/// The time that the rates of an account force if this share is used for a number of reads after a pause.
fn forced(calls: &Calls, reads: f64, share: f64) -> Time {
    times(calls, reads, share, share).reduce(longer).unwrap_or(NONE)
}

/// The time of each kind of call with these shares of its rate and of its burst.
fn times(calls: &Calls, reads: f64, share: f64, of_burst: f64) -> impl Iterator<Item = Time> {
    Call::ALL.into_iter().filter_map(move |call| {
        let (operation, calls) = calls.get_key_value(format!("{call:?}").as_str())?;
        let rate = call.rate();
        let beyond = (count(*calls) * reads - rate.burst * of_burst).max(0.0);
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
