//! What a story may and must lead to, by rules of its own, so that a mistake in the plan is not repeated here.

use std::collections::BTreeSet;

use cloud_map_sync::function::Function;

use super::play::Stage;
use super::story::{PLACES, Plot, SERVICES, Service, Story};
use crate::run::sync;

/// A name under which some pod is ready at any time.
#[derive(Debug)]
pub struct Kept {
    place: (&'static str, &'static str),
    cluster: &'static str,
    /// The pods that are ready throughout.
    pods: BTreeSet<String>,
    /// Whether it may be empty for a moment: a pod goes and comes back, and if its removal is still under way then,
    /// no other run sees that.
    may_be_empty: bool,
}

/// The address of a pod of a cluster.
pub fn address(cluster: &str, pod: u8) -> String {
    format!("10.0.{}.{pod}", if cluster == "blue" { 1 } else { 2 })
}

/// The names that keep their pods: of Services that exist and claim one name all the time, as the only ones of their
/// cluster that ever claim it, and stand there before the trouble begins.
pub fn kept(stage: &Stage, story: &Story) -> Vec<Kept> {
    let mut kept = Vec::new();
    for (number, plot) in story.services.iter().enumerate() {
        let (cluster, _) = SERVICES[number];
        let Some(states) = states(plot) else { continue };
        let place = states[0].place;
        let is_alone = (0..SERVICES.len()).all(|other| {
            let is_here = |it: &Service| it.place == place;
            let claims = all_states(&story.services[other]).iter().flatten().any(is_here);
            other == number || SERVICES[other].0 != cluster || !claims
        });
        let is_served = states.iter().all(|it| it.place == place && !it.pods.is_empty());
        let there = ours(stage, place, cluster);
        if is_alone && is_served && !there.is_empty() {
            let is_ready = |pod: &&u8| states.iter().all(|it| it.pods.contains(pod));
            let pods = states[0].pods.iter().filter(is_ready).map(|pod| address(cluster, *pod));
            let pods = pods.filter(|pod| there.contains(pod)).collect();
            kept.push(Kept { place, cluster, pods, may_be_empty: returns(&states) });
        }
    }
    kept
}

/// Whether a pod goes and comes back.
fn returns(states: &[Service]) -> bool {
    states.windows(2).enumerate().any(|(index, pair)| {
        let came = |pod: &&u8| !pair[0].pods.contains(pod);
        let was_there = |pod: &u8| states[..index].iter().any(|it| it.pods.contains(pod));
        pair[1].pods.iter().filter(came).any(was_there)
    })
}

/// The states of a Service that always exists.
fn states(plot: &Plot) -> Option<Vec<Service>> {
    all_states(plot).into_iter().collect()
}

fn all_states(plot: &Plot) -> Vec<Option<Service>> {
    let later = plot.changes.iter().map(|(_, service)| service.clone());
    [plot.before.clone()].into_iter().chain(later).collect()
}

/// The addresses that stand under a name with the marks of a cluster.
fn ours(stage: &Stage, place: (&str, &str), cluster: &str) -> BTreeSet<String> {
    let arn = stage.fleet.sandbox.cluster_arn(cluster);
    let instances = stage.fleet.instances(place.0, place.1).into_values();
    let ours = instances.filter(|it| it.get("cloud-map-sync/cluster") == Some(&arn));
    ours.filter_map(|it| it.get("AWS_INSTANCE_IPV4").cloned()).collect()
}

pub fn assert_kept(stage: &Stage, kept: &[Kept]) {
    for kept in kept {
        let there = ours(stage, kept.place, kept.cluster);
        let is_served = kept.may_be_empty || !there.is_empty();
        assert!(is_served && kept.pods.is_subset(&there), "{kept:?}: left are {there:?}");
    }
}

/// Two full syncs at most reach the state that is wanted, and then no process has anything to write.
pub async fn assert_rest(stage: &Stage, story: &Story, process: &Function, kept: &[Kept]) {
    let first = sync(process).await;
    assert_kept(stage, kept);
    let second = sync(process).await;
    assert_kept(stage, kept);
    for (cluster, place) in ["blue", "green"].into_iter().flat_map(|it| PLACES.map(|at| (it, at))) {
        let there = ours(stage, place, cluster);
        let wanted = wanted(story, cluster, place);
        let is_right = match &wanted[..] {
            [] => there.is_empty() || is_contested(story, cluster),
            // What another Service left stays until the present holder has something ready.
            [only] if only.is_empty() && is_left(story, cluster, place) => true,
            [only] => only.is_subset(&there) && (there == *only || is_contested(story, cluster)),
            _ => wanted.iter().any(|wanted| wanted.is_subset(&there)),
        };
        assert!(
            is_right,
            "{cluster} in {place:?}: {there:?}, not one of {wanted:?}:\n{first}{second}"
        );
    }
    assert!(second.ok, "in the end: {second}");
    stage.fleet.cloud_map.forget_calls();
    for process in stage.processes() {
        let report = sync(process).await;
        assert_eq!(stage.fleet.cloud_map.writes(), 0, "at rest:\n{first}{second}{report}");
    }
}

/// Whether several Services of a cluster claim one name in the end. One that does not hold it stays under its former
/// name until it does.
fn is_contested(story: &Story, cluster: &str) -> bool {
    PLACES.iter().any(|place| wanted(story, cluster, *place).len() > 1)
}

/// Whether several Services of a cluster claim a name at one time or another.
fn is_left(story: &Story, cluster: &str, place: (&str, &str)) -> bool {
    let plots = SERVICES.iter().zip(&story.services).filter(|((of, _), _)| *of == cluster);
    let claims = |plot: &Plot| all_states(plot).iter().flatten().any(|it| it.place == place);
    plots.filter(|(_, plot)| claims(plot)).count() > 1
}

/// The addresses that each Service of a cluster that claims a name in the end has ready. One of them holds it.
fn wanted(story: &Story, cluster: &str, place: (&str, &str)) -> Vec<BTreeSet<String>> {
    let plots = SERVICES.iter().zip(&story.services).filter(|((of, _), _)| *of == cluster);
    let last = plots.filter_map(|(_, plot)| all_states(plot).pop().flatten());
    let claimed = last.filter(|service| service.place == place);
    claimed.map(|service| service.pods.iter().map(|pod| address(cluster, *pod)).collect()).collect()
}
