//! Publishes Services from Kubernetes into Cloud Map:
//!
//! ```text
//! full run:  read the cluster ─> compare with what the process knows ─> additions of each group ──┐
//!                     └────────> read Cloud Map ─> compare ─> permits ─> sync of each due group <─┘
//! message:   read its Services and their names ─> compare ─> permits ─> sync of their groups
//! ```
//!
//! [`publish()`] is the run of one cluster. [`Execution::carry_out`] is the part of it that begins with the comparison;
//! purges and the records of a clusterset use it too. [`observe`] makes all reads, [`plan`] has all rules, [`group`] is
//! the sync of one group of Services as a pure state machine, `steps` carries out its steps, and [`apply`] makes one
//! change by one call. Groups are synced concurrently. [`report`] is the output for people.

pub mod apply;
mod early;
pub mod exports;
pub mod group;
pub mod observe;
pub mod plan;
pub mod report;
mod steps;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::model::{
    CloudMapService, Desired, Notice, Selection, ServiceKey, ServiceRef, Timestamp,
};
use crate::report::{ClusterReport, Mode};
use crate::time::Deadline;
use early::Early;
use group::{GroupSync, Results, Target};
use observe::{ClusterRun, SharedRegistry};
use plan::{
    Adoption, ChangesByService, HeldBack, Observation, Permits, Plan, PlanPhase, RereadScope,
    additions_from_memory, depends_on_additions, in_groups,
};
use report::ChangeLines;

pub use group::shuffle;
pub use plan::Task;
pub use report::with_reads;

/// The maximum number of groups synced concurrently. Most of them wait for an operation to end; the client limits the
/// calls.
const MAX_CONCURRENT_GROUPS: usize = 256;
/// Groups with at most this number of changes begin before larger groups.
const SMALL_GROUP: usize = 10;

/// The options for carrying out a plan.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether the plan is carried out, or only made.
    pub mode: Mode,
    /// No new work begins after this time.
    pub deadline: Deadline,
    /// The start of the run, which decides the order of the groups.
    pub now: Timestamp,
    /// The start of the read that the plan rests on.
    pub observed: Instant,
    /// Whether a person requested the run. Such a run also retries changes that Cloud Map refused a moment ago.
    pub is_direct: bool,
}

/// The result of a plan that was carried out, or only made.
pub struct Published {
    pub report: ClusterReport,
    pub held_back: Vec<HeldBack>,
    /// The Cloud Map services that were created.
    pub created: BTreeMap<ServiceKey, CloudMapService>,
    /// The Services with an instance after the sync of their groups.
    pub with_instances: BTreeSet<ServiceRef>,
}

/// Makes Cloud Map match the claims of the selected Services of a cluster, or only plans that. Also returns the notices
/// for the owners of the Services.
///
/// # Errors
/// Returns an error if the cluster or the registry could not be read completely. The error lists the additions that
/// were already made; nothing else was changed.
pub async fn publish(
    cluster_run: &ClusterRun<'_>,
    selection: &Selection,
    adoption: Option<&Adoption>,
    options: Options,
) -> Result<(ClusterReport, Vec<Notice>), Failed> {
    let task = adoption.map_or(Task::Sync, Task::Adopt);
    let execution = Execution::of_cluster(task, cluster_run, options);
    let (observed, published) = if execution.adds_early(selection) {
        Box::pin(execution.add_and_publish(cluster_run)).await?
    } else {
        let observed = options.deadline.until_stop(Box::pin(cluster_run.observe(selection))).await;
        let observed = observed.map_err(observe::Error::from)??;
        let published = execution.carry_out(&observed).await;
        (observed, published)
    };
    let desired = &observed.desired;
    let mut notices = report::notices(&published.held_back, desired);
    notices.extend(report::news(&published.report.services, desired, options.now));
    Ok((published.report, notices))
}

