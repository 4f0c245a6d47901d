//! From Kubernetes into Cloud Map, in two passes:
//!
//! ```text
//! observe ─> plan ─> apply additions ─> observe again ─> plan again ─> apply removals ─> report
//! ```
//!
//! A cluster's run is [`publish()`]; [`Execution::carry_out`] is its part from the plan on, which purges and the records of
//! a clusterset also use.
//! [`observe`] makes all reads, [`plan`] has all rules, [`passes`] is the loop over both as a pure machine of
//! independent turns, and [`apply`] makes one change by one call. Many turns are taken side by side (`turn`), in an
//! order that no two runs have in common. [`report`] is the output for a person.

pub mod apply;
pub mod exports;
pub mod observe;
pub mod passes;
pub mod plan;
pub mod report;
#[cfg(test)]
mod tests;
mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use crate::cloud_map::Urgency;
use crate::model::{
    CloudMapService, Desired, Notice, Selection, ServiceKey, ServiceRef, Timestamp,
};
use crate::report::{ClusterReport, Mode};
use crate::time::Deadline;
use observe::{First, Lack, SharedRegistry, World};
use passes::{FirstPart, Results, Turn};
use plan::{
    Adoption, Change, ChangesByService, GuardBaseline, HeldBack, Observation, Plan, RereadScope,
    Stage,
};
use report::ChangeLines;

pub use plan::Task;
use turn::Beginnings;
pub use turn::shuffle;

/// The number of turns taken side by side. Most of them wait for an operation to end; the client limits the calls.
const TURNS_SIDE_BY_SIDE: usize = 256;
/// With more registrations than this a run takes longer than some seconds at the default rates.
const MANY: usize = 200;

/// The options for carrying out a plan.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether the plan is carried out, or only made.
    pub mode: Mode,
    /// No new work begins after this time.
    pub deadline: Deadline,
    /// The start of the run, which sets the order of the turns.
    pub now: Timestamp,
    /// Whether all calls of the run go before other calls to Cloud Map.
    pub urgency: Urgency,
    /// The start of the read that the plan rests on.
    pub observed: Instant,
    /// Whether the plan registers many instances.
    pub is_bulk: bool,
    /// Whether a person asked for the run, which also tries what was refused a moment ago.
    pub is_direct: bool,
}

/// A plan that was carried out, or only made.
pub struct Published {
    pub report: ClusterReport,
    pub held_back: Vec<HeldBack>,
    /// The Cloud Map services that were created.
    pub created: BTreeMap<ServiceKey, CloudMapService>,
    /// The Services with an instance after their turns.
    pub standing: BTreeSet<ServiceRef>,
}

/// Makes Cloud Map match the claims of the selected Services of a cluster, or plans it. Also returns the notices for
/// the owners of its Services.
///
/// # Errors
/// Returns an error if the cluster or the registry could not be read completely. It has the changes of a first part;
/// else nothing was changed.
pub async fn publish(
    world: &World<'_>,
    selection: &Selection,
    adoption: Option<&Adoption>,
    options: Options,
) -> Result<(ClusterReport, Vec<Notice>), Failed> {
    let task = adoption.map_or(Task::Sync, Task::Adopt);
    let is_whole = *selection == Selection::Everything && task.is_sync();
    let (mut observed, mut made) = if is_whole && options.mode == Mode::Sync {
        Box::pin(observe_in_two_parts(world, options)).await?
    } else {
        (observe_in_time(world, selection, options.deadline).await?, FirstPart::default())
    };
    let plan = plan_all(task, &mut observed, &mut made);
    let execution = Execution::of_cluster(task, world, options);
    let execution = Execution { made: Some(&made), ..execution };
    let published = execution.carry_out_plan(&observed, plan).await;
    let desired = &observed.desired;
    let mut notices = report::notices(&published.held_back, desired);
    notices.extend(report::news(&published.report.services, desired, options.now));
    Ok((published.report, notices))
}

