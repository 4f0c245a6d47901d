//! What happens in a week, by its seed: the changes of each Service, and the trouble, which comes one after the other.

use std::time::Duration;

use testbed::cloud_map::{Behaviour, Fault, FaultKind};
use testbed::kubernetes::{Fault as ClusterFault, FaultKind as ClusterKind};

use super::play::Stage;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
/// A day, in seconds.
pub const DAY: u64 = 24 * HOUR;
/// A week, in seconds.
pub const WEEK: u64 = 7 * DAY;
/// How long an old pod and its successor are both ready.
const SURGE: u64 = 90;

/// The Services: cluster, name, and the name that each claims. One is of both clusters.
pub const SERVICES: [(&str, &str, (&str, &str)); 6] = [
    ("blue", "web", ("prod.local", "web")),
    ("green", "web", ("prod.local", "web")),
    ("blue", "cart", ("prod", "cart")),
    ("blue", "mail", ("prod", "mail")),
    ("green", "orders", ("prod.local", "orders")),
    ("green", "search", ("prod", "search")),
];

/// Numbers from a seed, by SplitMix64.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// A number from `from` and below `to`.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        from + (mixed ^ (mixed >> 31)) % (to - from)
    }

    /// Whether something happens that happens so many times of a hundred.
    pub fn is(&mut self, percent: u64) -> bool {
        self.between(0, 100) < percent
    }
}

/// Something that happens at a second of the week.
#[derive(Clone, Debug)]
pub enum Event {
    /// The Service has these pods ready; `None`: it does not exist.
    Pods(usize, Option<Vec<u8>>),
    /// A message about the Service arrives.
    Message(usize),
    /// The process that has this number ends, and another one starts.
    Restart(usize),
    /// A task of ECS comes beside the pods, or goes.
    Task(bool),
    Begin(Trouble),
    End,
}

/// What goes wrong for a while.
#[derive(Clone, Copy, Debug)]
pub enum Trouble {
    /// Cloud Map answers 503 to everything.
    Outage,
    /// Every call but a few is throttled.
    Throttling,
    /// Operations take half a minute.
    SlowOperations,
    /// An API server answers 503.
    ClusterAway(&'static str),
    /// The role of `green` may not be assumed.
    RoleRefused,
    /// Lists show changes late.
    LaggingLists,
}

impl Trouble {
    const ALL: [Self; 7] = [
        Self::Outage,
        Self::Throttling,
        Self::SlowOperations,
        Self::ClusterAway("blue"),
        Self::ClusterAway("green"),
        Self::RoleRefused,
        Self::LaggingLists,
    ];

    pub fn begin(self, stage: &Stage) {
        let cloud_map = &stage.fleet.cloud_map;
        let behave = |behaviour| cloud_map.behave(behaviour);
        match self {
            Self::Outage => cloud_map.inject(Fault::on("*", FaultKind::Unavailable).always()),
            Self::Throttling => {
                cloud_map.inject(Fault::on("*", FaultKind::Throttling).after(3).always());
            }
            Self::SlowOperations => {
                behave(Behaviour {
                    operation_delay: Duration::from_secs(30),
                    ..Behaviour::default()
                });
            }
            Self::ClusterAway(cluster) => {
                stage.cluster(cluster).fail(ClusterFault::always("/", ClusterKind::Status(503)));
            }
            Self::RoleRefused => stage.refuse_role(),
            Self::LaggingLists => {
                behave(Behaviour { list_lag: Duration::from_secs(5), ..Behaviour::default() });
            }
        }
    }
}

/// The events of a week up to some second, in order.
pub fn week(seed: u64, length: u64) -> Vec<(u64, Event)> {
    let mut numbers = Numbers::new(seed);
    let mut events = Vec::new();
    for service in 0..SERVICES.len() {
        changes(&mut numbers, service, &mut events);
    }
    for process in 0..2 {
        let mut at = numbers.between(0, 12 * HOUR);
        while at < WEEK {
            events.push((at, Event::Restart(process)));
            at += numbers.between(HOUR, 20 * HOUR);
        }
    }
    let mut at = numbers.between(HOUR, 6 * HOUR);
    while at < WEEK - DAY {
        let trouble = Trouble::ALL[usize::try_from(numbers.between(0, 7)).expect("small")];
        events.push((at, Event::Begin(trouble)));
        at += numbers.between(10 * MINUTE, 90 * MINUTE);
        events.push((at, Event::End));
        at += numbers.between(4 * HOUR, DAY);
    }
    for day in 0..6 {
        let at = day * DAY + numbers.between(0, DAY / 2);
        events.push((at, Event::Task(day % 2 == 0)));
    }
    // At one second, in the order in which they were made.
    events.sort_by_key(|(at, _)| *at);
    events.retain(|(at, _)| *at < length);
    events
}

/// The changes of one Service: roll-outs, replaced nodes, more or fewer pods, none, and its removal for some hours.
fn changes(numbers: &mut Numbers, service: usize, events: &mut Vec<(u64, Event)>) {
    let mut next = 1;
    let mut pods = fresh(numbers, &mut next);
    events.push((0, Event::Pods(service, Some(pods.clone()))));
    let mut at = numbers.between(0, 6 * HOUR);
    while at < WEEK - DAY / 2 {
        match numbers.between(0, 10) {
            0 => {
                events.push((at, Event::Pods(service, None)));
                at += numbers.between(MINUTE, 6 * HOUR);
                pods = fresh(numbers, &mut next);
                events.push((at, Event::Pods(service, Some(pods.clone()))));
            }
            1 => {
                events.push((at, Event::Pods(service, Some(Vec::new()))));
                at += numbers.between(MINUTE, 2 * HOUR);
                events.push((at, Event::Pods(service, Some(pods.clone()))));
            }
            2 | 3 => {
                pods = fresh(numbers, &mut next);
                events.push((at, Event::Pods(service, Some(pods.clone()))));
            }
            _ => {
                for old in pods.clone() {
                    pods.push(next);
                    next = next % 250 + 1;
                    events.push((at, Event::Pods(service, Some(pods.clone()))));
                    tell(numbers, service, at, events);
                    at += SURGE;
                    pods.retain(|pod| *pod != old);
                    events.push((at, Event::Pods(service, Some(pods.clone()))));
                    tell(numbers, service, at, events);
                    at += numbers.between(5, SURGE);
                }
            }
        }
        tell(numbers, service, at, events);
        at += numbers.between(HOUR, 14 * HOUR);
    }
}

/// One to four pods that have not been there before.
fn fresh(numbers: &mut Numbers, next: &mut u8) -> Vec<u8> {
    let count = numbers.between(1, 5);
    let pod = |_| {
        let pod = *next;
        *next = *next % 250 + 1;
        pod
    };
    (0..count).map(pod).collect()
}

/// Most changes have a message a moment later.
fn tell(numbers: &mut Numbers, service: usize, at: u64, events: &mut Vec<(u64, Event)>) {
    if numbers.is(80) {
        events.push((at + numbers.between(1, 5), Event::Message(service)));
    }
}
