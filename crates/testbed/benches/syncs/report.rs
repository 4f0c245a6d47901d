//! BENCHMARKS.md. Every figure in it is of the run that wrote it, but for those that it says are from elsewhere.

use std::fmt::Write;
use std::io;

use crate::aims;
use crate::aims::{Aim, Deciding, REFERENCE};
use crate::external_dns::ExternalDns;
use crate::function::{Binary, Start};
use crate::growth::Growth;
use crate::sizes::Sizes;
use crate::table::{Summary, Table};
use crate::world::GROWING;

/// Everything.
pub struct Report {
    pub binary: Binary,
    /// What it is compared with, where it is at hand.
    pub external_dns: Option<ExternalDns>,
    pub tables: Vec<Table>,
    /// How long it takes to come up, if that was measured.
    pub start: Option<Start>,
}

impl Report {
    /// What the function did in a world.
    pub fn table(&self, world: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == world)
    }

    /// What ExternalDNS did in it.
    pub fn beside(&self, world: &str) -> Option<&Table> {
        let name = self.external_dns.as_ref()?.table_name(world);
        self.table(&name)
    }

    /// Writes BENCHMARKS.md, and all figures to a file of the target folder.
    pub fn write(&self) -> io::Result<()> {
        let mut text = INTRODUCTION.to_owned();
        text += if cfg!(debug_assertions) { UNOPTIMIZED } else { "" };
        text += &self.aims();
        let is_in_summary = |table: &&Table| !GROWING.iter().any(|world| world.name == table.name);
        let summary = Summary(self.tables.iter().filter(is_in_summary).collect());
        write!(text, "{summary}{}", Sizes::of(self)).expect("text takes all");
        text += &self.start_and_size();
        text += &deciding();
        std::fs::write(format!("{}/BENCHMARKS.md", testbed::ROOT), text)?;
        let mut text = String::from("# Benchmarks, all figures\n");
        for table in &self.tables {
            write!(text, "\n{table}").expect("text takes all");
        }
        if let Some(growth) = Growth::of(self) {
            write!(text, "\n{growth}").expect("text takes all");
        }
        std::fs::write(format!("{}/target/benchmarks.md", testbed::ROOT), text)
    }

    /// The aims of what was measured.
    pub fn aims(&self) -> String {
        let aims = aims::aims(self);
        let rows: Vec<String> = aims.iter().map(Aim::to_string).collect();
        let mut shortfalls: Vec<String> = aims.iter().filter_map(Aim::shortfall).collect();
        if self.external_dns.is_none() {
            let [first, next] = REFERENCE;
            shortfalls.push(format!(
                "- ExternalDNS was not run beside it, since `EXTERNAL_DNS_BINARY` names no binary. Its times above are \
                 of another day and another stand-in with 20 ms a call: v0.21 took {} s and {} calls for the first \
                 sync, {} s and {} calls in step.",
                first.seconds, first.calls, next.seconds, next.calls
            ));
        }
        if shortfalls.is_empty() {
            shortfalls.push("All is reached.".to_owned());
        }
        format!(
            "\n## Aims\n\n| aim | at most | measured | reached |\n|---|---|---|---|\n{}\n\n\
             ### What is not reached, and why\n\n{}\n",
            rows.join("\n"),
            shortfalls.join("\n")
        )
    }

    fn start_and_size(&self) -> String {
        let mb = |bytes: u32| f64::from(bytes) / 1e6;
        let size = mb(self.binary.size);
        let zipped = mb(self.binary.zipped);
        let Some(Start { function: (middle, least), bare: (bare, least_bare) }) = self.start else {
            return String::new();
        };
        format!(
            "\n## Start and size\n\n\
             From exec to the first poll for work: {middle:.1} ms, of a function that does nothing {bare:.1} ms (the \
             middle of 40 starts each; the least: {least:.1} ms and {least_bare:.1} ms). The binary: {size:.1} MB, \
             {zipped:.1} MB zipped.\n"
        )
    }
}

fn deciding() -> String {
    let measured = Deciding::measured();
    let measured = measured.map_or_else(|| NOT_DECIDED.to_owned(), |it| it.to_string());
    format!("\n## Deciding alone, without any call\n\n{measured}")
}

const INTRODUCTION: &str = "\
# Benchmarks

`cargo bench -p testbed --bench planning --bench syncs` makes this page. It runs the release binary of the function as a \
process of its own against the sandbox's Cloud Map, EKS and Kubernetes in another; `target/benchmarks.md` has the calls of \
each kind. A call to Cloud Map takes 20 ms, an operation as long, or two seconds under quotas. The rates force (calls - \
burst) / rate of the slowest operation. Times are from the invocation to the answer, with all operations ended; of \
ExternalDNS, which waits for none and runs beside if `EXTERNAL_DNS_BINARY` names it, from its start to its end. The calls \
that fail while tasks and pods change are on [a page of their own](crates/testbed/benches/callers/README.md).
";

const UNOPTIMIZED: &str = "
The stand-ins of this run were built without optimisation: times are upper bounds.
";

const NOT_DECIDED: &str =
    "`cargo bench -p testbed --bench planning` has not measured this build.\n";
