//! What is going on, on standard error while that is a terminal: one line, counted in seconds and gone
//! before the answer comes.

use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use tokio::time::{Instant, interval};

use super::format::printable;

/// Back to the start of the line, and the line empty.
const CLEAR: &str = "\r\x1b[K";

/// Waits for the work, and says meanwhile what it is.
pub async fn during<T>(what: &str, work: impl Future<Output = T>) -> T {
    if !io::stderr().is_terminal() {
        return work.await;
    }
    let what = printable(what);
    let (start, mut every) = (Instant::now(), interval(Duration::from_secs(1)));
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => {
                tell(CLEAR);
                return done;
            }
            _ = every.tick() => tell(&format!("{CLEAR}{what} … {} s", start.elapsed().as_secs())),
        }
    }
}

/// A terminal that takes nothing more is no reason to stop.
fn tell(text: &str) {
    let mut terminal = io::stderr().lock();
    let _ = terminal.write_all(text.as_bytes()).and_then(|()| terminal.flush());
}
