//! More changes than one run can read. Reading and doing are one stream: a group starts when its own names are read, and
//! a run that ends in between has done the rest.

use std::time::Duration;

use super::{full_sync, give, in_step, is_registered, pass, seconds, until, warm};
use crate::fleet::Fleet;

/// The pods of all Services are replaced.
fn replace(fleet: &Fleet, services: usize) {
    (0..services).for_each(|service| give(fleet, service, &[2]));
}

fn registered(fleet: &Fleet, services: usize) -> usize {
    (0..services).filter(|service| is_registered(fleet, *service, 2)).count()
}

/// The pods of more Services than one run has time to read are replaced between two runs. The first run begins to
/// register within three seconds, and registers for a fourth of its time at least at the rate of the share: the end of it
/// is kept for the answer, and a Service that loses pods is read twice.
async fn assert_each_run_registers(services: usize, time: Duration) {
    let fleet = in_step(services, &[1]).await;
    let function = warm(&fleet).await;
    replace(&fleet, services);

    let first = until(|| fleet.cloud_map.count("RegisterInstance") > 0);
    let (first, report) = tokio::join!(first, full_sync(&function, time));

    let counts = &report.counts;
    assert!(first < seconds(3), "first registration after {first:?} in runs of {time:?}: {counts}");
    let mut done = vec![registered(&fleet, services)];
    let least = services.min(usize::try_from(time.as_secs() * 25 / 4).expect("few"));
    assert!(done[0] >= least, "{done:?} of {services}, at least {least}: {}", report.counts);
    while done.last().is_some_and(|last| *last < services) {
        pass(&fleet, time).await;
        full_sync(&function, time).await;
        done.push(registered(&fleet, services));
        assert!(done.len() <= services.div_ceil(least) + 1, "{done:?} of {services}");
    }
}

#[tokio::test(start_paused = true)]
async fn runs_of_ten_seconds_register_the_pods_of_250_services() {
    assert_each_run_registers(250, seconds(10)).await;
}

#[tokio::test(start_paused = true)]
async fn runs_of_a_minute_register_the_pods_of_1500_services() {
    assert_each_run_registers(1500, seconds(60)).await;
}

#[tokio::test(start_paused = true)]
async fn run_of_five_minutes_begins_to_register_the_pods_of_1000_services_at_once() {
    assert_each_run_registers(1000, seconds(300)).await;
}