/// A task, with the world that is read for it and the options for carrying it out.
#[derive(Clone, Copy)]
pub struct Execution<'a> {
    pub task: Task<'a>,
    /// The Cloud Map that the task changes.
    pub registry: &'a SharedRegistry,
    pub options: Options,
    /// The cluster; `None` if the task rests on Cloud Map alone.
    world: Option<&'a World<'a>>,
    /// The changes that were made before.
    made: Option<&'a FirstPart>,
}

impl<'a> Execution<'a> {
    pub fn of_cluster(task: Task<'a>, world: &'a World<'a>, options: Options) -> Self {
        Self { world: Some(world), ..Self::of_registry(task, world.registry, options) }
    }

    pub fn of_registry(task: Task<'a>, registry: &'a SharedRegistry, options: Options) -> Self {
        Self { task, registry, options, world: None, made: None }
    }

    /// Plans the task on the observation, and carries the plan out unless only the plan is asked for.
    pub async fn carry_out(&self, observation: &Observation) -> Published {
        self.carry_out_plan(observation, self.task.plan(observation)).await
    }

    /// Carries out a plan of the task on the observation, unless only the plan is asked for.
    async fn carry_out_plan(&self, observation: &Observation, mut plan: Plan) -> Published {
        let cluster = observation.owner.cluster.as_str();
        if self.options.mode != Mode::Sync {
            let held_back = plan.held_back.clone();
            let (report, created) = (report::of_plan(cluster, plan), BTreeMap::new());
            let report = report::with_reads(report, observation);
            return Published { report, held_back, created, standing: BTreeSet::new() };
        }
        let is_judged = self.task.is_sync();
        let judged =
            is_judged.then(|| GuardBaseline::of(observation, &plan)).flatten().map(Arc::new);
        let changes = std::mem::take(&mut plan.changes);
        let (mut results, mut lines) = (Results::default(), ChangeLines::default());
        lines.extend(self.made.iter().flat_map(|made| &made.superseded).cloned());
        let judged = judged.as_ref();
        let mut without_note = BTreeSet::new();
        self.take_turns(observation, changes, judged, |mut of_turn| {
            without_note.extend(of_turn.without_note());
            lines.extend(std::mem::take(&mut of_turn.applied));
            results.extend(of_turn);
        })
        .await;
        lines.sort();
        plan.guard = results.guard.or(plan.guard);
        plan.add_held_back(results.held_back);
        if !without_note.is_empty() {
            plan.without_notes(without_note);
        }
        let held_back = plan.held_back.iter().chain(lines.held_back()).cloned().collect();
        let report = report::with_reads(report::of_results(cluster, plan, lines), observation);
        let Results { created, standing, .. } = results;
        Published { report, held_back, created, standing }
    }

    /// Takes turns side by side, and hands the results of each to `on_end`. The failure of one Service stops no other, and
    /// near the deadline nothing new begins.
    async fn take_turns(
        &self,
        observation: &Observation,
        changes: ChangesByService,
        judged: Option<&Arc<GuardBaseline>>,
        mut on_end: impl FnMut(Results),
    ) {
        let registers = |change: &&Change| change.stage() == Stage::Register;
        let registrations = changes.values().flatten().filter(registers).count();
        let options = Options { is_bulk: registrations > MANY, ..self.options };
        let turns = passes::by_turn(changes, judged);
        let turns = shuffle(options.now, turns).into_iter();
        let beginnings = &Beginnings::default();
        let turns = turns.map(|changes| {
            let turn = Turn::of(self.task, observation, changes, judged);
            turn::run(self, turn, options, beginnings)
        });
        let mut turns = stream::iter(turns).buffer_unordered(TURNS_SIDE_BY_SIDE);
        while let Some(of_turn) = turns.next().await {
            on_end(of_turn);
        }
    }

    /// Reads again the data that the open changes of a turn rest on.
    ///
    /// # Errors
    /// Returns an error if the cluster or the registry could not be read.
    pub async fn read(
        &self,
        mut observation: Observation,
        scope: &RereadScope,
    ) -> Result<Observation, observe::Error> {
        if let Some(world) = self.world {
            return world.observe_again(observation, scope).await;
        }
        self.registry.read_again(&mut observation.registry, &scope.keys).await?;
        Ok(observation.reread(scope))
    }

