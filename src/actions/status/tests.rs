use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::model::{
    Attributes, CloudMapService, ClusterArn, Flow, Marks, Namespace, NamespaceKind, Owner,
    Registry, ServiceKey, ServiceKind, ServiceRef,
};

const BLUE: &str = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";
const GREEN: &str = "arn:aws:eks:eu-central-1:111122223333:cluster/green";

fn of_cluster(owner: &str, cluster: &str) -> Attributes {
    let cluster = ClusterArn::parse(cluster).expect("an ARN");
    let owner = Owner { id: owner.to_owned(), cluster, flow: Flow::Annotations };
    Marks { service: ServiceRef::new("shop", "web"), pod: None }.write(&owner)
}

fn attributes(pairs: &[(&str, &str)]) -> Attributes {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// `web` with instances of every kind of party, and an unreadable `cart`.
fn registry() -> Registry {
    let namespace = Namespace { kind: NamespaceKind::Http, ..Namespace::missing("prod") };
    let mut web = CloudMapService::created("arn".to_owned(), "web", ServiceKind::Http);
    let task = attributes(&[("ECS_CLUSTER_NAME", "legacy"), ("ECS_SERVICE_NAME", "web")]);
    let instances = [
        ("a", of_cluster("team-a", BLUE)),
        ("b", of_cluster("team-a", BLUE)),
        ("c", of_cluster("team-a", GREEN)),
        ("d", of_cluster("team-b", BLUE)),
        ("e", task),
        ("0123456789abcdef0123456789abcdef", attributes(&[("AWS_INSTANCE_IPV4", "10.0.0.1")])),
        ("f", attributes(&[("appmesh.k8s.aws/pod", "x")])),
        ("g", attributes(&[("cloud-map-sync/owner", "team-a")])),
        ("h", Attributes::new()),
    ];
    let instances = instances.map(|(id, attributes)| (id.to_owned(), attributes));
    web.instances = Some(BTreeMap::from(instances));
    let mut cart = CloudMapService::created("arn".to_owned(), "cart", ServiceKind::Http);
    cart.instances = None;
    cart.unreadable = Some("throttled".to_owned());
    let services = [web, cart].map(|it| (ServiceKey::new(&namespace, &it.name), it));
    let namespaces = [(namespace.id.clone(), namespace)].into();
    Registry { services: services.into(), namespaces, ..Registry::default() }
}

fn status(clusters: &[&str]) -> Status {
    let clusters = clusters.iter().map(|it| (*it).to_owned()).collect();
    Status::new("team-a", clusters, vec![RegistryStatus::new(None, &registry())])
}

#[test]
fn each_kind_of_party_has_a_column() {
    insta::assert_snapshot!(status(&[BLUE]).to_string(), @r"
    SERVICE    TYPE  THIS CLUSTER  OTHER CLUSTERS  ECS  OTHER TOOLS  UNKNOWN
    prod/cart  HTTP  -             -               -    -            -
      ! not read   throttled
    prod/web   HTTP  2             3               2    1            1
    2 services, incomplete: 2 this cluster, 3 other clusters, 2 ECS, 1 other tools, 1 unknown
    ");
}

#[test]
fn the_wide_table_names_each_of_them() {
    let wide = format!("{:#}", status(&[BLUE, GREEN]));
    let shares: BTreeSet<&str> =
        wide.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    let expected = [
        "1 of ECS",
        "1 of ECS service legacy/web",
        "1 of another cluster, with broken marks",
        "1 of cluster blue (team-b)",
        "1 of cluster green (team-a)",
        "1 of an unknown party",
        "1 of the App Mesh controller",
        "2 of cluster blue (team-a)",
    ];
    assert_eq!(shares, BTreeSet::from(expected));
    assert!(
        wide.ends_with("3 these clusters, 2 other clusters, 2 ECS, 1 other tools, 1 unknown\n")
    );
}

#[test]
fn an_unreadable_cloud_map_is_reported_and_not_shown_as_empty() {
    let unreadable = RegistryStatus::unreadable(Some("in eu-west-1".to_owned()), "denied".into());
    let status = Status::new("team-a", Vec::new(), vec![unreadable]);
    assert!(!status.ok);
    insta::assert_snapshot!(status.to_string(), @r"
    Cloud Map in eu-west-1
    ! not read: denied
    0 services, incomplete: no instances
    ");
}
