//! The first part of a full sync. Most of its time goes into reading services in which nothing is to be done: 1,000
//! take 40 seconds at half of an account's rate. What seems to be missing in Cloud Map, by the mirror of the process,
//! is read and registered meanwhile:
//!
//! ```text
//! cluster, mirror ─> names that lack something ─> read them ─> plan ─> apply additions ─┐
//!                                                     └─> read all others ─> plan ──────┴─> all else, as without it
//! ```
//!
//! The plan of the whole sync is the one that would have been made without the first part (`passes::Made`). So the
//! guard, the order of removals and the report are the same.

use super::observe::{self, First, Lack, World};
use super::passes::{FirstPart, Results};
use super::plan::{Observation, Plan, Task};
use super::{ChangeLines, Execution, Options, Published, carry_out_plan, report, take_turns};
use crate::model::Selection;
use crate::report::ClusterReport;

/// The error of a sync, with the report of what it had changed before.
#[derive(Debug)]
pub struct Failed {
    pub error: observe::Error,
    pub made: Option<Box<ClusterReport>>,
}

impl From<observe::Error> for Failed {
    fn from(error: observe::Error) -> Self {
        Self { error, made: None }
    }
}

/// Makes Cloud Map match a cluster in two parts; `None` if this process cannot tell what comes first.
///
/// # Errors
/// Returns an error if the cluster or the registry could not be read completely.
pub(super) async fn publish(
    world: &World<'_>,
    options: Options,
) -> Result<Option<(Observation, Published)>, Failed> {
    let deadline = options.deadline;
    let first = deadline.until_stop(Box::pin(world.observe_first())).await;
    let first = first.map_err(observe::Error::from)??;
    let Some(First { lack, cluster }) = first else { return Ok(None) };
    let rest = Box::pin(world.observe_all(&Selection::Everything, Some(cluster)));
    let (made, observed) =
        tokio::join!(Box::pin(add(world, lack, options)), deadline.until_stop(rest));
    let mut observed = match observed.map_err(observe::Error::from).and_then(|observed| observed) {
        Ok(observed) => observed,
        Err(error) => {
            let made = report_of(world, made).map(Box::new);
            return Err(Failed { error, made });
        }
    };
    let (plan, made) = plan_all(&mut observed, made);
    let execution = Execution { made: Some(&made), ..Execution::of_cluster(Task::Sync, world) };
    let published = carry_out_plan(&execution, &observed, plan, options).await;
    Ok(Some((observed, published)))
}

/// Makes the additions. If what they rest on cannot be read, the read of all says so.
async fn add(world: &World<'_>, lack: Option<Lack>, options: Options) -> FirstPart {
    let Some(lack) = lack else { return FirstPart::default() };
    let observed = options.deadline.until_stop(world.observe_lack(lack)).await;
    let Ok(Ok(Some(observed))) = observed else { return FirstPart::default() };
    let execution = Execution::of_cluster(Task::Additions, world);
    let changes = execution.task.plan(&observed).changes;
    let mut results = Results::default();
    take_turns(&execution, &observed, changes, None, options, |of_turn| results.extend(of_turn))
        .await;
    FirstPart::new(results, &observed.registry)
}

/// The plan of the whole sync. A change of the first part that it lacks is seen as it is: the cluster has changed
/// since.
fn plan_all(observed: &mut Observation, mut made: FirstPart) -> (Plan, FirstPart) {
    if made.is_empty() {
        return (Task::Sync.plan(observed), made);
    }
    made.undo_in(&mut observed.registry);
    observed.decide(&Selection::Everything);
    let plan = Task::Sync.plan(observed);
    if !made.supersede_by(&plan) {
        return (plan, made);
    }
    made.note_superseded(observed);
    observed.decide(&Selection::Everything);
    (Task::Sync.plan(observed), made)
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
