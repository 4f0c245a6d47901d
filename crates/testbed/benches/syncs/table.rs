//! What each run in a world took. [`Summary`] is the table of BENCHMARKS.md, a row for each world. A [`Table`] has the
//! same figures with every kind of call, which go to `target/benchmarks.md`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::function::Used;
use testbed::cloud_map::CloudMap;

/// One run.
pub struct Row {
    pub name: &'static str,
    /// From the invocation to its answer; of ExternalDNS from its start to its end.
    pub took: Duration,
    /// By operation.
    pub calls: BTreeMap<String, usize>,
    /// Of them so many were refused.
    pub throttled: usize,
    /// The time that the rates alone force, where there are any.
    pub forced: Option<Duration>,
    /// The processor time of this run, and the peak memory up to its end.
    pub used: Used,
}

/// Changes of single pods.
#[derive(Default)]
pub struct Events {
    /// What the times are of.
    pub what: &'static str,
    /// How long each took, in order.
    pub times: Vec<Duration>,
    /// How long each took until its instance was registered, in order, where that was measured.
    pub registered: Vec<Duration>,
    /// Of all.
    pub calls: BTreeMap<String, usize>,
    /// Calls before the first write: the most that one of them took.
    pub reads_before_writes: usize,
    /// The processor time of all, and the peak memory up to their end.
    pub used: Used,
}

/// The runs in one world.
#[derive(Default)]
pub struct Table {
    pub name: String,
    /// Full syncs.
    pub rows: Vec<Row>,
    /// Of the function.
    pub events: Option<Events>,
    /// Of the members of a clusterset.
    pub imports: Option<Imports>,
}

/// The imports of the members of a clusterset.
pub struct Imports {
    /// From the beginning of the first sync until every import was Ready with all its endpoints.
    pub ready: Duration,
    /// The requests to a cluster in step, cold: the most that one of them got.
    pub requests: usize,
    /// Those of them that write, to all clusters.
    pub writes: usize,
}

impl Table {
    /// The run of that name.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// The most memory that any run had, in megabytes.
    pub fn peak_memory(&self) -> f64 {
        self.rows.iter().map(|row| row.used.peak_memory).fold(0.0, f64::max)
    }
}

impl Row {
    /// In seconds.
    pub fn seconds(&self) -> f64 {
        self.took.as_secs_f64()
    }

    pub fn number_of_calls(&self) -> usize {
        self.calls.values().sum()
    }

    /// How many times the forced time it took.
    pub fn ratio(&self) -> Option<f64> {
        let forced = self.forced.filter(|forced| !forced.is_zero())?;
        Some(self.seconds() / forced.as_secs_f64())
    }

    /// The part of the calls that was throttled, in percent.
    pub fn throttled_percent(&self) -> f64 {
        100.0 * count(self.throttled) / count(self.number_of_calls().max(1))
    }
}

impl Events {
    /// Adds one change: the time that it took, and the calls since they were forgotten.
    pub fn add(&mut self, took: Duration, cloud_map: &CloudMap) {
        self.times.push(took);
        self.times.sort();
        for (operation, count) in cloud_map.counts() {
            *self.calls.entry(operation).or_default() += count;
        }
        let reads = cloud_map.calls().iter().take_while(|call| !call.is_write()).count();
        self.reads_before_writes = self.reads_before_writes.max(reads);
    }

    /// In milliseconds.
    pub fn percentile(&self, percent: usize) -> f64 {
        percentile(&self.times, percent)
    }

    /// Until the instance is registered, in milliseconds.
    pub fn percentile_registered(&self, percent: usize) -> f64 {
        percentile(&self.registered, percent)
    }

    /// The calls of one of them.
    fn calls_of_each(&self) -> f64 {
        count(self.calls.values().sum()) / count(self.times.len())
    }

    /// The processor time of one of them, in milliseconds.
    pub fn processor_time_of_each(&self) -> f64 {
        1000.0 * self.used.processor_time / count(self.times.len())
    }

    /// The part of the time after the instance is registered, in percent: the removal of the old one.
    fn removal(&self) -> f64 {
        let sum = |times: &[Duration]| times.iter().map(Duration::as_secs_f64).sum::<f64>();
        100.0 * (1.0 - sum(&self.registered) / sum(&self.times))
    }
}

/// In milliseconds.
fn percentile(times: &[Duration], percent: usize) -> f64 {
    let at = times.get(times.len() * percent / 100);
    at.copied().unwrap_or_default().as_secs_f64() * 1000.0
}

