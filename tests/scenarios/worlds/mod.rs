//! One world, one oracle: random worlds in which everything can change that the function meets, played through the real
//! handler and clients.
//!
//! `world` is plain data: clusters with their Services and endpoints, Cloud Map's namespaces, the settings of the
//! function; `clusterset` has what is exported. `moves` has a table of all that can happen, each with a generator, a
//! sentence and an effect, which changes the data and projects it onto the stand-ins. A `story` is drawn of them. `play`
//! interleaves its moves with invocations (`processes`) in paused time; then trouble ends, and full syncs must reach what
//! `oracle` allows (`rest`): `publish` for annotated Services, `clusterset` for exports and imports.
//! `oracle::invariants` and the ledger in `oracle::clusterset` look every few milliseconds. Neither knows any code of
//! the function. A world has annotated Services, exports, or both.
//!
//! To add a move: a function in a file of `moves` that returns a strategy of `Move`, and its line in the table of that
//! file. To add a rule at rest: a section in `oracle/publish.rs` or `oracle/clusterset.rs`, called by `at_rest`. To add an
//! invariant: a method of the flow's ledger, called by `look`.
//!
//! `cargo test --test scenarios worlds::play` plays the first seeds. `WORLDS=5000` plays so many, `WORLDS_FIRST` begins
//! with that seed, and `WORLD=17` repeats one and prints its moves and reports, as drawn and as cut down;
//! `FLOWS=annotated`, `exported` or `both` plays those flows alone, and `obstructed` exports and imports with Kubernetes
//! namespaces that go and objects of other clients in the way. Two of three moves are of the kinds that
//! `KINDS=guard,service_is_deleted` names, each as often as another: so a rule is looked for that needs them. `UNEVEN=1`
//! gives each world weights of its own.
//! `WEEKS=1000 cargo test --test scenarios worlds::weeks_` plays worlds in which hours pass between the moves, and all
//! comes to rest seven times. A world that breaks a rule is cut down to the moves that are needed for it; its seed goes
//! into `FOUND`.
//!
//! `faults` plays short stories of the same worlds in which one call fails, each call in each way.
//!
//! Over a night: `WORLDS_FIRST=1000000 WORLDS=200000 cargo test --profile bench --test scenarios worlds::play_`. In a
//! second a core plays about 50 worlds of annotated Services and 22 of exports so, and 12 and 5 in the test profile, of
//! about twelve invocations each. Of that time the SDK has a fifth, the function two fifths and the stand-ins, which
//! trust signatures here (`Identities::trust`), a fifth, with no place of more than 4 %.

mod clusterset;
pub mod faults;
mod moves;
mod oracle;
pub mod play;
mod processes;
mod rest;
mod story;
pub mod world;

use std::sync::atomic::{AtomicBool, Ordering};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use story::Length;

/// The worlds that are played if nothing else is asked for.
const WORLDS: u64 = 200;
/// The weeks of which two days are played if nothing else is asked for.
const WEEKS: u64 = 4;
/// The worlds in which no process has the time to read all of Cloud Map, if nothing else is asked for.
const FEW_READS: u64 = 10;
/// The tests that share the worlds, which run side by side.
const TESTS: u64 = 2;
/// A failing world is cut down in at most so many plays, unless `CUTS` has another number.
const CUTS: u32 = 400;
/// No more worlds are played after so many that broke a rule.
const MOST: usize = 5;

/// Whether the reports of invocations are printed.
static IS_SHOWN: AtomicBool = AtomicBool::new(false);

