//! The settings of the stand-in for a test: durations, delays and limits. The defaults are short, so that a test in
//! real time is fast; the real service takes seconds for an operation and publishes no limit.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::time::Instant;

/// The dials; `Behaviour { latency: …, ..Behaviour::default() }` changes one.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Behaviour {
    /// From the acceptance of an asynchronous operation to its end.
    pub operation_delay: Duration,
    /// Before any call is looked at.
    pub latency: Duration,
    /// From the end of an operation until ListInstances and GetInstance show it.
    /// Assumed (list_follows_success): none, though InstanceNotFound of DeregisterInstance also stands for a delay.
    pub list_lag: Duration,
    /// The name of the namespace in whose services the lists count no instance: the count may be late.
    pub uncounted: &'static str,
    /// The ids of instances that ListInstances leaves out: a list in pages may miss one while others come and go.
    pub unlisted: BTreeSet<String>,
    /// From the end of an operation until DiscoverInstances shows it.
    pub discover_lag: Duration,
    /// The most items on a page, whatever MaxResults says (it may not ask for more than 100).
    pub page_limit: usize,
    /// Instances that one namespace may hold: an adjustable quota of the account.
    pub instances_per_namespace: usize,
    /// Namespaces that the account may hold: an adjustable quota.
    pub namespaces: usize,
    /// From the end of a creation until ListNamespaces shows the namespace: it may miss it right after SUCCESS
    /// (alchemy-run/alchemy, CloudMap/internal.ts).
    pub namespace_list_lag: Duration,
    /// From the end of a namespace's deletion until its name is free: about 40 s in all (the same).
    pub deleted_name_stays: Duration,
    /// After the end of an operation a change of the same thing is refused with the id of that operation for so long.
    /// Seen once, of a namespace (badmintoncryer/cdk-preflight, bench/verify-rule.test.sh).
    pub completed_operation_stays: Duration,
    /// From the creation of a service until another one of its name is refused by its name: before that the answer is
    /// a 500 without a name (badmintoncryer/cdk-preflight, pf-servicediscovery-service-name-duplicate-in-namespace).
    pub service_creation_race: Duration,
    /// Whether a service that is created again under its name has its old id (hashicorp/terraform-provider-aws 46930).
    pub service_ids_return: bool,
    /// Whether a registration over an existing instance raises the revision.
    /// Assumed (revision_of_a_replacement): it stays, so that a client which waits for a new one is found out.
    pub rewrite_raises_revision: bool,
    /// The health filter of a DiscoverInstances call that names none.
    /// Assumed (default_filter_by_health): the healthy instances alone come, which hides the most.
    pub default_health_filter: &'static str,
    /// Whether DiscoverInstances is also served on hosts without the `data-` prefix.
    pub discovery_on_any_host: bool,
    /// Whether an error has the status that the service model gives it (404, 409, 429). AWS answered with 400 each time
    /// that a status was recorded.
    pub statuses_of_the_model: bool,
    /// The IPv4 networks that a health check of Route 53 refuses, each with its prefix length. Recorded: 10.0.0.0/8 and
    /// 192.0.2.0/24.
    /// Assumed (private_addresses_of_a_check): all of RFC 1918.
    /// Assumed (private_addresses_of_a_check_in_http): in an HTTP namespace, too.
    pub networks_refused_by_checks: Vec<(Ipv4Addr, u32)>,
    /// Call rates; without them no call is throttled but by a fault.
    pub quotas: Option<Quotas>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            operation_delay: Duration::from_millis(30),
            latency: Duration::ZERO,
            list_lag: Duration::ZERO,
            uncounted: "",
            unlisted: BTreeSet::new(),
            discover_lag: Duration::ZERO,
            page_limit: 100,
            instances_per_namespace: 2000,
            namespaces: 50,
            namespace_list_lag: Duration::ZERO,
            deleted_name_stays: Duration::ZERO,
            completed_operation_stays: Duration::ZERO,
            service_creation_race: Duration::ZERO,
            service_ids_return: true,
            rewrite_raises_revision: false,
            default_health_filter: "HEALTHY",
            discovery_on_any_host: false,
            statuses_of_the_model: false,
            networks_refused_by_checks: vec![
                (Ipv4Addr::new(10, 0, 0, 0), 8),
                (Ipv4Addr::new(172, 16, 0, 0), 12),
                (Ipv4Addr::new(192, 168, 0, 0), 16),
                (Ipv4Addr::new(192, 0, 2, 0), 24),
            ],
            quotas: None,
        }
    }
}

impl Behaviour {
    /// Whether a health check of Route 53 refuses an address.
    pub(super) fn is_refused_by_checks(&self, address: Ipv4Addr) -> bool {
        let mut networks = self.networks_refused_by_checks.iter();
        networks.any(|(network, prefix)| {
            let host_bits = 32 - prefix;
            network.to_bits() >> host_bits == address.to_bits() >> host_bits
        })
    }
}

