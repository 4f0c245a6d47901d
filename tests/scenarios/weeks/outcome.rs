//! The rules, by what stands in Cloud Map and what the story has made.

use std::collections::{BTreeMap, BTreeSet};

use super::play::Stage;
use super::story::SERVICES;

/// The addresses of pods, by the number of their Service.
pub type Pods = BTreeMap<usize, BTreeSet<String>>;

/// Pods that have been seen in Cloud Map and have been ready since: none may go. Kept by `look`.
#[derive(Default)]
pub struct Registered(Pods);

impl Registered {
    /// Looks whether any is gone, and takes up those that have come.
    pub fn look(&mut self, stage: &Stage) {
        let ready = stage.ready();
        for (service, (cluster, _, place)) in SERVICES.into_iter().enumerate() {
            let there = ours(stage, place, cluster);
            let ready = ready.get(&service).cloned().unwrap_or_default();
            let kept = self.0.entry(service).or_default();
            let lost: Vec<&String> =
                kept.intersection(&ready).filter(|it| !there.contains(*it)).collect();
            assert!(
                lost.is_empty(),
                "{cluster} lost {lost:?} of {place:?}, which are ready; left are {there:?}"
            );
            *kept = there.intersection(&ready).cloned().collect();
        }
    }
}

/// Whether each name has what its Services have ready, and nothing else of ours.
pub fn assert_wanted(stage: &Stage, when: &str) {
    let ready = stage.ready();
    for (service, (cluster, name, place)) in SERVICES.into_iter().enumerate() {
        let wanted = ready.get(&service).cloned().unwrap_or_default();
        let there = ours(stage, place, cluster);
        assert_eq!(there, wanted, "{when}: {cluster}/{name} in {place:?}");
    }
}

/// The addresses that stand under a name with the marks of a cluster.
fn ours(stage: &Stage, place: (&str, &str), cluster: &str) -> BTreeSet<String> {
    let arn = stage.fleet.sandbox.cluster_arn(cluster);
    let instances = stage.fleet.instances(place.0, place.1).into_values();
    let ours = instances.filter(|it| it.get("cloud-map-sync/cluster") == Some(&arn));
    ours.filter_map(|it| it.get("AWS_INSTANCE_IPV4").cloned()).collect()
}
