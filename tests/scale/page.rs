//! The tables of docs/scale.md.

use std::fmt::Write as _;

use super::calls::Read;
use super::deployment::{CONCURRENCIES, Deployment, SCHEDULES, count};
use super::events::{self, Events};
use super::money::{self, Hour};
use super::variants::{CLUSTERS, End, Layout, MOST, Variant, spread};

/// The sections of the page by their markers.
pub fn sections() -> [(&'static str, String); 8] {
    [
        ("rounds", rounds()),
        ("ends", ends()),
        ("instances", instances()),
        ("accounts", accounts()),
        ("concurrency", concurrency()),
        ("hours", hours()),
        ("events", events()),
        ("prices", prices()),
    ]
}

/// Every variant with a hundred clusters.
fn rounds() -> String {
    let mut table = String::from(
        "| Cloud Map, reading | Calls of a round | Least time of a round | Forced by | Shortest schedule | Memory | Calls an hour | Cost an hour |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for variant in Variant::all() {
        let deployment = variant.with(CLUSTERS);
        let calls = number(deployment.calls().values().sum());
        let (time, cause) =
            deployment.time().map_or(("-".to_owned(), "Lambda's memory".to_owned()), |it| {
                (time(it.seconds), code(it.cause))
            });
        let memory = deployment.memory().map_or("-".to_owned(), |it| format!("{it:.0} MB"));
        let schedule = deployment.schedule();
        let minutes = schedule.map_or("**none**".to_owned(), minutes);
        let an_hour = schedule.map_or("-".to_owned(), |it| large(deployment.calls_an_hour(it)));
        let cost = Hour::of(&deployment).map_or("-".to_owned(), |it| format!("${:.2}", it.sum()));
        let name = variant.name();
        row(&mut table, &[name, calls, time, cause, minutes, memory, an_hour, cost]);
    }
    table
}

/// The most clusters of every variant.
fn ends() -> String {
    let mut table = String::from(
        "| Cloud Map, reading | Most clusters, each minute | Ended by | Most clusters, any schedule | Ended by |\n|---|---|---|---|---|\n",
    );
    for variant in Variant::all() {
        let mut cells = vec![variant.name()];
        for end in [variant.end(&SCHEDULES[..1]), variant.end(&SCHEDULES)] {
            cells.extend(end_cells(end));
        }
        row(&mut table, &cells);
    }
    table
}

/// The quotas of instances, which are the same for every reader.
fn instances() -> String {
    let mut table = String::from(
        "| Cloud Map | Most clusters until AWS raises a quota | Quota |\n|---|---|---|\n",
    );
    for variant in Variant::all().filter(|it| it.read == Read::List && !it.fan_out) {
        let [clusters, cause] = end_cells(variant.end_of_instances());
        row(&mut table, &[variant.layout.name().to_owned(), clusters, cause]);
    }
    table
}

/// The changed pods of an hour.
fn events() -> String {
    let mut table = String::from(
        "| Changed pods an hour | Calls | Part of ListInstances, one account | An account each | Lambda, at most | Cost, at most |\n\
         |---|---|---|---|---|---|\n",
    );
    let each = Variant { layout: Layout::Each, read: Read::List, fan_out: true }.with(CLUSTERS);
    for pods in [1000, 10_000, 100_000] {
        let events = Events::of(&each, pods);
        let part = |accounts: usize| format!("{:.1} %", events.part * 100.0 / count(accounts));
        let (seconds, dollars) =
            (format!("{:.0} s", events.seconds), format!("${:.2}", events.dollars));
        let calls = number(events.calls);
        row(&mut table, &[number(pods), calls, part(1), part(CLUSTERS), seconds, dollars]);
    }
    table
}

/// A hundred clusters in more and more accounts.
fn accounts() -> String {
    let mut table = String::from(
        "| Accounts | Reading | Shortest schedule, `QUOTA_SHARE` 0.5 | Shortest schedule, `QUOTA_SHARE` 1 |\n|---|---|---|---|\n",
    );
    for accounts in [1, 5, 10, 20, 50, 100] {
        for (read, name) in [(Read::List, "list"), (Read::Discover, "discover")] {
            let schedule = |share: f64| {
                let one = [false, true].map(|fan_out| {
                    let deployment = Deployment { fan_out, ..spread(read, accounts, share) };
                    deployment.schedule().map(|it| (it, fan_out))
                });
                let best = one.into_iter().flatten().min();
                best.map_or("none".to_owned(), |(it, fan_out)| {
                    format!("{}, {} FanOut", minutes(it), if fan_out { "with" } else { "without" })
                })
            };
            row(&mut table, &[accounts.to_string(), name.to_owned(), schedule(0.5), schedule(1.0)]);
        }
    }
    table
}

/// A hundred clusters in an account each by the number of full syncs at once.
fn concurrency() -> String {
    let mut table = String::from(
        "| `FanOut` | Round, list | Schedule | Round, discover | Schedule |\n|---|---|---|---|---|\n",
    );
    for at_once in CONCURRENCIES {
        let mut cells = vec![at_once.to_string()];
        for read in [Read::List, Read::Discover] {
            let variant = Variant { layout: Layout::Each, read, fan_out: true };
            let deployment = Deployment { at_once, ..variant.with(CLUSTERS) };
            cells.push(deployment.time().map_or("-".to_owned(), |it| time(it.seconds)));
            cells.push(deployment.schedule().map_or("none".to_owned(), minutes));
        }
        row(&mut table, &cells);
    }
    table
}

/// The cost of an hour in its parts, and the pods that can change.
fn hours() -> String {
    let mut table = String::from(
        "| Cloud Map, reading | Lambda | SQS | Logs | Metrics | Discovery | Registered instances | Most changed pods an hour |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for variant in Variant::all() {
        let deployment = variant.with(CLUSTERS);
        let Some(hour) = Hour::of(&deployment) else { continue };
        let parts = [hour.lambda, hour.queue, hour.log, hour.metrics, hour.discovery];
        let mut cells = vec![variant.name()];
        cells.extend(parts.map(|it| format!("${it:.3}")));
        cells.push(format!("${:.0}", money::instances(&deployment)));
        let pods = events::most(&deployment);
        cells.push(
            pods.map_or("-".to_owned(), |(pods, by)| format!("{}, by {}", large(pods), code(by))),
        );
        row(&mut table, &cells);
    }
    table
}

fn prices() -> String {
    let mut table = String::from("| Item | Price | Source |\n|---|---|---|\n");
    for price in money::PRICES {
        let money::Price { item, dollars, unit, source } = price;
        row(
            &mut table,
            &[item.to_owned(), format!("{} per {unit}", price_of(dollars)), format!("<{source}>")],
        );
    }
    table
}

fn price_of(dollars: f64) -> String {
    if dollars < 0.01 { format!("${dollars}") } else { format!("${dollars:.2}") }
}

fn end_cells(end: End) -> [String; 2] {
    match end.cause {
        Some(cause) => [end.clusters.to_string(), cause],
        None => [format!("over {}", number(MOST)), String::new()],
    }
}

fn row(table: &mut String, cells: &[String]) {
    writeln!(table, "| {} |", cells.join(" | ")).expect("a string");
}

fn code(cause: &str) -> String {
    if cause.contains(' ') || cause.is_empty() { cause.to_owned() } else { format!("`{cause}`") }
}

fn minutes(minutes: usize) -> String {
    match minutes {
        1 => "1 minute".to_owned(),
        60 => "1 hour".to_owned(),
        minutes => format!("{minutes} minutes"),
    }
}

fn time(seconds: f64) -> String {
    match seconds {
        it if it < 120.0 => format!("{it:.0} s"),
        it if it < 7200.0 => format!("{:.0} min", it / 60.0),
        it if it < 36_000.0 => format!("{:.1} h", it / 3600.0),
        it => format!("{:.0} h", it / 3600.0),
    }
}

fn large(value: f64) -> String {
    if value >= 1e6 {
        format!("{:.1} million", value / 1e6)
    } else {
        format!("{:.0} thousand", value / 1e3)
    }
}

/// With a comma before each three digits.
pub fn number(number: usize) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<&str> = groups.map(|it| std::str::from_utf8(it).expect("digits")).collect();
    groups.join(",")
}