/// Calls per second and burst, by operation; an operation that is not named is unlimited.
#[derive(Clone, Debug)]
pub struct Quotas(BTreeMap<String, (f64, f64)>);

impl Quotas {
    /// The account's rates as far as they are known: DiscoverInstances and its revision from the quotas page, the
    /// rest as the engineers of the MCS controller coded them; AWS publishes none.
    pub fn of_an_account() -> Self {
        let rates = [
            ("ListNamespaces", 0.5, 5.0),
            ("ListServices", 2.0, 10.0),
            ("ListInstances", 50.0, 50.0),
            ("GetService", 50.0, 50.0),
            ("GetOperation", 100.0, 200.0),
            ("CreateHttpNamespace", 0.5, 5.0),
            ("CreateService", 5.0, 50.0),
            ("RegisterInstance", 50.0, 100.0),
            ("DeregisterInstance", 50.0, 100.0),
            ("DiscoverInstances", 1000.0, 2000.0),
            ("DiscoverInstancesRevision", 3000.0, 3000.0),
        ];
        Self(rates.map(|(operation, rate, burst)| (operation.to_owned(), (rate, burst))).into())
    }

    /// No limit at all, to set single ones with `limit`.
    pub fn none() -> Self {
        Self(BTreeMap::new())
    }

    /// Sets one operation's rate per second and burst.
    #[must_use]
    pub fn limit(mut self, operation: &str, rate: f64, burst: f64) -> Self {
        self.0.insert(operation.to_owned(), (rate, burst));
        self
    }

    /// The time that the rates alone force for so many calls of each operation, from full buckets on.
    pub fn forced_time(&self, calls: &BTreeMap<String, usize>) -> Duration {
        Buckets::default().forced_time(self, calls, Instant::now())
    }
}

/// The token buckets that hold calls to the quotas.
#[derive(Clone, Default)]
pub(super) struct Buckets(BTreeMap<String, (f64, Instant)>);

impl Buckets {
    /// Takes one token for the call; `false` when there is none.
    pub(super) fn take(&mut self, quotas: &Quotas, operation: &str, now: Instant) -> bool {
        let Some(left) = self.left(quotas, operation, now) else { return true };
        let allowed = left >= 1.0;
        let left = if allowed { left - 1.0 } else { left };
        self.0.insert(operation.to_owned(), (left, now));
        allowed
    }

    /// The time that the rates alone force from `now` on whoever makes so many calls of each operation.
    pub(super) fn forced_time(
        &self,
        quotas: &Quotas,
        calls: &BTreeMap<String, usize>,
        now: Instant,
    ) -> Duration {
        let times = calls.iter().filter_map(|(operation, count)| {
            let (rate, _) = quotas.0.get(operation)?;
            let calls = f64::from(u32::try_from(*count).unwrap_or(u32::MAX));
            let beyond = calls - self.left(quotas, operation, now)?;
            Some(Duration::from_secs_f64((beyond / rate).max(0.0)))
        });
        times.max().unwrap_or_default()
    }

    /// The tokens of an operation that has a rate.
    fn left(&self, quotas: &Quotas, operation: &str, now: Instant) -> Option<f64> {
        let &(rate, burst) = quotas.0.get(operation)?;
        let Some((tokens, since)) = self.0.get(operation) else { return Some(burst) };
        Some((tokens + (now - *since).as_secs_f64() * rate).min(burst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_bucket_fills_at_its_rate_and_not_above_its_burst() {
        let mut buckets = Buckets::default();
        let quotas = Quotas::none().limit("ListServices", 2.0, 3.0);
        let start = Instant::now();
        let mut taken = |seconds: f64| {
            let now = start + Duration::from_secs_f64(seconds);
            (0..10).filter(|_| buckets.take(&quotas, "ListServices", now)).count()
        };
        assert_eq!([taken(0.0), taken(0.4), taken(1.0), taken(60.0)], [3, 0, 2, 3]);
    }

    #[test]
    fn rates_force_the_time_that_the_slowest_operation_takes_with_what_is_left_of_its_burst() {
        let quotas =
            Quotas::none().limit("ListServices", 2.0, 3.0).limit("GetOperation", 100.0, 1.0);
        let mut buckets = Buckets::default();
        let start = Instant::now();
        let calls = BTreeMap::from([("ListServices".into(), 9), ("GetOperation".into(), 101)]);
        assert_eq!(buckets.forced_time(&quotas, &calls, start), Duration::from_secs(3));
        (0..3).for_each(|_| _ = buckets.take(&quotas, "ListServices", start));
        let second_later = start + Duration::from_secs(1);
        assert_eq!(buckets.forced_time(&quotas, &calls, second_later), Duration::from_millis(3500));
    }
}
