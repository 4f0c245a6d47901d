//! The instances that are skipped, with the reasons, and the instances that do not belong to the clusterset.

use insta::assert_snapshot;

use super::*;

#[test]
fn an_instance_with_both_families_is_read_as_its_ipv4_address() {
    let both = with(of_aws(), IPV6, "fd00::5");
    assert_eq!(imported(&both).endpoint.address, endpoint().address);
    assert_eq!(read_as_aws(&both).map(|it| it.address).as_deref(), Ok("10.0.1.5"));
    assert_snapshot!(outcome(&with(both, IPV4, "10.0.1")), @"its attribute AWS_INSTANCE_IPV4 is not an IPv4 address");
}

#[test]
fn an_instance_that_lacks_a_mandatory_attribute_is_skipped() {
    let mandatory = of_aws();
    let mandatory = mandatory
        .keys()
        .filter(|key| ![IPV4, HOSTNAME, NODENAME, CLUSTERSET_ID, "K8S_CONTROLLER"].contains(key));
    let mut count = 0;
    for key in mandatory {
        let attributes = without(of_aws(), key);
        assert_eq!(outcome(&attributes), format!("it lacks the attribute {key}"));
        assert_eq!(read_as_aws(&attributes).err(), Some(key));
        count += 1;
    }
    assert_eq!(count, 11);
    assert_snapshot!(outcome(&without(of_aws(), IPV4)), @"it has neither AWS_INSTANCE_IPV4 nor AWS_INSTANCE_IPV6");
}