/// A number to calculate with.
pub fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## {}\n", self.name)?;
        if self.rows.is_empty() {
            return self.events.as_ref().map_or(Ok(()), |events| events.fmt(f));
        }
        writeln!(
            f,
            "| run | time | forced by quotas | ratio | throttled | processor | peak memory | calls to Cloud Map |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|")?;
        for row in &self.rows {
            writeln!(f, "{row}")?;
        }
        if let Some(Imports { ready, requests, writes }) = &self.imports {
            writeln!(
                f,
                "\nEvery import was Ready with all its endpoints after {:.1} s of the first sync; requests to a \
                 cluster in step, cold: {requests}, writes to all: {writes}.",
                ready.as_secs_f64()
            )?;
        }
        self.events.as_ref().map_or(Ok(()), |events| write!(f, "\n{events}"))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, throttled, used: Used { processor_time, peak_memory }, .. } = self;
        let forced = self.forced.filter(|forced| !forced.is_zero());
        let forced = forced.map_or_else(String::new, |it| format!("{:.1} s", it.as_secs_f64()));
        let ratio = self.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        let took = self.seconds();
        let calls = Calls(&self.calls);
        write!(f, "| {name} | {took:.2} s | {forced} | {ratio} | {throttled} ")?;
        write!(f, "| {processor_time:.2} s | {peak_memory:.0} MB | {calls} |")
    }
}

impl fmt::Display for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}, {} messages one after the other, warm: p50 {:.0} ms, p99 {:.0} ms; calls before the first write: {}; \
             calls: {}.",
            self.what,
            self.times.len(),
            self.percentile(50),
            self.percentile(99),
            self.reads_before_writes,
            Calls(&self.calls),
        )?;
        if self.registered.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "\nThe new instance was registered after p50 {:.0} ms, p99 {:.0} ms. The rest of the time, {:.0} % of it, is \
             the second read and the removal of the old instance, whose operation is waited for.",
            self.percentile_registered(50),
            self.percentile_registered(99),
            self.removal(),
        )
    }
}

/// The sum and each operation.
struct Calls<'a>(&'a BTreeMap<String, usize>);

impl fmt::Display for Calls<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = self.0.iter().map(|(operation, count)| format!("{operation} {count}"));
        let each = each.collect::<Vec<_>>().join(", ");
        write!(f, "{}: {each}", self.0.values().sum::<usize>())
    }
}

/// The runs in the order of the columns.
pub const RUNS: [&str; 3] = ["first sync", "in step, warm", "in step, cold"];

/// A row for each world, with its full syncs and its single changes.
pub struct Summary<'a>(pub Vec<&'a Table>);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n## Syncs\n\n{CELLS}\n\n")?;
        writeln!(f, "| world | {} | one pod changed |", RUNS.join(" | "))?;
        writeln!(f, "|---|{}---|", "---|".repeat(RUNS.len()))?;
        for table in &self.0 {
            write!(f, "| {} |", table.name)?;
            for run in RUNS {
                write!(f, " {} |", table.row(run).map_or_else(String::new, cell))?;
            }
            writeln!(f, " {} |", table.events.as_ref().map_or_else(String::new, changes))?;
        }
        Ok(())
    }
}

/// The figures of a run. `tests/scale/measured.rs` reads them in this order.
fn cell(row: &Row) -> String {
    let ratio = row.ratio().map_or_else(String::new, |ratio| format!(" ({ratio:.2} x)"));
    let processor = row.used.processor_time;
    let memory = row.used.peak_memory;
    let calls = row.number_of_calls();
    format!("{:.2} s{ratio}; {processor:.2} s; {memory:.0} MB; {calls}", row.seconds())
}

/// The figures of single changes.
fn changes(events: &Events) -> String {
    let registered = if events.registered.is_empty() {
        String::new()
    } else {
        format!("{:.0} ms, ", events.percentile_registered(99))
    };
    format!("{registered}{:.0} ms; {:.1}", events.percentile(99), events.calls_of_each())
}

const CELLS: &str = "Of a full sync: time (with quotas also as a multiple of the time that they force); processor time; \
                     peak memory of the process up to then; calls to Cloud Map. Of a changed pod: p99 of the time until \
                     it is registered, and until its message is done, which is after the old instance is removed; calls. \
                     Messages come one after the other, to a warm process. Where full syncs are in place of messages, \
                     each finds one changed pod. Of a clusterset: p99 until the slices of all other members have the \
                     pod.";
