//! The names of an export in Cloud Map and of its import in Kubernetes: ids of instances and records, and the names of
//! the derived Service and its slices. These formats must never change: another id would register every endpoint a
//! second time, and another name would give an import a new virtual IP.

use std::net::IpAddr;

use sha2::{Digest, Sha256};

use crate::model::{ClusterId, Family, Owner, PortOfService, Protocol, ServiceRef, fingerprint};

/// Returns the id of the instance of an endpoint and one of its ports: `<tcp|udp|sctp>-<address>-<port>-<10 hexadecimal
/// digits>`, or `address-<address>-<10 hexadecimal digits>` for a headless Service without ports. It is a DNS label of
/// at most 62 characters.
///
/// The digits are a hash of owner, cluster, Service, protocol, address, port and the name of the Service's port. The id
/// of AWS's controller (`tcp-10_0_1_5-8080`) is not unique: two clusters share it, and so do two ports of a Service
/// with one target. The id of an annotated Service's instance begins with `ip-`.
pub fn instance(
    owner: &Owner,
    service: &ServiceRef,
    address: IpAddr,
    port: Option<(u16, &PortOfService)>,
) -> String {
    let address = address.to_string();
    let cluster = owner.cluster.as_str();
    let digits = |protocol: &str, port: &str, name: &str| {
        let owned_service = [&owner.id, cluster, &service.namespace, &service.name];
        fingerprint::<5>(&[owned_service.as_slice(), &[protocol, &address, port, name]].concat())
    };
    let written = address.replace(['.', ':'], "-");
    match port {
        Some((number, service_port)) => {
            let protocol = service_port.protocol.as_str();
            let number = number.to_string();
            let digits = digits(protocol, &number, &service_port.name);
            format!("{}-{written}-{number}-{digits}", protocol.to_ascii_lowercase())
        }
        None => format!("address-{written}-{}", digits("", "", "")),
    }
}

/// Returns the id of an instance of AWS's controller (`tcp-10_0_1_5-8080`). Two clusters can have the same id.
pub fn instance_of_aws(address: IpAddr, protocol: Protocol, port: u16) -> String {
    let address = address.to_string().replace(['.', ':'], "_");
    format!("{}-{address}-{port}", protocol.as_str().to_ascii_lowercase())
}

/// The id of a cluster record. Its Cloud Map service has the cluster id as its name.
pub const CLUSTER_RECORD: &str = "cluster";
/// The prefix of the id of an export record.
pub const EXPORT_RECORD: &str = "export-";

/// Returns the id of an export record, which is in the same Cloud Map service as the cluster record.
pub fn export_record(service: &ServiceRef) -> String {
    format!("{EXPORT_RECORD}{}", fingerprint::<10>(&[&service.namespace, &service.name]))
}

/// The prefix of the name of a derived Service.
pub const DERIVED: &str = "derived-";

/// Returns the name of the derived Service, which gives an import its virtual IP, as in the reference implementation
/// (<https://github.com/kubernetes-sigs/mcs-api/blob/master/controllers/common.go>).
pub fn derived_service(service: &ServiceRef) -> String {
    format!("{DERIVED}{}", hash_of_name(service))
}

/// Returns the name of an `EndpointSlice` of an import. `number` counts the slices of one exporting cluster and family,
/// from 1.
pub fn slice(service: &ServiceRef, cluster: &ClusterId, family: Family, number: usize) -> String {
    let source = fingerprint::<4>(&[cluster.as_str(), family.as_str()]);
    format!("imported-{}-{source}-{number}", hash_of_name(service))
}

