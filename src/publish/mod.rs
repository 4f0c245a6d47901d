//! From Kubernetes into Cloud Map, in two passes:
//!
//! ```text
//! observe ─> plan ─> apply additions ─> observe again ─> plan again ─> apply removals ─> report
//! ```
//!
//! A full sync registers `first` what it sees to be missing, while it still observes the rest of Cloud Map.
//! A cluster's run is [`publish()`]; [`carry_out`] is its part from the plan on, which purges and orphans also use.
//! [`observe`] makes all reads, [`plan`] has all rules, [`passes`] is the loop over both as a pure machine of
//! independent turns, and [`apply`] makes one change by one call. Many turns are taken side by side (`turn`), in an
//! `order` that no two runs have in common. `all_clusters` is the part of a cleanup. [`report`] and [`events`] are the
//! output for a person.

mod all_clusters;
pub mod apply;
pub mod events;
pub mod exports;
mod first;
mod lines;
pub mod observe;
mod order;
pub mod passes;
pub mod plan;
pub mod report;
mod task;
#[cfg(test)]
mod tests;
mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use tokio::time::{Instant, timeout_at};

use crate::cloud_map::Urgency;
use crate::model::{CloudMapService, Notice, Selection, ServiceKey, ServiceRef, Timestamp};
use crate::report::{ClusterReport, Mode};
use crate::time::Deadline;
use lines::Lines;
use observe::World;
use passes::{Made, Results, Turn};
use plan::{Adoption, Basis, Change, Claimed, HeldBack, Judged, Leaving, Plan, Stage};

pub use all_clusters::{claims, share_ttls};
pub use first::Failed;
pub use order::Order;
pub use task::Task;
use turn::Beginnings;

/// The number of turns taken side by side. Most of them wait for an operation to end; the client limits the calls.
const TURNS_SIDE_BY_SIDE: usize = 256;
/// With more registrations than this a run takes longer than some seconds at the default rates.
const MANY: usize = 200;
/// A Service with at most this number of changes does not wait for those with many.
const FEW: usize = 10;

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

impl Options {
    /// The urgency of a turn: if there is much to do, Services with few changes go first.
    fn urgency(&self, changes: usize) -> Urgency {
        if changes <= FEW { Urgency::Urgent } else { self.urgency }
    }
}

/// A plan that was carried out, or only made.
pub struct Published {
    pub report: ClusterReport,
    pub held_back: Vec<HeldBack>,
    /// The instances that the plan removes.
    pub leaving: Leaving,
    /// The Cloud Map services that were created.
    pub created: BTreeMap<ServiceKey, CloudMapService>,
}

/// Makes Cloud Map match the claims of the selected Services of a cluster, or plans it. Also returns the claims of the
/// cluster and the notices for the owners of its Services.
///
/// # Errors
/// Returns an error if the cluster or the registry could not be read completely. It has the changes of a first part;
/// else nothing was changed.
pub async fn publish(
    world: &World<'_>,
    selection: &Selection,
    adoption: Option<&Adoption>,
    options: Options,
) -> Result<(ClusterReport, Claimed, Vec<Notice>), Failed> {
    let task = adoption.map_or(Task::Sync(world), |adoption| Task::Adopt(world, adoption));
    let is_whole = *selection == Selection::Everything && task.is_sync();
    let (observed, published) = if is_whole && options.mode == Mode::Sync {
        Box::pin(first::publish(world, options)).await?
    } else {
        let observed = Box::pin(world.observe(selection));
        let observed = timeout_at(options.deadline.stop(), observed).await;
        let observed = observed.map_err(observe::Error::from)??;
        let published = carry_out(&task, observed.basis(), options).await;
        (observed, published)
    };
    // An adoption removes nothing, so there is no loss to hold.
    if task.is_sync() {
        world.note_what_is_held(observed.basis(), published.report.guard.is_some());
    }
    let desired = &observed.observation.desired;
    let mut notices = events::notices(&published.held_back, desired);
    notices.extend(events::news(&published.report.services, desired, options.now));
    Ok((published.report, Claimed::of(&observed.observation, published.leaving), notices))
}

/// Plans a task on the observation, and carries the plan out unless only the plan is asked for.
pub async fn carry_out(task: &Task<'_>, basis: Basis<'_>, options: Options) -> Published {
    carry_out_plan(task, basis, task.intent().plan(basis), (options, &Made::default())).await
}

/// Carries out a plan of the task on the observation, unless only the plan is asked for. `made` are those of its
/// changes that were made before.
async fn carry_out_plan(
    task: &Task<'_>,
    basis: Basis<'_>,
    mut plan: Plan,
    (options, made): (Options, &Made),
) -> Published {
    let cluster = basis.observation.owner.cluster.as_str();
    let leaving = plan.leaving();
    if options.mode != Mode::Sync {
        let held_back = plan.held_back.clone();
        let (report, created) = (report::of_plan(cluster, plan), BTreeMap::new());
        let report = report::with_reads(report, basis.observation);
        return Published { report, held_back, leaving, created };
    }
    let judged = task.is_sync().then(|| Judged::of(basis, &plan)).flatten().map(Arc::new);
    let changes = std::mem::take(&mut plan.changes);
    let is_creation = |change: &Change| change.stage() == Stage::CreateNamespace;
    let creates_namespaces = changes.values().flatten().any(is_creation);
    let (mut results, mut lines) =
        (Results::default(), made.superseded().cloned().collect::<Lines>());
    let judged = judged.as_ref();
    take_turns(task, basis, changes, judged, (options, made), |mut of_turn| {
        lines.extend(std::mem::take(&mut of_turn.applied));
        results.extend(of_turn);
    })
    .await;
    lines.sort();
    if creates_namespaces {
        task.registry().forget_namespaces();
    }
    // The next run may not be able to read them any more.
    let services = &basis.observation.registry.services;
    let registered = lines.registered();
    let registered = registered.filter_map(|it| results.created.get(it).or(services.get(it)));
    task.registry().note_registered(registered.map(|service| service.arn.clone()));
    plan.guard = results.guard.or(plan.guard);
    plan.add_held_back(results.held_back);
    let held_back = plan.held_back.iter().chain(lines.held_back()).cloned().collect();
    let report = report::with_reads(report::of_results(cluster, plan, lines), basis.observation);
    Published { report, held_back, leaving, created: results.created }
}

/// Takes turns side by side, and hands the results of each to `on_end`. The failure of one Service stops no other, and
/// near the deadline nothing new begins.
async fn take_turns(
    task: &Task<'_>,
    basis: Basis<'_>,
    changes: BTreeMap<ServiceRef, Vec<Change>>,
    judged: Option<&Arc<Judged>>,
    (options, made): (Options, &Made),
    mut on_end: impl FnMut(Results),
) {
    let registers = |change: &&Change| change.stage() == Stage::Register;
    let registrations = changes.values().flatten().filter(registers).count();
    let options = Options { is_bulk: registrations > MANY, ..options };
    let turns =
        Order::at(options.now).put(passes::by_turn(basis.holders, changes, judged)).into_iter();
    let beginnings = &Beginnings::default();
    let turns = turns.map(|changes| {
        let turn = Turn::of(task.intent(), basis, changes, judged);
        turn::run(task, turn, (options, made), beginnings)
    });
    let mut turns = stream::iter(turns).buffer_unordered(TURNS_SIDE_BY_SIDE);
    while let Some(of_turn) = turns.next().await {
        on_end(of_turn);
    }
}
