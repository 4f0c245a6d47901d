//! The progress on standard error, if that is a terminal: one line with the command and the elapsed seconds. It is
//! cleared before the answer is printed.

use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use tokio::time::{Instant, interval};

use super::outside::{Output, escape};

/// Moves the cursor to the start of the line, and clears the line.
const CLEAR: &str = "\r\x1b[K";

/// Waits for the work, and shows its label meanwhile.
pub async fn show_during<T>(label: &str, work: impl Future<Output = T>) -> T {
    if !io::stderr().is_terminal() {
        return work.await;
    }
    let label = escape(label, Output::Terminal);
    let (start, mut every) = (Instant::now(), interval(Duration::from_secs(1)));
    let _line = Line;
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = every.tick() => {
                write_terminal(&format!("{CLEAR}{label} … {} s", start.elapsed().as_secs()));
            }
        }
    }
}

/// The line of a work. It is cleared when the work ends, also if its time is over.
struct Line;

impl Drop for Line {
    fn drop(&mut self) {
        write_terminal(CLEAR);
    }
}

/// Writes to the terminal. An error is ignored, since the command must not fail for it.
fn write_terminal(text: &str) {
    let mut terminal = io::stderr().lock();
    let _ = terminal.write_all(text.as_bytes()).and_then(|()| terminal.flush());
}
