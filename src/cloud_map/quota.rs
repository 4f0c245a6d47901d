//! Leave to make calls, as an account's rates allow it: one bucket for each kind of call, shared by all clients of
//! that account and Region in this process. Who is urgent goes first; otherwise first come, first served.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::bucket::Bucket;
use super::call::{Call, Rate};
use super::lane::{Gate, Lane, Planned};
use super::meter::Meter;
use crate::model::Traffic;

/// How many calls are under way at once, whatever their rates. Each has a connection of its own, and a function
/// on Lambda has 1,024 file descriptors.
const UNDER_WAY: usize = 64;
/// A rate that nobody reaches.
const UNLIMITED: Rate = Rate { per_second: 1e6, burst: 1e6 };

/// The part of an account's rates that this process may use, in thousandths. More than all of it is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuotaShare(u32);

impl QuotaShare {
    /// All of it.
    pub const WHOLE: Self = Self(1000);

    /// A share as a number, where 1 is all of it.
    pub fn new(share: f64) -> Option<Self> {
        let thousandths = (share * 1000.0).round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is in range"
        )]
        (1.0..=1e9).contains(&thousandths).then_some(Self(thousandths as u32))
    }

    fn of(self, rate: Rate) -> Rate {
        if self > Self::WHOLE {
            return UNLIMITED;
        }
        let share = f64::from(self.0) / 1000.0;
        Rate { per_second: rate.per_second * share, burst: rate.burst * share }
    }
}

impl Default for QuotaShare {
    /// The rates are the account's, and ECS lives from them too.
    fn default() -> Self {
        Self(500)
    }
}

/// Who goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// A change of a single Service: somebody waits for it.
    Urgent,
    /// What there is a lot of.
    Bulk,
}

/// The buckets of one account in one Region.
#[derive(Debug)]
pub struct Quotas {
    lanes: BTreeMap<Call, Arc<Lane>>,
    under_way: Semaphore,
    meter: Meter,
}

/// Leave to make one call; held until the call is answered.
#[derive(Debug)]
pub struct Permit<'a> {
    _held: Option<SemaphorePermit<'a>>,
}

impl Quotas {
    /// Buckets of this share.
    pub fn new(share: QuotaShare) -> Self {
        let now = Instant::now();
        let lane =
            |call: Call| (call, Arc::new(Lane::new(Bucket::new(share.of(call.rate()), now))));
        let lanes = Call::ALL.into_iter().map(lane).collect();
        Self { lanes, under_way: Semaphore::new(UNDER_WAY), meter: Meter::default() }
    }

    /// Leave to make a call. The semaphore is never closed, so the error, which would only mean that, is no
    /// permit and no harm.
    pub(super) async fn permit(&self, call: Call, urgency: Urgency) -> Permit<'_> {
        self.take(call, urgency).await;
        Permit { _held: self.under_way.acquire().await.ok() }
    }

    /// Waits until nobody goes first and the rate allows a call, which the gate gives back when it is dropped: a turn
    /// begins when its calls would be made at once, and not long before.
    pub async fn gate(&self, call: Call, urgency: Urgency) -> Gate {
        let lane = self.lanes[&call].clone();
        lane.enter(urgency).await;
        Gate::new(lane)
    }

    /// Counts a call that waits for something else first: no further turn begins before it.
    pub(super) fn plan(&self, call: Call) -> Planned<'_> {
        self.lanes[&call].plan()
    }

    /// Waits until the rate allows a call, for somebody who has a permit already.
    pub(super) async fn take(&self, call: Call, urgency: Urgency) {
        self.lanes[&call].take(urgency).await;
    }

    /// What was asked within these quotas.
    pub fn traffic(&self) -> Traffic {
        self.meter.read()
    }

    /// A call is made.
    pub(super) fn tried(&self) {
        self.meter.call();
    }

    /// The SDK makes a call once more.
    pub(super) fn repeated(&self, call: Call) {
        self.lanes[&call].bucket().owe(Instant::now());
    }

    /// Cloud Map has answered one.
    pub(super) fn passed(&self, call: Call) {
        self.lanes[&call].passed();
    }

    /// Cloud Map said that there are too many of them.
    pub(super) fn throttled(&self, call: Call) {
        self.meter.throttle();
        self.lanes[&call].bucket().throttled(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::time::sleep;

    use super::*;

    /// So many calls at once, and after how many seconds the last of them had its leave.
    async fn seconds(share: QuotaShare, call: Call, calls: usize) -> u64 {
        let (quotas, start) = (Quotas::new(share), Instant::now());
        let all = (0..calls).map(|_| async {
            drop(quotas.permit(call, Urgency::Bulk).await);
            quotas.passed(call);
        });
        futures_util::future::join_all(all).await;
        start.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn calls_go_at_the_account_s_rate_times_the_share() {
        let share = |share| QuotaShare::new(share).expect("a share");
        // 90 at once and 50 a second; 45 and 25; all at once.
        assert_eq!(seconds(share(1.0), Call::RegisterInstance, 1090).await, 20);
        assert_eq!(seconds(QuotaShare::default(), Call::RegisterInstance, 1045).await, 40);
        assert_eq!(seconds(share(1.001), Call::RegisterInstance, 100_000).await, 0);
        assert_eq!(seconds(share(1.0), Call::ListNamespaces, 14).await, 19);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_urgent_goes_before_all_that_waited_before_it() {
        let quotas = Arc::new(Quotas::new(QuotaShare::WHOLE));
        let order = Arc::new(Mutex::new(Vec::new()));
        let ask = |name: &'static str, urgency| {
            let (quotas, order) = (quotas.clone(), order.clone());
            tokio::spawn(async move {
                quotas.take(Call::CreateService, urgency).await;
                quotas.passed(Call::CreateService);
                order.lock().expect("no panic").push(name);
            })
        };
        let mut asked: Vec<_> = (0..60).map(|_| ask("bulk", Urgency::Bulk)).collect();
        sleep(std::time::Duration::from_millis(1)).await;
        asked.push(ask("urgent", Urgency::Urgent));
        for task in asked {
            task.await.expect("no panic");
        }
        let order = order.lock().expect("no panic");
        // The first tokens had gone when it came.
        assert_eq!(order.iter().position(|name| *name == "urgent"), Some(3), "{order:?}");
        assert_eq!(order.len(), 61);
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_holds_up_nobody() {
        let quotas = Quotas::new(QuotaShare::WHOLE);
        let wait = std::time::Duration::from_millis(10);
        for urgency in [Urgency::Urgent, Urgency::Bulk] {
            while tokio::time::timeout(wait, quotas.take(Call::ListServices, urgency)).await.is_ok()
            {
            }
        }
        let start = Instant::now();
        quotas.take(Call::ListServices, Urgency::Bulk).await;
        assert!(start.elapsed() <= std::time::Duration::from_millis(500));
    }
}