    /// Reads the endpoints of Services again.
    ///
    /// # Errors
    /// Returns an error if the cluster could not be read.
    pub async fn read_endpoints(&self, services: Desired) -> Result<Desired, observe::Error> {
        match self.world {
            Some(world) => world.observe_endpoints(services).await,
            None => Ok(services),
        }
    }
}

async fn observe_in_time(
    world: &World<'_>,
    selection: &Selection,
    deadline: Deadline,
) -> Result<Observation, observe::Error> {
    deadline.until_stop(Box::pin(world.observe(selection))).await?
}

// The first part of a full sync. Most of its time goes into reading services in which nothing is to be done: 1,000
// take 40 seconds at half of an account's rate. What seems to be missing in Cloud Map, by the mirror of the process,
// is read and registered meanwhile:
//
// ```text
// cluster, mirror ─> names that lack something ─> read them ─> plan ─> apply additions ─┐
//                                                     └─> read all others ─> plan ──────┴─> all else, as without it
// ```
//
// The plan of the whole sync is the one that would have been made without the first part (`passes::FirstPart`). So the
// guard, the order of removals and the report are the same.

/// The error of a sync.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The cluster or its registry could not be read, and nothing was changed.
    #[error(transparent)]
    Unread(#[from] observe::Error),
    /// The same, after a first part of the sync has made changes.
    #[error("Cloud Map could not be read to the end")]
    Rest {
        #[source]
        error: observe::Error,
        made: Box<ClusterReport>,
    },
}

/// Reads everything, and meanwhile makes the first part, if this process knows it.
///
/// # Errors
/// Returns an error if the cluster or the registry could not be read completely.
async fn observe_in_two_parts(
    world: &World<'_>,
    options: Options,
) -> Result<(Observation, FirstPart), Failed> {
    let deadline = options.deadline;
    let first = deadline.until_stop(Box::pin(world.observe_first())).await;
    let First { lack, cluster } = first.map_err(observe::Error::from)??;
    let rest = Box::pin(world.observe_all(&Selection::Everything, cluster));
    let (made, observed) =
        tokio::join!(Box::pin(add(world, lack, options)), deadline.until_stop(rest));
    match observed.map_err(observe::Error::from).and_then(|observed| observed) {
        Ok(observed) => Ok((observed, made)),
        Err(error) => Err(match report_of(world, made) {
            Some(made) => Failed::Rest { error, made: Box::new(made) },
            None => error.into(),
        }),
    }
}

/// Makes the additions. If what they rest on cannot be read, the read of all says so.
async fn add(world: &World<'_>, lack: Option<Lack>, options: Options) -> FirstPart {
    let Some(lack) = lack else { return FirstPart::default() };
    let observed = options.deadline.until_stop(world.observe_lack(lack)).await;
    let Ok(Ok(Some(observed))) = observed else { return FirstPart::default() };
    let execution = Execution::of_cluster(Task::Additions, world, options);
    let changes = execution.task.plan(&observed).changes;
    let mut results = Results::default();
    execution.take_turns(&observed, changes, None, |of_turn| results.extend(of_turn)).await;
    FirstPart::new(results, &observed.registry)
}

/// The plan of the task, after a first part of it if there was one. A change of that which the plan lacks is seen as it is:
/// the cluster has changed since.
fn plan_all(task: Task<'_>, observed: &mut Observation, made: &mut FirstPart) -> Plan {
    if !made.is_empty() {
        made.undo_in(&mut observed.registry);
        observed.decide(&Selection::Everything);
    }
    let plan = task.plan(observed);
    if !made.supersede_by(&plan) {
        return plan;
    }
    made.note_superseded(observed);
    observed.decide(&Selection::Everything);
    task.plan(observed)
}

/// The report of a sync that ended after its first part; `None` if that changed nothing.
fn report_of(world: &World<'_>, made: FirstPart) -> Option<ClusterReport> {
    if made.is_empty() {
        return None;
    }
    let mut lines = ChangeLines::default();
    lines.extend(made.into_applied());
    lines.sort();
    Some(report::of_results(world.owner.cluster.as_str(), Plan::default(), lines))
}
