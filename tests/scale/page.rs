//! The tables of docs/sizing.md.

use std::fmt::Write as _;

use super::deployment::{SCHEDULES, SHARE};
use super::money::Hour;
use super::turns::Turns;
use super::variants::{CLUSTERS, Layout, MOST, spread};

/// The sections of the page by their markers.
pub fn sections() -> [(&'static str, String); 3] {
    [("turns", turns()), ("rounds", rounds()), ("accounts", accounts())]
}

/// A schedule of a minute, by the number of services of an account.
fn turns() -> String {
    let mut table = String::from(
        "| Services of an account | Reads of a run | Each read again | Calls of a list | Listed again | New process |\n\
         |---|---|---|---|---|---|\n",
    );
    for services in [500, 2000, 20_000] {
        let turns = Turns { services, share: SHARE, minutes: 1 };
        let mut cells =
            [services, turns.reads(), turns.round(), turns.pages()].map(number).to_vec();
        cells.extend([turns.list().to_string(), time(turns.first().as_secs_f64())]);
        row(&mut table, &cells);
    }
    table
}

/// The layouts with a hundred clusters, and the number of clusters with which each ends.
fn rounds() -> String {
    let mut table = String::from(
        "| Cloud Map | Calls of a round | Least time, forced by | Schedule | Memory | Cost an hour | Most clusters, ended by |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for layout in Layout::ALL {
        let deployment = layout.with(CLUSTERS);
        let calls = number(deployment.calls().values().sum());
        let time = deployment.time().map_or("Lambda's memory".to_owned(), |it| {
            format!("{}, {}", time(it.seconds), code(it.cause))
        });
        let memory = deployment.memory().map_or("-".to_owned(), |it| format!("{it:.0} MB"));
        let minutes = deployment.schedule().map_or("**none**".to_owned(), minutes);
        let cost = Hour::of(&deployment).map_or("-".to_owned(), |it| format!("${:.2}", it.sum()));
        let end = layout.end(&SCHEDULES);
        let most = match end.cause {
            Some(cause) => format!("{}, {cause}", end.clusters),
            None => format!("over {}", number(MOST)),
        };
        row(&mut table, &[layout.name().to_owned(), calls, time, minutes, memory, cost, most]);
    }
    table
}

/// A hundred clusters in more and more accounts.
fn accounts() -> String {
    let mut table =
        String::from("| Accounts | `QUOTA_SHARE` 0.5 | `QUOTA_SHARE` 1 |\n|---|---|---|\n");
    for accounts in [1, 5, 100] {
        let mut cells = vec![accounts.to_string()];
        for share in [0.5, 1.0] {
            let schedule = spread(accounts, share).schedule();
            cells.push(schedule.map_or("none".to_owned(), minutes));
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
