//! The tables of what callers saw, as Markdown: the whole for README.md beside this file, and the failed calls of the
//! recipes for docs/ecs-to-eks.md.

use std::fmt::{self, Write};
use std::io;

use crate::callers::Caller;
use crate::record::Summary;
use crate::stories::{Expected, Story};
use crate::times::Times;

/// The marks around the tables of a page.
const BEGIN: &str = "<!-- callers -->\n";
const END: &str = "<!-- end of callers -->";

/// The results of all stories.
pub struct Page {
    pub times: Times,
    pub callers: Vec<Caller>,
    pub rows: Vec<Row>,
}

/// The results of a story, one for each caller of the page.
pub struct Row {
    pub story: Story,
    pub cells: Vec<Summary>,
}

impl Page {
    /// Lists the violations: a recipe with a failed call, a broken recipe without one, a caller without a call.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for row in &self.rows {
            let mut failed = 0;
            for (caller, cell) in self.callers.iter().zip(&row.cells) {
                failed += cell.failed;
                let place = format!("{}: {}", row.story.title, caller.name);
                if cell.calls == 0 {
                    faults.push(format!("{place} made no call"));
                }
                if row.story.expected == Expected::NoFailure
                    && caller.follows_the_name
                    && cell.failed > 0
                {
                    let reason = cell.reason.as_deref().unwrap_or_default();
                    faults.push(format!(
                        "{place}: {} of {} calls failed: {reason}",
                        cell.failed, cell.calls
                    ));
                }
            }
            if row.story.expected == Expected::Failures && failed == 0 {
                faults.push(format!("{}: no call failed, so the stage sees none", row.story.title));
            }
        }
        faults
    }

    /// Writes the tables into README.md beside this file and into docs/ecs-to-eks.md.
    pub fn write(&self) -> io::Result<()> {
        replace("crates/testbed/benches/callers/README.md", &self.to_string())?;
        replace("docs/ecs-to-eks.md", &self.for_users())
    }

    /// A table with a row for each story that is chosen and a column for each caller.
    fn table(
        &self,
        head: &str,
        is_chosen: impl Fn(&Story) -> bool,
        cell: impl Fn(&Summary) -> String,
    ) -> String {
        let names: Vec<&str> = self.callers.iter().map(|caller| caller.name).collect();
        let names = names.join(" | ");
        let mut text =
            format!("| {head} | {names} |\n|---|{}\n", "---|".repeat(self.callers.len()));
        for row in self.rows.iter().filter(|row| is_chosen(&row.story)) {
            let cells: Vec<String> = row.cells.iter().map(&cell).collect();
            writeln!(text, "| {} | {} |", row.story.title, cells.join(" | "))
                .expect("text takes all");
        }
        text
    }

    /// The recipes and what breaks them, in the share of calls that failed.
    fn for_users(&self) -> String {
        self.table(
            "Failed calls",
            |story| story.is_for_users,
            |cell| match cell.failed {
                0 => "0".to_owned(),
                failed => percent(failed, cell.calls),
            },
        )
    }

    /// The longest time from a pod's readiness to the first call that it answered.
    fn first_call(&self, cell: &Summary) -> String {
        let answered = cell.until_first_call.iter().flatten();
        let Some(longest) = answered.clone().max() else {
            let is_about_none = cell.until_first_call.is_empty();
            return if is_about_none { String::new() } else { "never".to_owned() };
        };
        let never = cell.until_first_call.len() - answered.count();
        let never = if never == 0 { String::new() } else { format!(", {never} never") };
        format!("{}{never}", self.seconds(*longest))
    }

    fn seconds(&self, time: std::time::Duration) -> String {
        format!("{:.0} s", self.times.in_reality(time))
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |_: &Story| true;
        let failed = self.table("Failed calls, longest silence", all, |cell| match cell.failed {
            0 => "0".to_owned(),
            failed => {
                format!("{}, {}", percent(failed, cell.calls), self.seconds(cell.longest_silence))
            }
        });
        let first = self.table("From Ready to the first call", all, |cell| self.first_call(cell));
        let last = self.table("From the end to the last call", all, |cell| {
            let longest = cell.until_last_call.iter().max();
            longest.map_or_else(String::new, |longest| self.seconds(*longest))
        });
        let cells = self.rows.iter().flat_map(|row| &row.cells);
        let calls: usize = cells.clone().map(|cell| cell.calls).sum();
        let failures: usize = cells.map(|cell| cell.failed).sum();
        let Times { factor, propagation } = self.times;
        writeln!(
            f,
            "{calls} calls, {failures} of them failed. All times are those of the real world; on the stage they are \
             divided by {factor}: schedule, operations, propagation, TTL, start of a pod, `preStop`, \
             `minReadySeconds`, and what is configured in a caller. Not divided are the seconds in which the function \
             works, the TTL's whole seconds, and a call's timeout of one second. A server of the DNS sees a change \
             after {propagation} s at the latest. A name has four tasks or pods. A \
             caller makes one call at a time, so one that waits makes fewer.\n"
        )?;
        writeln!(f, "{failed}\n{first}\n{last}")?;
        for caller in &self.callers {
            writeln!(f, "- {}: {}", caller.name, caller.configuration)?;
        }
        Ok(())
    }
}

fn percent(part: usize, whole: usize) -> String {
    let ratio = |number: usize| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    format!("{:.1} %", 100.0 * ratio(part) / ratio(whole))
}

/// Puts a text between the marks of a page.
fn replace(page: &str, text: &str) -> io::Result<()> {
    let path = format!("{}/{page}", testbed::ROOT);
    let before = std::fs::read_to_string(&path)?;
    let (Some(begin), Some(end)) = (before.find(BEGIN), before.find(END)) else {
        return Err(io::Error::other(format!("{page} has no {BEGIN}")));
    };
    let head = &before[..begin + BEGIN.len()];
    let tail = &before[end..];
    std::fs::write(&path, format!("{head}{text}{tail}"))
}
