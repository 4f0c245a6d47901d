//! The tables of docs/sizing.md.

use std::fmt::Write as _;

use super::deployment::{Deployment, SCHEDULES, SHARE};
use super::money::Hour;
use super::turns::Turns;
use super::variants::{CLUSTERS, Layout, MOST, Variant, spread};

/// The sections of the page by their markers.
pub fn sections() -> [(&'static str, String); 3] {
    [("turns", turns()), ("rounds", rounds()), ("accounts", accounts())]
}

/// A schedule of a minute, by the number of services of an account. With ten clusters each has a run of its own.
fn turns() -> String {
    let mut table = String::from(
        "| Services of an account | Pages and reads of a run | Each read again | A whole list | New process |\n\
         |---|---|---|---|---|\n",
    );
    for (services, sharing) in [(500, 1), (2000, 1), (10_000, 1), (20_000, 10)] {
        let turns = Turns { services, sharing, share: SHARE, minutes: 1 };
        let of = if sharing > 1 { ", ten clusters, `FanOut`" } else { "" };
        let calls = format!("{}, {}", turns.pages(), turns.reads());
        let mut cells = vec![format!("{}{of}", number(services)), calls];
        cells.extend([turns.round(), turns.list(), turns.first()].map(|it| it.to_string()));
        row(&mut table, &cells);
    }
    table
}

/// The variants with a hundred clusters, and the number of clusters with which each ends. In one account `FanOut` is
/// left out: each invocation reads all of it.
fn rounds() -> String {
    let mut table = String::from(
        "| Cloud Map | Calls of a round | Least time, forced by | Schedule | Memory | Cost an hour | Most clusters, ended by |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for variant in Variant::all().filter(|it| !(it.fan_out && it.layout == Layout::One)) {
        let deployment = variant.with(CLUSTERS);
        let calls = number(deployment.calls().values().sum());
        let time = deployment.time().map_or("Lambda's memory".to_owned(), |it| {
            format!("{}, {}", time(it.seconds), code(it.cause))
        });
        let memory = deployment.memory().map_or("-".to_owned(), |it| format!("{it:.0} MB"));
        let minutes = deployment.schedule().map_or("**none**".to_owned(), minutes);
        let cost = Hour::of(&deployment).map_or("-".to_owned(), |it| format!("${:.2}", it.sum()));
        let end = variant.end(&SCHEDULES);
        let most = match end.cause {
            Some(cause) => format!("{}, {cause}", end.clusters),
            None => format!("over {}", number(MOST)),
        };
        row(&mut table, &[variant.name(), calls, time, minutes, memory, cost, most]);
    }
    table
}

/// A hundred clusters in more and more accounts.
fn accounts() -> String {
    let mut table =
        String::from("| Accounts | `QUOTA_SHARE` 0.5 | `QUOTA_SHARE` 1 |\n|---|---|---|\n");
    for accounts in [1, 5, 10, 20, 50, 100] {
        let mut cells = vec![accounts.to_string()];
        for share in [0.5, 1.0] {
            let one = [false, true].map(|fan_out| {
                let deployment = Deployment { fan_out, ..spread(accounts, share) };
                deployment.schedule().map(|it| (it, fan_out))
            });
            let best = one.into_iter().flatten().min();
            cells.push(best.map_or("none".to_owned(), |(it, fan_out)| {
                format!("{}{}", minutes(it), if fan_out { ", FanOut" } else { "" })
            }));
        }
        row(&mut table, &cells);
    }
    table
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

/// With a comma before each three digits.
pub fn number(number: usize) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<&str> = groups.map(|it| std::str::from_utf8(it).expect("digits")).collect();
    groups.join(",")
}
