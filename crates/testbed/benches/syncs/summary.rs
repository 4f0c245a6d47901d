//! The tables of BENCHMARKS.md: a row for each world. `table` has the same figures with every kind of call, which go to
//! `target/benchmarks.md`.

use std::fmt::{self, Write as _};

use crate::table::{Events, Row, Table};

/// The runs in the order of the columns.
const RUNS: [&str; 3] = ["first sync", "in step, warm", "in step, cold"];

/// All worlds in three tables.
pub struct Summary<'a>(pub &'a [Table]);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n## Syncs\n\n{CELLS}\n\n")?;
        let heads: String = RUNS.iter().fold(String::new(), |heads, run| heads + " " + run + " |");
        writeln!(f, "| world |{heads}\n|---|{}", "---|".repeat(RUNS.len()))?;
        for table in self.0.iter().filter(|table| !table.rows.is_empty()) {
            let cells: Vec<String> =
                RUNS.iter().map(|run| table.row(run).map_or_else(String::new, cell)).collect();
            writeln!(f, "| {} | {} |", table.name, cells.join(" | "))?;
        }
        write!(f, "\n## One pod changed\n\n{MESSAGES}\n\n")?;
        writeln!(
            f,
            "| world | p50 | p99 | registered, p50 | p99 | calls before the first write | calls of a message |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|")?;
        for (name, events) in self.0.iter().filter_map(|it| Some((&it.name, it.events.as_ref()?))) {
            writeln!(f, "| {name} | {} |", messages(events))?;
        }
        write!(f, "\n## Clustersets\n\n")?;
        writeln!(
            f,
            "| world | every import Ready after | requests to a cluster, cold | writes to all |"
        )?;
        writeln!(f, "|---|---|---|---|")?;
        for (name, it) in self.0.iter().filter_map(|it| Some((&it.name, it.imports.as_ref()?))) {
            let ready = it.ready.as_secs_f64();
            writeln!(f, "| {name} | {ready:.1} s | {} | {} |", it.requests, it.writes)?;
        }
        Ok(())
    }
}

/// The figures of a run. `tests/scale/measured.rs` reads them in this order.
fn cell(row: &Row) -> String {
    let ratio = row.ratio().map_or_else(String::new, |ratio| format!(" ({ratio:.2} x)"));
    let (processor, memory) = (row.used.processor_time, row.used.peak_memory);
    let calls = row.number_of_calls();
    format!("{:.2} s{ratio}; {processor:.2} s; {memory:.0} MB; {calls}", row.seconds())
}

fn messages(events: &Events) -> String {
    let mut cells = format!("{:.0} ms | {:.0} ms", events.percentile(50), events.percentile(99));
    let registered = if events.registered.is_empty() {
        " |  | ".to_owned()
    } else {
        let [middle, last] = [50, 99].map(|it| events.percentile_registered(it));
        format!(" | {middle:.0} ms | {last:.0} ms")
    };
    cells += &registered;
    let calls: usize = events.calls.values().sum();
    let each = crate::table::count(calls) / crate::table::count(events.times.len());
    write!(cells, " | {} | {each:.1}", events.reads_before_writes).expect("text takes all");
    cells
}

const CELLS: &str = "Time (with quotas also as a multiple of the time that they force); processor time; peak memory of \
                     the process up to then; calls to Cloud Map.";
const MESSAGES: &str = "Messages one after the other, to a warm process. A message ends with the removal of the old \
                        instance; the new one is registered before. Where full syncs are in place of messages, each \
                        finds one changed pod.";