/// Returns the first ten characters of the SHA-256 of `namespace/name` in lower-case base32hex.
fn hash_of_name(service: &ServiceRef) -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
    const LENGTH: usize = 10;
    let hash = Sha256::digest(service.to_string());
    // Eight bytes have 64 bits, more than the 50 of ten five-bit groups.
    let first = hash.iter().take(8).fold(0u64, |bits, byte| (bits << 8) | u64::from(*byte));
    let group = |index: usize| (first >> (64 - 5 * (index + 1))) & 31;
    let digits = (0..LENGTH).filter_map(|index| DIGITS.get(usize::try_from(group(index)).ok()?));
    digits.map(|digit| char::from(*digit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClusterArn, Flow, is_derived_service, is_imported_slice};

    const LONGEST: &str = "fd00:1111:2222:3333:4444:5555:6666:7777";

    fn owner(id: &str, cluster: &str) -> Owner {
        let arn = format!("arn:aws:eks:eu-central-1:111122223333:cluster/{cluster}");
        let cluster = ClusterArn::parse(&arn).expect("an ARN");
        Owner { id: id.into(), cluster, flow: Flow::Exports }
    }

    /// The number of an endpoint's port, and the Service's port that leads to it.
    type Port = Option<(u16, PortOfService)>;

    fn port(protocol: Protocol, number: u16, name: &str) -> (u16, PortOfService) {
        (number, PortOfService { protocol, name: name.into() })
    }

    fn id_of(owner: &Owner, service: &ServiceRef, address: &str, port: &Port) -> String {
        let address = address.parse().expect("an address");
        instance(owner, service, address, port.as_ref().map(|(number, it)| (*number, it)))
    }

    fn web() -> ServiceRef {
        ServiceRef::new("shop", "web")
    }

    #[expect(clippy::needless_pass_by_value, reason = "a table reads better without references")]
    fn id(address: &str, port: Port) -> String {
        id_of(&owner("cloud-map-sync", "blue"), &web(), address, &port)
    }

    /// The first release registered instances under these ids.
    #[test]
    fn instance_ids_are_frozen() {
        let tcp = |name| Some(port(Protocol::Tcp, 8080, name));
        let ids = [
            id("10.0.1.5", tcp("http")),
            id("10.0.1.5", tcp("")),
            id("10.0.1.5", Some(port(Protocol::Udp, 53, "dns"))),
            id("10.0.1.5", None),
            id("fd00::1", tcp("http")),
            id("fd00::1", None),
            id(LONGEST, Some(port(Protocol::Sctp, 65535, "http"))),
        ];
        insta::assert_snapshot!(ids.join("\n"), @r"
        tcp-10-0-1-5-8080-ce3c31e22c
        tcp-10-0-1-5-8080-ed0110432a
        udp-10-0-1-5-53-ebed743424
        address-10-0-1-5-c607975883
        tcp-fd00--1-8080-72c8339ebf
        address-fd00--1-e0b4e0f2e2
        sctp-fd00-1111-2222-3333-4444-5555-6666-7777-65535-e4a6f75bdf
        ");
    }

    #[test]
    fn an_address_in_another_form_has_the_same_id() {
        assert_eq!(id("FD00:0:0::0001", None), id("fd00::1", None));
    }

    #[test]
    fn each_part_tells_ids_apart() {
        let of = |owner: &Owner, service: (&str, &str), address, port: &Port| {
            id_of(owner, &ServiceRef::new(service.0, service.1), address, port)
        };
        let blue = owner("a", "blue");
        let web = ("shop", "web");
        let address = "10.0.1.5";
        let plain = Some(port(Protocol::Tcp, 8080, "http"));
        let ids = [
            of(&blue, web, address, &plain),
            of(&blue, ("shopw", "eb"), address, &plain),
            of(&blue, ("shop", "api"), address, &plain),
            of(&owner("b", "blue"), web, address, &plain),
            of(&owner("a", "green"), web, address, &plain),
            of(&blue, web, "10.0.1.6", &plain),
            of(&blue, web, address, &None),
            of(&blue, web, address, &Some(port(Protocol::Udp, 8080, "http"))),
            of(&blue, web, address, &Some(port(Protocol::Tcp, 8081, "http"))),
            of(&blue, web, address, &Some(port(Protocol::Tcp, 8080, "web"))),
        ];
        let hashes: std::collections::BTreeSet<&str> =
            ids.iter().filter_map(|id| id.rsplit('-').next()).collect();
        assert_eq!(hashes.len(), ids.len(), "{ids:#?}");
    }

    #[test]
    fn the_longest_id_is_a_dns_label() {
        for port in [None, Some(port(Protocol::Sctp, 65535, "http"))] {
            for address in ["::1", "fd00::", LONGEST] {
                let id = id(address, port.clone());
                assert!(id.len() <= 62, "{id} has {}", id.len());
                assert!(crate::model::is_dns_label(&id), "{id}");
                assert!(!id.starts_with("ip-"), "{id}: an annotated Service's");
            }
        }
    }

    #[test]
    fn record_ids_are_frozen() {
        assert_eq!(export_record(&web()), "export-7cb0d844a658ca77f191");
        assert_ne!(export_record(&ServiceRef::new("shopw", "eb")), export_record(&web()));
    }

    /// Computed with Python's `hashlib` and `base64.b32hexencode`. An import with another name would get another
    /// virtual IP.
    #[test]
    fn names_of_imported_objects_are_frozen() {
        let blue = ClusterId::parse("blue").expect("an id");
        let names = [
            derived_service(&web()),
            derived_service(&ServiceRef::new("default", "my-svc")),
            slice(&web(), &blue, Family::V4, 1),
            slice(&web(), &blue, Family::V6, 12),
            slice(&web(), &ClusterId::parse("green").expect("an id"), Family::V4, 1),
        ];
        assert!(names[..2].iter().all(|name| is_derived_service(name)));
        assert!(names[2..].iter().all(|name| is_imported_slice(name)));
        insta::assert_snapshot!(names.join("\n"), @r"
        derived-isrlchlhrq
        derived-b8s174v3sn
        imported-isrlchlhrq-ac321fb1-1
        imported-isrlchlhrq-d2a9ffcb-12
        imported-isrlchlhrq-8de69181-1
        ");
    }
}