/// Worlds that broke a rule once: their flows, the seed, and what it found. A seed belongs to the table of moves: if that
/// changes, a scenario takes its place.
const FOUND: &[(&str, u64, &str)] = &[
    ("exported", 70_004_389, RECORD_TAKEN),
    ("exported", 70_008_560, RECORD_TAKEN),
    (
        "exported",
        2_401_002,
        "a second look lacked the namespace of the records, and took a new member's part out",
    ),
    ("", 200_067_382, "a derived Service got an owner that a person had just deleted"),
    (
        "",
        5_119_047,
        "a run that had read Cloud Map before a served member had its record took its part out",
    ),
    (
        "",
        7_110_909,
        "a name was empty for a run: the guard held its former Service no longer, and kept the name",
    ),
    ("", 205_017_556, "the record of an exporter said that it only imports, and an import ended"),
];
const RECORD_TAKEN: &str = "a run that had read a cluster before it began to export, and its records after, took the \
    record of the export away";

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Plays the world of a seed; returns the problem and the moves that lead to it.
fn play((flows, seed): (&str, u64), length: Length) -> Result<(), String> {
    let cuts = number("CUTS").and_then(|it| it.try_into().ok()).unwrap_or(CUTS);
    let config = Config { failure_persistence: None, max_shrink_iters: cuts, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let story = story::story(flows, length).new_tree(&mut runner).expect("a story");
    if number("WORLD").is_some() {
        show(&story.current());
    }
    match runner.run_one(story, |story| play::play(&story).map_err(TestCaseError::fail)) {
        Ok(_) => Ok(()),
        Err(TestError::Fail(problem, story)) => {
            if number("WORLD").is_some() {
                show(&story);
            }
            Err(format!("world {seed}, cut down:\n{story}\n{problem}"))
        }
        Err(TestError::Abort(problem)) => Err(format!("world {seed}: {problem}")),
    }
}

/// Plays a story, and prints its moves and the reports of its invocations.
fn show(story: &story::Story) {
    println!("{story}");
    IS_SHOWN.store(true, Ordering::Relaxed);
    drop(play::play(story));
    IS_SHOWN.store(false, Ordering::Relaxed);
}

/// Plays so many seeds, or one, of which every other one belongs to a test.
fn play_all(of_test: u64, (unit, count): (&str, u64), length: Length) {
    let (first, count) = match number("WORLD") {
        Some(seed) => (seed, 1),
        None => (number("WORLDS_FIRST").unwrap_or(1), count),
    };
    let asked = std::env::var("FLOWS").unwrap_or_default();
    let has_found =
        number("WORLD").is_none() && !length.is_long && length.max_instance_reads.is_none();
    let found = FOUND.iter().filter(|_| has_found).map(|(flows, seed, _)| (*flows, *seed));
    let worlds = found.chain((first..first + count).map(|seed| (asked.as_str(), seed)));
    let mut played = 0;
    let mut broken = Vec::new();
    for (flows, seed) in worlds.filter(|(_, seed)| seed % TESTS == of_test) {
        played += 1;
        if let Err(problem) = play((flows, seed), length) {
            let problem = format!(
                "after {played} {unit}: {problem}\nthis world breaks a rule: WORLD={seed} repeats it"
            );
            println!("{problem}");
            broken.push(problem);
            if broken.len() >= MOST {
                break;
            }
        }
    }
    println!("{of_test}: {played} {unit}");
    assert!(broken.is_empty(), "{} of {played} {unit}:\n{}", broken.len(), broken.join("\n\n"));
}

fn play_worlds(of_test: u64) {
    let count = number("WORLDS").unwrap_or(WORLDS);
    play_all(
        of_test,
        ("worlds", count),
        Length { rounds: 1, is_long: false, max_instance_reads: None },
    );
}

/// Hours pass in them, with a full sync every half an hour; the short form has two days or so of each.
fn play_weeks(of_test: u64) {
    let rounds = if number("WEEKS").is_some() { 7 } else { 2 };
    let count = number("WEEKS").unwrap_or(WEEKS);
    play_all(of_test, ("weeks", count), Length { rounds, is_long: true, max_instance_reads: None });
}

/// Each run reads three services, and those that its changes rest on.
#[test]
fn few_reads() {
    let count = number("FEW_READS").unwrap_or(FEW_READS);
    for of_test in 0..TESTS {
        let length = Length { rounds: 1, is_long: false, max_instance_reads: Some(3) };
        play_all(of_test, ("worlds of few reads", count), length);
    }
}

#[test]
fn play_even_worlds() {
    play_worlds(0);
}

#[test]
fn play_odd_worlds() {
    play_worlds(1);
}

#[test]
fn weeks_even() {
    play_weeks(0);
}

#[test]
fn weeks_odd() {
    play_weeks(1);
}
