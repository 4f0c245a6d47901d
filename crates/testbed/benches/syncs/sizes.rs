//! How the cost grows with the number of Services, and with the pods of each: processor time and peak memory.

use std::fmt;

use crate::report::Report;
use crate::table::{Events, RUNS, Row, Table, count};
use crate::world::GROWING;

/// With fewer instances the processor time, which Linux counts in hundredths of a second, is too short to compare.
const FEWEST_INSTANCES: usize = 1000;

/// The measured worlds, in the order of [`GROWING`].
pub struct Sizes<'a>(Vec<Size<'a>>);

struct Size<'a> {
    instances: usize,
    table: &'a Table,
}

impl<'a> Sizes<'a> {
    pub fn of(report: &'a Report) -> Self {
        let measured = GROWING.iter().filter_map(|world| {
            Some(Size { instances: world.instances(), table: report.table(world.name)? })
        });
        Self(measured.collect())
    }

    /// How many times as fast as the number of instances the processor time of a full sync grows: the steepest step from
    /// one world to the next.
    pub fn steepest_step(&self) -> Option<f64> {
        let mut steps = Vec::new();
        for (smaller, larger) in self.0.iter().zip(self.0.iter().skip(1)) {
            if smaller.instances < FEWEST_INSTANCES || larger.instances < smaller.instances {
                continue;
            }
            let instances = count(larger.instances) / count(smaller.instances);
            for run in RUNS {
                let rows = smaller.table.row(run).zip(larger.table.row(run));
                let processor = rows
                    .map(|(before, after)| after.used.processor_time / before.used.processor_time);
                steps.extend(processor.map(|processor| processor / instances));
            }
        }
        steps.into_iter().max_by(f64::total_cmp)
    }
}

impl fmt::Display for Sizes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        writeln!(f, "\n## Sizes\n\n{CELLS}\n")?;
        writeln!(f, "| world | {} | one pod changed |", RUNS.join(" | "))?;
        writeln!(f, "|---|{}---|", "---|".repeat(RUNS.len()))?;
        for Size { table, .. } in &self.0 {
            write!(f, "| {} |", table.name)?;
            for run in RUNS {
                write!(f, " {} |", table.row(run).map_or_else(String::new, full_sync))?;
            }
            writeln!(f, " {} |", table.events.as_ref().map_or_else(String::new, change))?;
        }
        Ok(())
    }
}

fn full_sync(row: &Row) -> String {
    format!("{:.2} s; {:.0} MB", row.used.processor_time, row.used.peak_memory)
}

fn change(events: &Events) -> String {
    format!("{:.1} ms; {:.0} MB", events.processor_time_of_each(), events.used.peak_memory)
}

const CELLS: &str = "Processor time, and peak memory of the process up to then. Ten Cloud Map namespaces, no quotas; \
                     otherwise as above.";
