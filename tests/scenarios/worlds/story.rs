//! The stories: which moves a world has, in which order, and what is true of it from its beginning.

use std::fmt;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::moves::{Flows, Move};
use super::processes::PROCESSES;
use crate::multi_cluster::RECORDS_ALONE;

/// In milliseconds.
const PAUSES: &[u64] = &[0, 0, 10, 50, 200, 1000, 4000];
const SLOW_PAUSES: &[u64] = &[0, 1000, 4000, 10_000, 20_000];
const LONG_PAUSES: &[u64] = &[0, 1000, 60_000, 1_200_000, 3_600_000, 7_200_000, 14_400_000];

/// More settings of the last process, all but the first four in a clusterset alone: it may see or do less than the
/// others, and so takes out nothing that they keep.
const OTHER_SETTINGS: [&[(&str, &str)]; 6] = [
    &[],
    &[("POLICY", "create-only")],
    &[("POLICY", "upsert-only")],
    &[("DRY_RUN", "true")],
    &RECORDS_ALONE,
    &[("CLOUD_MAP_NAMESPACES", "shop"), ("CREATE_NAMESPACES", "false")],
];

/// What comes last in a round before trouble ends.
#[derive(Clone, Copy, Debug)]
pub enum Ending {
    /// A full sync in trouble.
    Sync,
    /// Messages about all annotated Services.
    Messages,
    Nothing,
}

/// How much happens in a story.
#[derive(Clone, Copy)]
pub struct Length {
    pub rounds: usize,
    pub is_long: bool,
    /// The reads of instances of a run, if it cannot read all of Cloud Map.
    pub max_instance_reads: Option<usize>,
}

/// The moves of a world, and how long operations take in it.
#[derive(Clone)]
pub struct Story {
    pub flows: Flows,
    pub is_apart: bool,
    pub other_settings: &'static [(&'static str, &'static str)],
    /// What is there before the function has run.
    pub before: Vec<Move>,
    pub is_converged: bool,
    pub operation_delay: u64,
    pub list_lag: u64,
    /// Whether hours pass, with a full sync every half an hour.
    pub is_long: bool,
    pub max_instance_reads: Option<usize>,
    /// What happens until trouble ends, and then again.
    pub rounds: Vec<Vec<(Move, u64)>>,
    pub ending: Ending,
    pub last: usize,
}

/// Random stories of all moves, of the flows `annotated`, `exported`, `obstructed` or `both` alone if they are named.
pub fn story(named: &str, length: Length) -> impl Strategy<Value = Story> + use<> {
    let flows =
        |has_annotated, has_exported| Flows { has_annotated, has_exported, is_obstructed: false };
    let annotated = flows(true, false);
    let exported = flows(false, true);
    let both = flows(true, true);
    let obstructed = Flows { is_obstructed: true, ..exported };
    let of_flows = match named {
        "annotated" => Just(annotated).boxed(),
        "exported" => Just(exported).boxed(),
        "obstructed" => Just(obstructed).boxed(),
        "both" => Just(both).boxed(),
        _ => prop_oneof![
            5 => Just(annotated),
            2 => Just(exported),
            2 => Just(obstructed),
            1 => Just(both),
        ]
        .boxed(),
    };
    of_flows.prop_flat_map(move |flows| of_flows_alone(flows, length))
}

fn of_flows_alone(flows: Flows, length: Length) -> impl Strategy<Value = Story> {
    let pauses = if length.is_long { [LONG_PAUSES; 3] } else { [PAUSES, PAUSES, SLOW_PAUSES] };
    let is_apart = prop::bool::weighted(0.4).prop_map(move |it| it && !flows.has_annotated);
    let other_settings =
        if flows.has_exported { &OTHER_SETTINGS[..] } else { &OTHER_SETTINGS[..4] };
    let rounds = (flows.any(), select(pauses.to_vec())).prop_flat_map(move |(moves, pauses)| {
        vec(vec((moves, select(pauses)), 2..24), length.rounds)
    });
    let endings = &[Ending::Sync, Ending::Sync, Ending::Messages, Ending::Nothing][..];
    let all = (
        vec(flows.before(), 2..10),
        (prop::bool::weighted(0.8), is_apart, select(other_settings)),
        select(&[30, 30, 300, 3000, 20_000, 90_000][..]),
        select(&[0, 0, 0, 500][..]),
        rounds,
        (select(endings), 0..PROCESSES),
    );
    all.prop_map(move |(before, functions, operation_delay, list_lag, rounds, (ending, last))| {
        let (is_converged, is_apart, other_settings) = functions;
        Story {
            flows,
            is_apart,
            other_settings,
            before,
            is_converged,
            operation_delay,
            list_lag,
            is_long: length.is_long,
            max_instance_reads: length.max_instance_reads,
            rounds,
            ending,
            last,
        }
    })
}

impl fmt::Display for Story {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operations = self.operation_delay;
        let lag = self.list_lag;
        if self.is_apart {
            writeln!(text, "Each cluster has a function of its own.")?;
        }
        if !self.other_settings.is_empty() {
            writeln!(text, "The last process has {:?}.", self.other_settings)?;
        }
        writeln!(text, "Operations take {operations} ms, and lists lag by {lag} ms. Before:")?;
        self.before.iter().try_for_each(|it| writeln!(text, "- {it}"))?;
        if self.is_converged {
            writeln!(text, "- a full sync")?;
        }
        for steps in &self.rounds {
            writeln!(text, "Then:")?;
            steps.iter().try_for_each(|(it, pause)| writeln!(text, "- {it}; {pause} ms"))?;
            writeln!(text, "{:?}. Trouble ends, and process {} syncs.", self.ending, self.last)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Story {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, text)
    }
}