/// A task, the cluster and the Cloud Map that it works on, and the options for carrying it out.
pub struct Execution<'a> {
    pub task: Task<'a>,
    /// The Cloud Map that the task changes.
    pub registry: &'a SharedRegistry,
    pub options: Options,
    /// The cluster, with its Cloud Map; `None` if the task needs Cloud Map alone.
    cluster_run: Option<&'a ClusterRun<'a>>,
    /// Lets only one group of the run at a time wait for the admission of its additions.
    admission_turns: AdmissionTurns,
}

/// A lock for each call whose admission a group waits for.
#[derive(Default)]
struct AdmissionTurns {
    creation: Mutex<()>,
    registration: Mutex<()>,
}

impl<'a> Execution<'a> {
    pub fn of_cluster(task: Task<'a>, cluster_run: &'a ClusterRun<'a>, options: Options) -> Self {
        Self {
            cluster_run: Some(cluster_run),
            ..Self::of_registry(task, cluster_run.registry, options)
        }
    }

    pub fn of_registry(task: Task<'a>, registry: &'a SharedRegistry, options: Options) -> Self {
        Self {
            task,
            registry,
            options,
            cluster_run: None,
            admission_turns: AdmissionTurns::default(),
        }
    }

    /// Plans the task on the observation. Carries the plan out if the mode is [`Mode::Sync`].
    pub async fn carry_out(&self, observation: &Observation) -> Published {
        self.carry_out_plan(observation, self.task.plan(observation)).await
    }

    /// Carries out a plan that the task made on the observation, or only reports it, as the mode says.
    pub async fn carry_out_plan(&self, observation: &Observation, plan: Plan) -> Published {
        self.carry_out_after_early(&Early::default(), observation, plan, Results::default()).await
    }

    /// Like [`Self::carry_out_plan`], after early additions. `made` has the early results that the observation already
    /// includes.
    async fn carry_out_after_early(
        &self,
        early: &Early,
        observation: &Observation,
        mut plan: Plan,
        made: Results,
    ) -> Published {
        let cluster = observation.owner.cluster.as_str();
        if self.options.mode != Mode::Sync {
            let held_back = plan.held_back.clone();
            let report = report::of_plan(cluster, plan);
            let created = BTreeMap::new();
            let report = report::with_reads(report, observation);
            return Published { report, held_back, created, with_instances: BTreeSet::new() };
        }
        let mut comparison = Cow::Borrowed(observation);
        let may_remove = may_remove(self.task, observation);
        let mut permits = if may_remove { Permits::of(&plan) } else { Permits::default() };
        plan.subtract_made(made.made());
        let mut done = Done::default();
        done.add(made);
        if self.task.is_sync() && depends_on_additions(observation, &plan) {
            early.wait_for_all().await;
            let mut made = early.take_results();
            done.failed_targets.extend(made.failed_targets());
            let due = Due {
                comparison: observation,
                observed: self.start_of_read(observation),
                changes: plan.take_additions(),
                permits: None,
                failed_targets: &done.failed_targets,
            };
            self.sync_groups(due, early, |results| made.extend(results)).await;
            let after = comparison.to_mut();
            made.enter(after);
            after.phase = PlanPhase::AfterAdditions;
            after.decide_holders();
            let again = self.task.plan(after);
            permits = Permits::of(&again).intersect(&permits);
            plan.take_over_verdict(again);
            done.add(made);
        }
        if !may_remove {
            plan.hold_back_removals_and_adoptions();
        }
        let failed_targets = std::mem::take(&mut done.failed_targets);
        let due = Due {
            comparison: &comparison,
            observed: self.start_of_read(observation),
            changes: std::mem::take(&mut plan.changes),
            permits: Some(&permits),
            failed_targets: &failed_targets,
        };
        self.sync_groups(due, early, |results| done.add(results)).await;
        early.wait_for_all().await;
        done.add(early.take_results());
        done.into_published(plan, observation)
    }

    /// Returns the start of the read that a plan rests on. All clusters of an invocation share one read of all of Cloud
    /// Map: other clusters may have changed Cloud Map before a later one plans on it.
    fn start_of_read(&self, observation: &Observation) -> Instant {
        let observed = self.options.observed;
        let is_shared = self.cluster_run.is_some() && observation.extent.is_full_sync();
        if is_shared { observed.min(self.registry.started) } else { observed }
    }

