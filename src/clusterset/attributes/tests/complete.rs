//! The attributes of complete instances, as they are written and read.

use insta::assert_snapshot;

use super::*;

#[test]
fn an_instance_has_the_attributes_of_aws_and_our_marks() {
    assert_snapshot!(table(&ours(ImportType::ClusterSetIp, &endpoint())), @r"
    AVAILABILITY_ZONE = eu-central-1a
    AWS_INSTANCE_IPV4 = 10.0.1.5
    AWS_INSTANCE_PORT = 8080
    CLUSTERSET_ID = shop
    CLUSTER_ID = blue
    ENDPOINT_PORT_NAME = http
    ENDPOINT_PROTOCOL = TCP
    HOSTNAME = web-0
    NODENAME = ip-10-0-1-1.eu-central-1.compute.internal
    READY = true
    REGION = eu-central-1
    SERVICE_EXPORT_CREATION_TIMESTAMP = 1767225600000
    SERVICE_PORT = 80
    SERVICE_PORT_NAME = web
    SERVICE_PROTOCOL = TCP
    SERVICE_TARGET_PORT = http-port
    SERVICE_TYPE = ClusterSetIP
    cloud-map-sync/cluster = arn:aws:eks:eu-central-1:111122223333:cluster/eks-blue
    cloud-map-sync/exporter = team-a
    cloud-map-sync/namespace = shop
    cloud-map-sync/pod = web-0
    cloud-map-sync/schema = 1
    cloud-map-sync/service = web
    ");
}

#[test]
fn an_endpoint_without_ports_and_names_has_none_of_their_attributes() {
    let endpoint = ExportedEndpoint {
        address: "fd00:0::5".parse().expect("an address"),
        hostname: None,
        node: None,
        zone: None,
        region: None,
        ..portless()
    };
    let attributes = write(&export(ImportType::Headless), &shop(), &endpoint);
    assert_snapshot!(table(&attributes), @r"
    AWS_INSTANCE_IPV6 = fd00::5
    CLUSTERSET_ID = shop
    CLUSTER_ID = blue
    READY = true
    SERVICE_EXPORT_CREATION_TIMESTAMP = 1767225600000
    SERVICE_TYPE = Headless
    ");
}

#[test]
fn all_attributes_that_are_not_cloud_maps_are_repaired() {
    let written = write(&export(ImportType::ClusterSetIp), &shop(), &endpoint());
    let own: Vec<&str> = written.keys().filter(|key| !key.starts_with("AWS_")).collect();
    assert_eq!(own.len(), 15);
    assert!(own.iter().all(|key| is_written(key)), "{own:?}");
    assert!(!is_written("K8S_CONTROLLER"));
}

#[test]
fn an_instance_of_ours_is_read_as_it_was_written() {
    for (kind, endpoint) in
        [(ImportType::ClusterSetIp, endpoint()), (ImportType::Headless, portless())]
    {
        let expected = ExportInstance {
            cluster: export(kind).cluster,
            created: export(kind).created,
            kind,
            endpoint: endpoint.clone(),
            is_marked: true,
            arn: Some(owner().cluster),
        };
        assert_eq!(imported(&ours(kind, &endpoint)), expected);
    }
}

#[test]
fn an_instance_of_aws_is_read_without_zone_and_marks() {
    let expected = ExportInstance {
        cluster: export(ImportType::ClusterSetIp).cluster,
        created: export(ImportType::ClusterSetIp).created,
        kind: ImportType::ClusterSetIp,
        endpoint: ExportedEndpoint { zone: None, region: None, ..endpoint() },
        is_marked: false,
        arn: None,
    };
    assert_eq!(imported(&of_aws()), expected);
}

#[test]
fn an_instance_that_is_not_ready_is_read() {
    assert!(!imported(&with(of_aws(), READY, "false")).endpoint.ready);
}

#[test]
fn names_may_be_absent_or_empty() {
    for attributes in [
        with(with(of_aws(), HOSTNAME, ""), NODENAME, ""),
        without(without(of_aws(), HOSTNAME), NODENAME),
    ] {
        let endpoint = imported(&attributes).endpoint;
        assert_eq!((endpoint.hostname, endpoint.node), (None, None));
    }
    let port = imported(&with(with(of_aws(), SERVICE_PORT_NAME, ""), ENDPOINT_PORT_NAME, ""));
    let port = port.endpoint.port.expect("a port");
    assert_eq!((port.name.as_str(), port.service_name.as_str()), ("", ""));
}

#[test]
fn names_that_kubernetes_would_refuse_are_left_out() {
    let invalid = [(HOSTNAME, "Web_0"), (NODENAME, "node one"), (AVAILABILITY_ZONE, "a/b")];
    let attributes = invalid
        .iter()
        .fold(ours(ImportType::Headless, &endpoint()), |all, it| with(all, it.0, it.1));
    let read = imported(&attributes).endpoint;
    assert_eq!(read, ExportedEndpoint { hostname: None, node: None, zone: None, ..endpoint() });
}

/// A cluster that the first flow has adopted instances of is still AWS's exporter until those are gone.
#[test]
fn only_the_exporters_mark_makes_an_instance_marked() {
    let annotated = Owner { flow: Flow::Annotations, ..owner() };
    let marks = Marks { service: ServiceRef::new("shop", "web"), pod: None };
    let mut adopted = of_aws();
    adopted.extend(&marks.write(&annotated));
    assert!(!imported(&adopted).is_marked);
    adopted.extend(&marks.write(&owner()));
    assert!(imported(&adopted).is_marked);
    let mut broken = ours(ImportType::Headless, &portless());
    broken.insert("cloud-map-sync/cluster", "blue");
    let broken = imported(&broken);
    assert!(broken.is_marked && broken.arn.is_none());
}
