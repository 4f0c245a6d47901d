//! BENCHMARKS.md.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::Duration;

use crate::function::Binary;
use crate::start::Start;

/// One run.
pub struct Row {
    /// What was run.
    pub name: &'static str,
    /// From the invocation to its answer.
    pub took: Duration,
    /// By operation.
    pub calls: BTreeMap<String, usize>,
    /// Of them so many were refused.
    pub throttled: usize,
    /// The time that the rates alone force, where there are any.
    pub forced: Option<Duration>,
    /// Of the function alone, in seconds.
    pub processor_time: f64,
    /// In MiB.
    pub peak_memory: f64,
}

/// The runs in one world.
pub struct Table {
    /// The world.
    pub name: &'static str,
    /// Full syncs.
    pub rows: Vec<Row>,
    /// Changes of single pods: how long each took, in order, and the calls of all.
    pub events: (Vec<Duration>, BTreeMap<String, usize>),
}

/// Everything.
pub struct Report {
    /// By world.
    pub tables: Vec<Table>,
    /// How long it takes to come up.
    pub start: Start,
}

impl Report {
    /// Writes it to a file of this repository.
    pub fn write(&self, file: &str, binary: &Binary) -> io::Result<()> {
        let path = format!("{}/{file}", env!("CARGO_MANIFEST_DIR"));
        let tables: Vec<String> = self.tables.iter().map(Table::to_string).collect();
        let tables = tables.join("\n");
        let mib = |bytes: u32| f64::from(bytes) / 1024.0 / 1024.0;
        let (size, zipped) = (mib(binary.size), mib(binary.zipped));
        let Start { function: (middle, least), bare: (bare, least_bare) } = self.start;
        let debug = if cfg!(debug_assertions) { UNOPTIMIZED } else { "" };
        let text = format!(
            "{INTRODUCTION}{debug}\n{tables}\n## Start and size\n\n\
             - From exec to the first poll for work: {middle:.1} ms, of a function that does nothing {bare:.1} ms \
             (the middle of 40 starts each; the least: {least:.1} ms and {least_bare:.1} ms).\n\
             - The binary: {size:.1} MiB, {zipped:.1} MiB zipped.\n{SHORTFALLS}"
        );
        std::fs::write(path, text)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## {}\n", self.name)?;
        writeln!(
            f,
            "| run | time | forced by quotas | ratio | throttled | processor | peak memory | calls to Cloud Map |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|")?;
        for row in &self.rows {
            writeln!(f, "{row}")?;
        }
        let (times, calls) = &self.events;
        let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
        writeln!(
            f,
            "\nOne pod changed, {} messages one after the other, warm: p50 {:.0} ms, p99 {:.0} ms; calls: {}.",
            times.len(),
            at(50).as_secs_f64() * 1000.0,
            at(99).as_secs_f64() * 1000.0,
            Calls(calls),
        )
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, took, calls, throttled, forced, processor_time, peak_memory } = self;
        let took = took.as_secs_f64();
        let forced = forced.map(|forced| forced.as_secs_f64()).filter(|forced| *forced > 0.0);
        let ratio = forced.map_or_else(String::new, |forced| format!("{:.2}", took / forced));
        let forced = forced.map_or_else(String::new, |forced| format!("{forced:.1} s"));
        write!(
            f,
            "| {name} | {took:.2} s | {forced} | {ratio} | {throttled} | {processor_time:.2} s | {peak_memory:.0} MiB | {} |",
            Calls(calls)
        )
    }
}

/// The sum and each operation.
struct Calls<'a>(&'a BTreeMap<String, usize>);

impl fmt::Display for Calls<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each: Vec<String> =
            self.0.iter().map(|(operation, count)| format!("{operation} {count}")).collect();
        write!(f, "{}: {}", self.0.values().sum::<usize>(), each.join(", "))
    }
}

const INTRODUCTION: &str = "\
# Benchmarks

Made by `cargo bench --bench syncs`, which runs the release binary of the function as a process of its own against the
sandbox's Cloud Map, EKS and Kubernetes in another. Every call to Cloud Map takes 20 ms. An operation takes 20 ms where
there are no quotas, and two seconds where there are. \"Forced by quotas\" is the time that an account's rates alone
force for these calls: (calls - burst) / rate of the slowest operation. Peak memory is the function's VmHWM up to then.
How long deciding takes without any call: `cargo bench --bench planning`.
";

const UNOPTIMIZED: &str = "\
The stand-ins of this run were built without optimisation and had to share two busy cores with the function: times are
upper bounds.
";
const SHORTFALLS: &str = "
## What is not reached, and why

- Peak memory is meant to be under 64 MB at 1,000 x 20. In step it is about that, and in a first sync nearly twice as much.
  A heap profile of one shows the 20,000 changes with what became of them (half a kilobyte each), the attributes of the
  instances (over a kilobyte each, held once), and the changes that wait for their operations, all at the same time.
- A new process does not know what is left of the account's rates. Right after another has used them up, one or two in a
  hundred of its calls are throttled until it knows (\"in step, cold\" under quotas); a first sync has no throttle.
- The start is about twice that of a function that does nothing where TLS roots are in one file, as this run has them.
  Debian's hundred and forty files take three times as long as the rest of it. The roots and the clients' configuration are
  read before the first poll, since Lambda gives the start more processor than an invocation.
- ExternalDNS was not run beside it. Against another stand-in with 20 ms a call, v0.21 took 27 s and 1,204 calls for the
  first sync of 200 x 5, and 4.7 s and 203 calls where all was in step.
- 1,000 x 20 under quotas takes ten minutes and is no part of a whole run:
  `cargo bench --bench syncs -- \"1,000 x 20, ten namespaces, an\"`. It took 404 s for the first sync, of 398 s that the
  rates force, with no throttle and 89 MiB; in step 69 to 73 s of 45 s, since the instances are read only when all services
  are listed, and a list of one namespace's services goes through the pages of all.
";
