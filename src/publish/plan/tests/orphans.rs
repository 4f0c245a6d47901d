//! The instances of clusters that are not configured.

use super::world::{World, foreign, own};
use crate::model::ClusterArn;

fn arn(cluster: &str) -> String {
    format!("arn:aws:eks:eu-central-1:111122223333:cluster/{cluster}")
}

#[test]
fn only_instances_of_ours_of_other_clusters_are_counted() {
    let mut gone = own("c", "shop/web", "10.0.0.3").1;
    gone.insert("cloud-map-sync/cluster", arn("gone"));
    let mut theirs = gone.clone();
    theirs.insert("cloud-map-sync/owner", "team-a");
    let world = World::new()
        .http("web", [("a", foreign("10.0.0.1")), ("b", theirs), ("c", gone.clone())])
        .http("cart", [own("d", "shop/cart", "10.0.0.4"), ("e", gone)]);
    let registry = &world.0.registry;
    let found = |kept: &[&ClusterArn]| {
        let found = registry.orphans("cloud-map-sync", |cluster, _| kept.contains(&cluster));
        let found = found.into_iter().map(|(cluster, it)| format!("{}: {it}", cluster.name()));
        found.collect::<Vec<_>>()
    };
    let own = &world.0.owner.cluster;
    assert_eq!(found(&[own]), ["gone: 2 instances in http/cart, http/web"]);
    let gone = ClusterArn::parse(&arn("gone")).expect("an ARN");
    assert_eq!(found(&[own, &gone]), [""; 0]);
}
