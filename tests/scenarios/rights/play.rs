//! Takes one right away in a situation of the single faults, on a world and a runtime of its own.

use std::collections::BTreeMap;

use serde_json::Value;
use tokio::time::sleep;

use crate::worlds::faults::outcome::{self, State};
use crate::worlds::faults::play::{REST, reached};
use crate::worlds::faults::situation::{Situation, WEB};
use crate::worlds::play::{Scene, on_a_runtime};
use testbed::cloud_map::{Fault, FaultKind};

/// The function serves one cluster only.
pub const ALONE: &[(&str, &str)] = &[("CLUSTERS", "blue")];

/// `web` has a pod more.
pub fn one_more() -> Situation {
    let new = Situation::new("one pod more", |scene| scene.give(WEB, &[1, 2, 3]));
    Situation { settings: ALONE, ..new }
}

/// `web` has a pod less.
pub fn one_less() -> Situation {
    let new = Situation::new("one pod less", |scene| scene.give(WEB, &[1]));
    Situation { settings: ALONE, ..new }
}

/// A right, a situation that needs it, and the line that names it.
pub struct Case {
    /// As the refusal has it: `servicediscovery:ListInstances`.
    pub right: String,
    pub situation: Situation,
    pub deny: Box<dyn Fn(&Scene)>,
    pub allow: Box<dyn Fn(&Scene)>,
    /// What the line names besides: the thing that the run could not read or change.
    pub thing: &'static str,
}

impl Case {
    /// A call to Cloud Map that is refused.
    pub fn of_call(operation: &'static str, situation: Situation, thing: &'static str) -> Self {
        let right = format!("servicediscovery:{operation}");
        Self::of_fault(right, operation, FaultKind::AccessDenied, situation, thing)
    }

    /// A call to Cloud Map that is refused for the lack of some right.
    pub fn of_fault(
        right: String,
        operation: &'static str,
        kind: FaultKind,
        situation: Situation,
        thing: &'static str,
    ) -> Self {
        let deny = move |scene: &Scene| {
            scene.fleet.cloud_map.inject(Fault::on(operation, kind.clone()).always());
        };
        let allow = |scene: &Scene| scene.fleet.cloud_map.heal();
        Self { right, situation, deny: Box::new(deny), allow: Box::new(allow), thing }
    }
}

/// Plays the cases, and says of each that broke what it showed.
pub fn denied(cases: &[Case]) {
    let mut wanted: BTreeMap<&str, State> = BTreeMap::new();
    let broken: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let reached = || on_a_runtime(reached(&case.situation));
            let wanted = wanted.entry(case.situation.name).or_insert_with(reached);
            let problem = on_a_runtime(played(case, wanted)).err()?;
            Some(format!("{} in {}: {problem}", case.right, case.situation.name))
        })
        .collect();
    assert!(
        broken.is_empty(),
        "{} of {} broke:\n{}",
        broken.len(),
        cases.len(),
        broken.join("\n\n")
    );
}

async fn played(case: &Case, wanted: &State) -> Result<(), String> {
    let mut scene = Scene::of(&case.situation).await;
    let before = State::of(&scene);
    scene.changed(&case.situation).await;
    outcome::keep(&mut scene, &before, wanted, false);
    (case.deny)(&scene);
    scene.behave(|it| it.discovery_on_any_host = true);
    let run = scene.run((case.situation.cause)(), false).await?;
    // Each line of the log with its level, its message and what it is about.
    let lines = run.into_iter().flat_map(|(_, lines)| lines);
    let named = name_the_right(case, &lines.map(|line| short(&line)).collect::<Vec<_>>());
    sleep(REST).await;
    (case.allow)(&scene);
    let rest = scene.leads_to(&case.situation, wanted).await;
    named.and(rest.map(drop)).and(outcome::untouched(&mut scene))
}

fn short(line: &str) -> String {
    let line: Value = serde_json::from_str(line).expect("a line of JSON");
    let fields = ["level", "message", "cluster", "cloud_map_service", "instance"];
    let texts = fields.iter().filter_map(|field| line[field].as_str());
    texts.collect::<Vec<_>>().join(" | ")
}

/// Each thing that needs the right has one line, in which both are named.
fn name_the_right(case: &Case, lines: &[String]) -> Result<(), String> {
    // SQS has its actions in lower case.
    let right = case.right.to_lowercase();
    let names = |line: &&String| line.to_lowercase().contains(&right);
    let naming: Vec<&String> = lines.iter().filter(names).collect();
    if naming.len() == 1 && naming[0].contains(case.thing) {
        return Ok(());
    }
    let thing = case.thing;
    let all = lines.join("\n  ");
    Err(format!("{} lines name the right, not one with {thing:?}:\n  {all}", naming.len()))
}