    /// Syncs groups concurrently, and passes the results of each to `on_results`. A failed group stops no other group.
    /// Near the deadline no new work begins.
    async fn sync_groups(&self, due: Due<'_>, early: &Early, mut on_results: impl FnMut(Results)) {
        let Due { comparison, observed, changes, permits, failed_targets } = due;
        let groups = self.in_order(changes).into_iter().map(async |changes| {
            let work = early.wait_for(&changes).await;
            // The comparison lacks the additions of early groups, so a group after these reads again first.
            let observed = work.is_none().then_some(observed);
            let group = GroupSync::new(self.task, comparison, changes, permits, failed_targets);
            steps::carry_out(self, group.after(work.unwrap_or_default()), observed).await
        });
        let mut groups = stream::iter(groups).buffer_unordered(MAX_CONCURRENT_GROUPS);
        while let Some(results) = groups.next().await {
            on_results(results);
        }
    }

    /// Returns the groups of these changes, in the order in which they begin.
    fn in_order(&self, changes: ChangesByService) -> Vec<ChangesByService> {
        let mut groups = shuffle(self.options.now, in_groups(changes));
        groups.sort_by_key(|changes| changes.values().map(Vec::len).sum::<usize>() > SMALL_GROUP);
        groups
    }

    /// Reads again the data that the open changes of a group rest on.
    ///
    /// # Errors
    /// Returns an error if the cluster or the registry could not be read.
    pub async fn read(
        &self,
        mut observation: Observation,
        scope: &RereadScope,
    ) -> Result<Observation, observe::Error> {
        if let Some(cluster_run) = self.cluster_run {
            return cluster_run.observe_again(observation, scope).await;
        }
        if let Task::Records(records) = self.task {
            let ids = records.ids_of(&observation, &scope.services);
            let key = &records.place.key;
            self.registry.read_records_again(&mut observation.registry, scope, key, &ids).await?;
        } else {
            self.registry.read_again(&mut observation.registry, scope).await?;
        }
        Ok(scope.decide(observation))
    }

    /// Reads the endpoints of Services again.
    ///
    /// # Errors
    /// Returns an error if the cluster could not be read.
    pub async fn read_endpoints(&self, services: Desired) -> Result<Desired, observe::Error> {
        match self.cluster_run {
            Some(cluster_run) => cluster_run.with_endpoints(services).await,
            None => Ok(services),
        }
    }

    /// Whether a run over these Services makes early additions, which are planned on the mirror.
    fn adds_early(&self, selection: &Selection) -> bool {
        let is_whole = *selection == Selection::Everything && self.task.is_sync();
        is_whole && self.options.mode == Mode::Sync
    }

    /// Publishes all Services. A full run spends most of its time on reading Cloud Map services that need no change:
    /// 1,000 take 40 seconds at half of an account's rate. Meanwhile it adds the instances that the mirror lacks. Each
    /// of these groups reads its own names again first.
    ///
    /// # Errors
    /// Returns an error if the cluster or the registry could not be read completely.
    async fn add_and_publish(
        &self,
        cluster_run: &ClusterRun<'_>,
    ) -> Result<(Observation, Published), Failed> {
        let deadline = self.options.deadline;
        let all = &Selection::Everything;
        let desired = deadline.until_stop(Box::pin(cluster_run.read_cluster(all))).await;
        let desired = desired.map_err(observe::Error::from)??;
        let early = &Early::default();
        let known = Box::pin(cluster_run.observe_known(desired.clone()));
        let add = async {
            // An error here also fails the read of all, which returns it.
            if let Ok(Ok(Some(known))) = deadline.until_stop(known).await {
                self.add_early(cluster_run, &known, early).await;
            }
        };
        let publish = async {
            let observed = deadline.until_stop(cluster_run.observe_for(all, desired)).await;
            let mut observed = observed.map_err(observe::Error::from)??;
            let made = early.take_results();
            if !made.settled.is_empty() {
                made.enter(&mut observed);
                observed.decide(all);
            }
            let plan = self.task.plan(&observed);
            let published = self.carry_out_after_early(early, &observed, plan, made).await;
            Ok::<_, observe::Error>((observed, published))
        };
        // The read of all is polled first, so it begins the list of services that both share.
        let (published, ()) = tokio::join!(Box::pin(publish), Box::pin(add));
        published.map_err(|error| {
            let made = early.take_results().settled;
            if made.is_empty() {
                return error.into();
            }
            let mut lines = ChangeLines::default();
            lines.extend(made);
            lines.sort();
            let cluster = cluster_run.owner.cluster.as_str();
            let made = Box::new(report::of_results(cluster, Plan::default(), lines));
            Failed::Partial { error, made }
        })
    }

