//! The calls that callers made, and what they amount to beside what happened to the pods.

use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime};

use crate::stage::Life;

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    pub caller: &'static str,
    pub story: String,
    pub began: SystemTime,
    pub ended: SystemTime,
    /// The task or pod that answered, or why none did.
    pub outcome: Result<Ipv4Addr, String>,
}

/// The calls of one caller in one story, compared with the tasks and pods.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub calls: usize,
    pub failed: usize,
    /// The longest time without a success.
    pub longest_silence: Duration,
    /// From each pod's readiness to the first call that it answered; `None` if it never answered one.
    pub until_first_call: Vec<Option<Duration>>,
    /// From each pod's end to the last call that it answered.
    pub until_last_call: Vec<Duration>,
    /// The most frequent reason of a failure.
    pub reason: Option<String>,
}

impl Summary {
    /// Compares calls with the lives of tasks and pods, both from a moment on.
    pub fn of(calls: &[&Call], lives: &[Life], from: SystemTime, to: SystemTime) -> Self {
        let mut summary = Self::default();
        let mut last_success = from;
        let mut reasons = Vec::new();
        for call in calls.iter().filter(|call| call.began >= from && call.began <= to) {
            summary.calls += 1;
            match &call.outcome {
                Ok(_) => {
                    let silence = call.ended.duration_since(last_success).unwrap_or_default();
                    summary.longest_silence = summary.longest_silence.max(silence);
                    last_success = call.ended.max(last_success);
                }
                Err(reason) => {
                    summary.failed += 1;
                    reasons.push(reason.clone());
                }
            }
        }
        let silence = to.duration_since(last_success).unwrap_or_default();
        summary.longest_silence = summary.longest_silence.max(silence);
        summary.reason = most_frequent(reasons);
        for life in lives {
            let answered = calls.iter().filter(|call| call.outcome == Ok(life.address));
            if life.ready >= from {
                let first = answered.clone().map(|call| call.ended).min();
                let time = first.map(|first| first.duration_since(life.ready).unwrap_or_default());
                summary.until_first_call.push(time);
            }
            if let Some(ended) = life.ended.filter(|ended| *ended >= from) {
                let last = answered.map(|call| call.ended).max();
                let time = last.and_then(|last| last.duration_since(ended).ok());
                summary.until_last_call.push(time.unwrap_or_default());
            }
        }
        summary
    }
}

fn most_frequent(mut reasons: Vec<String>) -> Option<String> {
    reasons.sort();
    let runs = reasons.chunk_by(|one, other| one == other);
    runs.max_by_key(|run| run.len()).map(|run| run[0].clone())
}
