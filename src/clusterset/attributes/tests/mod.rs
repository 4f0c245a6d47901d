//! The attributes that are written, the instances that are read, and those that AWS's controller takes.

mod complete;
mod skipped;

use proptest::prelude::*;

use super::aws::{AwsEndpoint, read_as_aws};
use super::*;
use crate::clusterset::{arbitrary, limits};
use crate::model::attributes::{IPV4, IPV6, MARK_PREFIX};
use crate::model::{
    Attributes, ClusterArn, ClusterId, ClustersetId, EndpointPort, Export, ExportedEndpoint,
    Family, Flow, ImportType, Marks, Owner, Protocol, ServiceRef, Timestamp,
};

fn shop() -> ClustersetId {
    ClustersetId::parse("shop").expect("an id")
}

fn export(kind: ImportType) -> Export {
    Export {
        cluster: ClusterId::parse("blue").expect("an id"),
        created: Timestamp::from_second(1_767_225_600).expect("a time"),
        kind,
        ports: Vec::new(),
        families: vec![Family::V4],
        properties: None,
    }
}

fn endpoint() -> ExportedEndpoint {
    ExportedEndpoint {
        address: "10.0.1.5".parse().expect("an address"),
        port: Some(EndpointPort {
            name: "http".into(),
            protocol: Protocol::Tcp,
            number: 8080,
            service_name: "web".into(),
            service_protocol: Protocol::Tcp,
            service_number: 80,
            target: "http-port".into(),
        }),
        ready: true,
        is_leaving: false,
        hostname: Some("web-0".into()),
        node: Some("ip-10-0-1-1.eu-central-1.compute.internal".into()),
        zone: Some("eu-central-1a".into()),
        region: Some("eu-central-1".into()),
    }
}

/// A headless Service's endpoint without ports.
fn portless() -> ExportedEndpoint {
    ExportedEndpoint { port: None, ..endpoint() }
}

fn owner() -> Owner {
    let cluster = ClusterArn::parse("arn:aws:eks:eu-central-1:111122223333:cluster/eks-blue");
    Owner { id: "team-a".into(), cluster: cluster.expect("an ARN"), flow: Flow::Exports }
}

/// An instance of ours, with its marks.
fn ours(kind: ImportType, endpoint: &ExportedEndpoint) -> Attributes {
    let marks = Marks { service: ServiceRef::new("shop", "web"), pod: Some("web-0".into()) };
    let mut attributes = marks.write(&owner());
    attributes.extend(&write(&export(kind), &shop(), endpoint));
    attributes
}

/// The instance that AWS's controller registers for the same endpoint.
fn of_aws() -> Attributes {
    let mut attributes = write(&export(ImportType::ClusterSetIp), &shop(), &endpoint());
    for key in [AVAILABILITY_ZONE, REGION] {
        attributes.remove(key);
    }
    let controller = "aws-cloud-map-mcs-controller-for-k8s 0.3.1 (8a3c1a5)";
    attributes.insert("K8S_CONTROLLER", controller);
    attributes
}

fn with(mut attributes: Attributes, key: &str, value: &str) -> Attributes {
    attributes.insert(key, value);
    attributes
}

fn without(mut attributes: Attributes, key: &str) -> Attributes {
    attributes.remove(key);
    attributes
}

fn table(attributes: &Attributes) -> String {
    let lines: Vec<String> =
        attributes.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    lines.join("\n")
}

fn imported(attributes: &Attributes) -> ExportInstance {
    read(attributes, &shop()).expect("complete").expect("of the clusterset")
}

/// One line for the instance, or the reason why it is skipped.
fn outcome(attributes: &Attributes) -> String {
    match read(attributes, &shop()) {
        Ok(Some(instance)) => format!("{} of {}", instance.endpoint.address, instance.cluster),
        Ok(None) => "not of this clusterset".to_owned(),
        Err(skipped) => skipped.to_string(),
    }
}

proptest! {
    #[test]
    fn every_instance_with_a_port_is_read_by_us_and_by_aws(
        export in arbitrary::export(),
        endpoint in arbitrary::endpoint(),
        clusterset in arbitrary::clusterset(),
        owner in arbitrary::owner(),
        service in arbitrary::service(),
    ) {
        let mut attributes = Marks { service, pod: Some("p".repeat(253)) }.write(&owner);
        attributes.extend(&write(&export, &clusterset, &endpoint));
        limits::assert_accepted(&attributes);
        let own = attributes.keys().filter(|key| !key.starts_with("AWS_")).count();
        prop_assert!(own <= 21, "{}", own);

        let port = endpoint.port.clone().expect("a port");
        let expected = AwsEndpoint {
            address: endpoint.address.to_string(),
            port: port.number,
            service_port: port.service_number,
            ready: endpoint.ready,
            created: export.created.as_millisecond(),
            cluster: export.cluster.to_string(),
        };
        prop_assert_eq!(read_as_aws(&attributes), Ok(expected));

        let read = read(&attributes, &clusterset).expect("complete").expect("of the clusterset");
        prop_assert_eq!(read.endpoint, endpoint);
        prop_assert_eq!((read.cluster, read.created), (export.cluster, export.created));
        prop_assert_eq!((read.kind, read.arn), (export.kind, Some(owner.cluster)));
    }
}
