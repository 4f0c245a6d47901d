//! `cargo bench -p testbed --bench callers` counts failed calls: third-party programs call a name in Cloud Map while its
//! tasks and pods change. For each story and caller the page has the failed calls, the longest silence, and the time from
//! a pod's readiness to its first call. `cargo test` runs a short form, which fails if a recipe has a failed call, or if a
//! roll-out without `preStop` has none. An argument selects the stories whose name contains it, and prints their tables.
//!
//! `network` makes the namespace, `dns` answers in it from the stand-in of Cloud Map, `server` is one task or pod.
//! `stage` is the world of one story, `stories` has what happens, `callers` who calls, and `record` and `page` what
//! comes out. `times` divides all times by one factor.

mod callers;
mod dns;
mod network;
mod page;
mod record;
mod server;
mod stage;
mod stories;
mod times;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use callers::{CALLERS, Caller};
use dns::Dns;
use page::Page;
use record::{Call, Summary};
use stage::Stage;
use stories::{STORIES, Story};
use testbed::programs;
use times::Times;
use tokio::sync::mpsc;

/// The stories that are played side by side: more would want more than two cores.
const SIDE_BY_SIDE: usize = 13;
/// The longest time in which every caller has to have called every name.
const WARM_UP: Duration = Duration::from_mins(1);

/// Which stories and callers, and how fast.
struct Form {
    times: Times,
    stories: Vec<Story>,
    callers: Vec<Caller>,
    is_short: bool,
    /// Whether every story is played, and the pages are written if no caller is missing.
    is_whole: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(form) = Form::of(&arguments) else { return ExitCode::SUCCESS };
    match run(&form) {
        Ok(code) => code,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(form: &Form) -> Result<ExitCode, String> {
    if !network::is_inside() {
        if let Err(why) = network::check() {
            programs::skip(&why);
            return Ok(ExitCode::SUCCESS);
        }
        return network::run_inside();
    }
    let binary = if form.is_short { programs::function() } else { programs::release_function()? };
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    runtime.block_on(form.measure(&binary))
}

impl Form {
    /// Reads the arguments. Returns `None` if they select another test.
    fn of(arguments: &[String]) -> Option<Self> {
        // Cargo says it to a benchmark alone.
        let is_short = !arguments.iter().any(|argument| argument == "--bench");
        let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
        let is_other_test = filter.is_some_and(|filter| !"callers".contains(filter.as_str()));
        if is_short && (is_other_test || arguments.iter().any(|argument| argument == "--list")) {
            return None;
        }
        let mut stories = STORIES.to_vec();
        let mut callers = CALLERS.to_vec();
        if is_short {
            stories.retain(|story| story.is_in_short_form);
            callers.retain(|caller| caller.is_in_short_form);
        } else if let Some(filter) = filter {
            stories.retain(|story| story.setting.name.contains(filter.as_str()));
        }
        let times = if is_short {
            Times { factor: 15, propagation: 30 }
        } else {
            Times { factor: 10, propagation: 60 }
        };
        Some(Self { times, stories, callers, is_short, is_whole: !is_short && filter.is_none() })
    }

    async fn measure(&self, binary: &Path) -> Result<ExitCode, String> {
        let mut callers = Vec::new();
        for caller in &self.callers {
            match caller.missing() {
                None => callers.push(*caller),
                Some(install) => programs::skip(&format!("{} is not here: {install}", caller.name)),
            }
        }
        let dns = Dns::start(self.times).await?;
        let mut page = Page { times: self.times, callers, rows: Vec::new() };
        for (wave, stories) in self.stories.chunks(SIDE_BY_SIDE).enumerate() {
            let first = u8::try_from(wave * SIDE_BY_SIDE).expect("few stories");
            let rows = self.play(stories, first, &page.callers, &dns, binary).await?;
            page.rows.extend(rows);
        }
        println!("{page}");
        let is_complete = page.callers.len() == self.callers.len();
        if self.is_whole && !is_complete {
            eprintln!("a caller is missing, so the pages stay as they are");
        } else if self.is_whole {
            page.write().map_err(|error| format!("cannot write the pages: {error}"))?;
        }
        let faults = page.faults();
        for fault in &faults {
            eprintln!("{fault}");
        }
        // The benchmark reports; the test judges.
        let has_failed = self.is_short && !faults.is_empty();
        Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Plays stories side by side.
    async fn play(
        &self,
        stories: &[Story],
        first_network: u8,
        callers: &[Caller],
        dns: &Dns,
        binary: &Path,
    ) -> Result<Vec<page::Row>, String> {
        let mut stages = Vec::new();
        for (network, story) in (first_network..).zip(stories) {
            let stage = Stage::set(story.setting, network, self.times, binary).await;
            stage.resolve_by(dns);
            stages.push(stage);
        }
        let prepared = stories.iter().zip(&stages).map(|(story, stage)| story.prepare(stage));
        futures_util::future::join_all(prepared).await;
        dns.settle().await;
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let mut running = Vec::new();
        for caller in callers {
            running.push(caller.start(&stages, self.times, &sender).await?);
        }
        warm_up(&stages, callers, &mut receiver).await?;
        let collected = tokio::spawn(async move {
            let mut calls = Vec::new();
            while let Some(call) = receiver.recv().await {
                calls.push(call);
            }
            calls
        });
        let began = SystemTime::now();
        let mut plays = Vec::new();
        for (story, stage) in stories.iter().zip(&stages) {
            let play = story.play(stage.clone());
            plays.push(tokio::spawn(async move {
                play.await;
                SystemTime::now()
            }));
        }
        let mut ends = Vec::new();
        for play in plays {
            ends.push(play.await.map_err(|error| error.to_string())?);
        }
        drop(running);
        drop(sender);
        let calls = collected.await.map_err(|error| error.to_string())?;
        let by_place = by_place(&calls);
        let mut rows = Vec::new();
        for ((story, stage), ended) in stories.iter().zip(&stages).zip(ends) {
            let lives = stage.lives();
            let summary = |caller: &Caller| {
                let calls = by_place.get(&(stage.domain(), caller.name));
                Summary::of(calls.map_or(&[], Vec::as_slice), &lives, began, ended)
            };
            rows.push(page::Row { story: *story, cells: callers.iter().map(summary).collect() });
            stage.strike();
        }
        Ok(rows)
    }
}

/// Waits until every caller had an answer from every name.
async fn warm_up(
    stages: &[Stage],
    callers: &[Caller],
    calls: &mut mpsc::UnboundedReceiver<Call>,
) -> Result<(), String> {
    let mut waiting = BTreeMap::new();
    for stage in stages {
        for caller in callers {
            waiting.insert((stage.domain().to_owned(), caller.name), String::new());
        }
    }
    let warm = async {
        while !waiting.is_empty() {
            let call = calls.recv().await.expect("callers run");
            let place = (call.story, call.caller);
            match call.outcome {
                Ok(_) => _ = waiting.remove(&place),
                Err(reason) => _ = waiting.entry(place).and_modify(|last| *last = reason),
            }
        }
    };
    let in_time = tokio::time::timeout(WARM_UP, warm).await;
    in_time.map_err(|_| format!("no answer in a minute, with the last reason: {waiting:#?}"))
}

fn by_place(calls: &[Call]) -> BTreeMap<(&str, &str), Vec<&Call>> {
    let mut by_place: BTreeMap<(&str, &str), Vec<&Call>> = BTreeMap::new();
    for call in calls {
        by_place.entry((call.story.as_str(), call.caller)).or_default().push(call);
    }
    by_place
}