#[test]
fn an_instance_with_an_invalid_attribute_is_skipped() {
    let cases = [
        (PORT, "70000"),
        (PORT, "0"),
        (PORT, "+80"),
        (PORT, ""),
        (SERVICE_PORT, "65536"),
        (SERVICE_PORT, "http"),
        (IPV4, "10.0.1.256"),
        (IPV4, "fd00::1"),
        (IPV4, "web.example.com"),
        (IPV4, "127.0.0.1"),
        (IPV4, "169.254.169.254"),
        (IPV4, "0.0.0.0"),
        (IPV4, "224.0.0.1"),
        (SERVICE_TYPE, "clustersetip"),
        (SERVICE_TYPE, "ExternalName"),
        (CLUSTER_ID, ""),
        (CLUSTER_ID, "Blue"),
        (CLUSTER_ID, "a.b.c"),
        (ENDPOINT_PROTOCOL, "tcp"),
        (SERVICE_PROTOCOL, ""),
        (SERVICE_PORT_NAME, "a_b"),
        (READY, ""),
        (READY, "yes"),
        (CREATED, "2026-01-01"),
        (CREATED, "9223372036854775807"),
        (CLUSTERSET_ID, "other"),
        (CLUSTERSET_ID, "shop2"),
    ];
    let line = |(key, value): &(&str, &str)| {
        format!("{key}={value}: {}\n", outcome(&with(of_aws(), key, value)))
    };
    assert_snapshot!(cases.iter().map(line).collect::<String>(), @r"
    AWS_INSTANCE_PORT=70000: its attribute AWS_INSTANCE_PORT is not a port from 1 to 65535
    AWS_INSTANCE_PORT=0: its attribute AWS_INSTANCE_PORT is not a port from 1 to 65535
    AWS_INSTANCE_PORT=+80: its attribute AWS_INSTANCE_PORT is not a port from 1 to 65535
    AWS_INSTANCE_PORT=: its attribute AWS_INSTANCE_PORT is not a port from 1 to 65535
    SERVICE_PORT=65536: its attribute SERVICE_PORT is not a port from 1 to 65535
    SERVICE_PORT=http: its attribute SERVICE_PORT is not a port from 1 to 65535
    AWS_INSTANCE_IPV4=10.0.1.256: its attribute AWS_INSTANCE_IPV4 is not an IPv4 address
    AWS_INSTANCE_IPV4=fd00::1: its attribute AWS_INSTANCE_IPV4 is not an IPv4 address
    AWS_INSTANCE_IPV4=web.example.com: its attribute AWS_INSTANCE_IPV4 is not an IPv4 address
    AWS_INSTANCE_IPV4=127.0.0.1: its address is loopback, link-local, multicast, unspecified or IPv4-mapped
    AWS_INSTANCE_IPV4=169.254.169.254: its address is loopback, link-local, multicast, unspecified or IPv4-mapped
    AWS_INSTANCE_IPV4=0.0.0.0: its address is loopback, link-local, multicast, unspecified or IPv4-mapped
    AWS_INSTANCE_IPV4=224.0.0.1: its address is loopback, link-local, multicast, unspecified or IPv4-mapped
    SERVICE_TYPE=clustersetip: its attribute SERVICE_TYPE is not ClusterSetIP or Headless
    SERVICE_TYPE=ExternalName: its attribute SERVICE_TYPE is not ClusterSetIP or Headless
    CLUSTER_ID=: its attribute CLUSTER_ID is not a cluster id
    CLUSTER_ID=Blue: its attribute CLUSTER_ID is not a cluster id
    CLUSTER_ID=a.b.c: its attribute CLUSTER_ID is not a cluster id
    ENDPOINT_PROTOCOL=tcp: its attribute ENDPOINT_PROTOCOL is not TCP, UDP or SCTP
    SERVICE_PROTOCOL=: its attribute SERVICE_PROTOCOL is not TCP, UDP or SCTP
    SERVICE_PORT_NAME=a_b: its attribute SERVICE_PORT_NAME is not the name of a port
    READY=: its attribute READY is not true or false
    READY=yes: its attribute READY is not true or false
    SERVICE_EXPORT_CREATION_TIMESTAMP=2026-01-01: its attribute SERVICE_EXPORT_CREATION_TIMESTAMP is not a time in milliseconds
    SERVICE_EXPORT_CREATION_TIMESTAMP=9223372036854775807: its attribute SERVICE_EXPORT_CREATION_TIMESTAMP is not a time in milliseconds
    CLUSTERSET_ID=other: not of this clusterset
    CLUSTERSET_ID=shop2: not of this clusterset
    ");
    let ipv6 = without(with(of_aws(), IPV6, "fe80::1"), IPV4);
    assert_eq!(read(&ipv6, &shop()), Err(Skipped::NotPublishable));
    let ipv6 = without(with(of_aws(), IPV6, "10.0.1.5"), IPV4);
    assert_eq!(read(&ipv6, &shop()), Err(Skipped::Invalid(IPV6, "an IPv6 address")));
}

#[test]
fn an_ordinary_instance_is_no_problem() {
    let ordinary = Attributes::from([(IPV4.to_owned(), "10.0.1.5".to_owned())]);
    assert_eq!(read(&ordinary, &shop()), Ok(None));
    assert_eq!(read(&without(of_aws(), CLUSTERSET_ID), &shop()), Ok(None));
}

/// A headless Service may have no port, but only ours registers its endpoints.
#[test]
fn only_our_headless_instances_may_lack_all_port_attributes() {
    let headless = ours(ImportType::Headless, &portless());
    assert_eq!(imported(&headless).endpoint, portless());
    assert_eq!(read_as_aws(&headless), Err(ENDPOINT_PORT_NAME));
    let unmarked: Attributes =
        headless.clone().into_iter().filter(|(key, _)| !key.starts_with(MARK_PREFIX)).collect();
    let cases = [
        ("of AWS's controller", unmarked),
        ("ClusterSetIP", ours(ImportType::ClusterSetIp, &portless())),
        ("with a port", with(headless.clone(), PORT, "80")),
        ("with a name", with(headless, SERVICE_PORT_NAME, "")),
    ];
    let line =
        |(case, attributes): &(&str, Attributes)| format!("{case}: {}\n", outcome(attributes));
    assert_snapshot!(cases.iter().map(line).collect::<String>(), @r"
    of AWS's controller: it lacks the attribute ENDPOINT_PORT_NAME
    ClusterSetIP: it lacks the attribute ENDPOINT_PORT_NAME
    with a port: it lacks the attribute ENDPOINT_PORT_NAME
    with a name: it lacks the attribute ENDPOINT_PORT_NAME
    ");
}