    /// Makes the additions that the mirror shows to be needed. No group begins once Cloud Map is read.
    async fn add_early(&self, cluster_run: &ClusterRun<'_>, known: &Observation, early: &Early) {
        let failed_targets = &BTreeSet::new();
        let changes = additions_from_memory(known, &cluster_run.seen_names());
        let groups = self.in_order(changes).into_iter().map(async |changes| {
            let Some(end) = early.begin(&changes) else { return };
            let group = GroupSync::new(self.task, known, changes, None, failed_targets);
            early.end(&end, steps::carry_out(self, group, None).await);
        });
        stream::iter(groups).buffer_unordered(MAX_CONCURRENT_GROUPS).collect::<()>().await;
    }
}

/// Whether the removals of a plan get permits once the guard has judged them. A full sync gives none until this process
/// has read each Cloud Map service that has instances: a removal may have to wait for an instance in an unread service.
fn may_remove(task: Task<'_>, observation: &Observation) -> bool {
    !task.is_sync() || !observation.extent.is_full_sync() || observation.registry.is_whole()
}

/// The changes of a comparison that groups are to make.
struct Due<'a> {
    comparison: &'a Observation,
    /// The start of the read that the comparison rests on.
    observed: Instant,
    changes: ChangesByService,
    /// The permits for removals; `None` if there are only additions.
    permits: Option<&'a Permits>,
    /// The targets that the run tried before without success.
    failed_targets: &'a BTreeSet<Target>,
}

/// The combined results of the groups of a run.
#[derive(Default)]
struct Done {
    lines: ChangeLines,
    held_back: Vec<HeldBack>,
    created: BTreeMap<ServiceKey, CloudMapService>,
    with_instances: BTreeSet<ServiceRef>,
    /// The Services of which a note of the guard was not written.
    without_note: BTreeSet<ServiceRef>,
    /// The targets that were tried without success.
    failed_targets: BTreeSet<Target>,
}

impl Done {
    fn add(&mut self, results: Results) {
        self.without_note.extend(results.without_note());
        self.failed_targets.extend(results.failed_targets());
        let Results { settled, held_back, created, with_instances, .. } = results;
        self.lines.extend(settled);
        self.held_back.extend(held_back);
        self.created.extend(created);
        self.with_instances.extend(with_instances);
    }

    fn into_published(self, mut plan: Plan, observation: &Observation) -> Published {
        let Self { mut lines, held_back, created, with_instances, without_note, .. } = self;
        lines.sort();
        plan.add_held_back(held_back);
        if !without_note.is_empty() {
            plan.without_notes(without_note);
        }
        let held_back = plan.held_back.iter().chain(lines.held_back()).cloned().collect();
        let report = report::of_results(observation.owner.cluster.as_str(), plan, lines);
        let report = report::with_reads(report, observation);
        Published { report, held_back, created, with_instances }
    }
}

/// The error of a sync.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The cluster or its registry could not be read, and nothing was changed.
    #[error(transparent)]
    Unread(#[from] observe::Error),
    /// The cluster or its registry could not be read, after the sync had made additions.
    #[error("Cloud Map could not be read to the end")]
    Partial {
        #[source]
        error: observe::Error,
        made: Box<ClusterReport>,
    },
}
