//! The identity of an instance in a Cloud Map service, the id of a new instance, and the attributes that a rewrite of
//! our instance sends, with Cloud Map's limits for attributes.
//!
//! The likely owner of a foreign instance appears in reports and remarks. Adoptions exclude instances that ECS may have
//! registered. Only [`Owner::owns`] decides whether this function may change an instance.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::clusterset::attributes::{is_written, service_port};
use crate::clusterset::id;
use crate::model::attributes::{
    ANNOTATED, AVAILABILITY_ZONE, INITIAL_HEALTH, IPV4, IPV6, MARK_PREFIX, NAMESPACE, PORT, REGION,
    SCHEMA, SERVICE, SIGHTING,
};
use crate::model::{
    Attributes, Claims, Endpoint, Flow, Foreign, Health, Owner, PortOfService, ServiceRef,
    attributes, fingerprint,
};

/// The addresses of an instance, with its port if ports distinguish the instances of its service.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    pub ipv4: Option<Ipv4Addr>,
    pub ipv6: Option<Ipv6Addr>,
    /// `None` except in HTTP and SRV services.
    pub port: Option<u16>,
    /// The Service's port that leads to an exported instance, since two ports of a Service may lead to one port of a
    /// pod. Boxed to save memory: a plan has an identity for each instance, and most have no such port.
    pub service_port: Option<Box<PortOfService>>,
}

impl Identity {
    /// The identity in an instance's attributes. Invalid addresses and ports are ignored.
    pub fn of(attributes: &Attributes, distinguishes_ports: bool) -> Self {
        let port = attributes.get(PORT).filter(|_| distinguishes_ports);
        let is_exported = distinguishes_ports && Flow::Exports.is_of(attributes);
        Self {
            ipv4: attributes.get(IPV4).and_then(|text| text.parse().ok()),
            ipv6: attributes.get(IPV6).and_then(|text| text.parse().ok()),
            port: port.and_then(|text| text.parse().ok()),
            service_port: is_exported.then(|| service_port(attributes)).flatten().map(Box::new),
        }
    }

    /// The addresses, IPv4 first.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + use<> {
        self.ipv4.map(IpAddr::V4).into_iter().chain(self.ipv6.map(IpAddr::V6))
    }

    /// The id of a new instance in the flow of its owner.
    pub fn new_id(&self, owner: &Owner, service: &ServiceRef) -> String {
        match (owner.flow, self.addresses().next()) {
            (Flow::Exports, Some(address)) => {
                let port = self.port.zip(self.service_port.as_deref());
                id::instance(owner, service, address, port)
            }
            _ => id_of_annotated(owner, service, self),
        }
    }
}

/// The id of an instance of an annotated Service: `ip-<address>[-<port>]-<10 hexadecimal digits>`, a DNS label of at
/// most 63 characters. The digits are a hash of owner, cluster, Service, address and port, so no other party and no
/// other cluster makes the same id. The format must never change: a different id would register every pod a second
/// time.
fn id_of_annotated(owner: &Owner, service: &ServiceRef, identity: &Identity) -> String {
    let address = identity.addresses().next().map(|address| address.to_string());
    let address = address.unwrap_or_default();
    let port = identity.port.map(|port| port.to_string()).unwrap_or_default();
    let cluster = owner.cluster.as_str();
    let parts = [&owner.id, cluster, &service.namespace, &service.name, &address, &port];
    let digits = fingerprint::<5>(&parts);
    let address = address.replace(['.', ':'], "-");
    let port = identity.port.map(|port| format!("-{port}")).unwrap_or_default();
    format!("ip-{address}{port}-{digits}")
}

/// The hash in a new id, which is evenly distributed.
pub fn hash_of(id: &str) -> &str {
    id.rsplit('-').next().unwrap_or(id)
}

/// Whether this function sets and repairs an attribute of its instances. A mark lists the attributes that came from
/// annotations. All other attributes were added by hand.
pub(super) fn is_managed(key: &str, present: &Attributes) -> bool {
    let is_aws = key.starts_with("AWS_") && key != INITIAL_HEALTH;
    let is_annotated =
        present.get(ANNOTATED).is_some_and(|keys| keys.split(',').any(|listed| listed == key));
    let is_exported = Flow::Exports.is_of(present) && is_written(key);
    let is_location = [AVAILABILITY_ZONE, REGION].contains(&key);
    is_aws || is_annotated || is_exported || is_location || attributes::is_known_mark(key)
}

/// Cloud Map's limits for the attributes of an instance, and the longest note of the guard with its key.
const MAX_ATTRIBUTES: usize = 30;
const MAX_CHARACTERS: usize = 5000;
const NOTE_CHARACTERS: usize = 60;

impl Attributes {
    /// The attributes of a rewrite: the wanted ones, and the present ones that were added by hand. `RegisterInstance`
    /// replaces the whole map, so attributes that are not sent again would be lost.
    #[must_use]
    pub fn carry_over(&self, wanted: &Self) -> Self {
        let others = self.iter().filter(|(key, _)| !is_managed(key, self));
        let mut rewritten: Self = others.collect();
        // A note is about the Service for which the instance was registered.
        if [NAMESPACE, SERVICE].iter().any(|mark| self.get(mark) != wanted.get(mark)) {
            rewritten.remove(SIGHTING);
        }
        // A registration resets the health to this value, and a registered instance is ready.
        if rewritten.contains_key(INITIAL_HEALTH) {
            rewritten.insert(INITIAL_HEALTH, "HEALTHY");
        }
        rewritten.extend(wanted);
        rewritten.insert(SCHEMA, attributes::schema_over(self.get(SCHEMA)));
        rewritten
    }

    /// The limit of Cloud Map that the attributes exceed: 30 custom attributes, or 5,000 characters in all.
    pub fn beyond_limits(&self) -> Option<String> {
        self.beyond(MAX_ATTRIBUTES, MAX_CHARACTERS)
    }

    /// The limit that the attributes of a new instance exceed: a key and 60 characters stay free for the guard's note.
    pub fn beyond_limits_with_note(&self) -> Option<String> {
        let problem = self.beyond(MAX_ATTRIBUTES - 1, MAX_CHARACTERS - NOTE_CHARACTERS)?;
        Some(format!("{problem}; one with {NOTE_CHARACTERS} characters is for the guard's note"))
    }

    fn beyond(&self, keys: usize, characters: usize) -> Option<String> {
        let own = self.keys().filter(|key| !key.starts_with("AWS_")).count();
        let size: usize = self.iter().map(|(key, value)| key.len() + value.len()).sum();
        if own > keys {
            return Some(format!("{own} attributes, and Cloud Map allows 30"));
        }
        let is_too_long = size > characters;
        is_too_long.then(|| format!("{size} characters of attributes, and Cloud Map allows 5,000"))
    }

    /// The likely owner of an instance that is not ours.
    pub fn likely_owner(&self, id: &str) -> Foreign {
        let has = |prefix: &str| self.keys().any(|key| key.starts_with(prefix));
        let is_of_mcs = self
            .get("K8S_CONTROLLER")
            .is_some_and(|controller| controller.starts_with(MCS_CONTROLLER));
        if Flow::of(self) == Some(Flow::Exports) {
            Foreign::Export
        } else if self.has_marks() {
            Foreign::OtherCluster
        } else if self.is_of_ecs(id) {
            Foreign::Ecs
        } else if is_of_mcs {
            Foreign::McsController
        } else if has("appmesh.k8s.aws/") {
            Foreign::AppMesh
        } else {
            Foreign::Unknown
        }
    }

    /// Whether ECS registered the instance, judged by its id and attributes. Not all tasks have the `ECS_` keys of
    /// their service. A UUID as the id identifies a task only together with the zone and Region that ECS writes for
    /// each task. An instance with marks never belongs to ECS, since an annotation may give a pod the keys of a task.
    pub fn is_of_ecs(&self, id: &str) -> bool {
        if self.has_marks() {
            return false;
        }
        let has = |key: &str| self.contains_key(key);
        self.keys().any(|key| key.starts_with("ECS_"))
            // ECS registers a task under its id: 32 lower-case hexadecimal digits.
            || is_hexadecimal(id, 32)
            || has(AVAILABILITY_ZONE) && has(REGION) && self.may_be_of_ecs(id)
    }

    /// Whether ECS may have registered the instance: its id is a UUID, as the ids of tasks were for years. Other tools
    /// may use UUIDs, too.
    pub fn may_be_of_ecs(&self, id: &str) -> bool {
        is_uuid(id) && !self.has_marks()
    }

    /// Whether an instance has marks of this function, of any owner.
    pub fn has_marks(&self) -> bool {
        self.keys().any(|key| key.starts_with(MARK_PREFIX))
    }
}

/// The marker that the AWS MCS controller writes into its instances, before its version.
const MCS_CONTROLLER: &str = "aws-cloud-map-mcs-controller-for-k8s";

/// Five groups of lower-case hexadecimal digits with dashes between them.
fn is_uuid(id: &str) -> bool {
    let groups = [8, 4, 4, 4, 12];
    let mut parts = id.split('-');
    groups.into_iter().all(|length| parts.next().is_some_and(|part| is_hexadecimal(part, length)))
        && parts.next().is_none()
}

fn is_hexadecimal(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Endpoint {
    /// Whether an endpoint is registered: it is ready, or it terminates and still serves, and the Service keeps such
    /// endpoints.
    pub fn is_published(&self, claims: &Claims) -> bool {
        match self.health() {
            Health::Ready => true,
            Health::Leaving => claims.keeps_serving,
            Health::NotReady => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::attributes::OF_TASK;
    use crate::model::{ClusterArn, Flow, Marks, ServiceRef};

    fn owner(id: &str) -> Owner {
        let arn = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";
        let cluster = ClusterArn::parse(arn).expect("an ARN");
        Owner { id: id.into(), cluster, flow: Flow::Annotations }
    }

    fn identity(ipv4: Option<&str>, ipv6: Option<&str>, port: Option<u16>) -> Identity {
        Identity {
            ipv4: ipv4.map(|text| text.parse().expect("IPv4")),
            ipv6: ipv6.map(|text| text.parse().expect("IPv6")),
            port,
            service_port: None,
        }
    }

    /// The first release registered these ids.
    #[test]
    fn ids_are_frozen() {
        let web = ServiceRef::new("shop", "web");
        let cases = [
            (identity(Some("10.0.1.5"), None, None), "ip-10-0-1-5-feaedf6be2"),
            (identity(Some("10.0.1.5"), None, Some(8080)), "ip-10-0-1-5-8080-0a3900f928"),
            (
                identity(Some("10.0.1.5"), Some("fd00::1"), Some(8080)),
                "ip-10-0-1-5-8080-0a3900f928",
            ),
            (identity(None, Some("fd00::1"), None), "ip-fd00--1-065e1ddfae"),
        ];
        for (identity, expected) in cases {
            assert_eq!(identity.new_id(&owner("cloud-map-sync"), &web), expected);
        }
    }

    #[test]
    fn parts_that_run_together_give_different_ids() {
        let identity = identity(Some("10.0.1.5"), None, None);
        let one = identity.new_id(&owner("a"), &ServiceRef::new("shop", "web"));
        let other = identity.new_id(&owner("a"), &ServiceRef::new("shopw", "eb"));
        assert_ne!(one, other);
    }

    #[test]
    fn instance_of_an_export_has_an_id_of_its_own_format() {
        let owner = Owner { flow: Flow::Exports, ..owner("cloud-map-sync") };
        let web = ServiceRef::new("shop", "web");
        let id = identity(Some("10.0.1.5"), None, None).new_id(&owner, &web);
        assert!(id.starts_with("address-10-0-1-5-"), "{id}");
    }

    #[test]
    fn the_longest_id_is_a_dns_label() {
        let longest = identity(None, Some("fd00:1111:2222:3333:4444:5555:6666:7777"), Some(65535));
        let id = longest.new_id(&owner("cloud-map-sync"), &ServiceRef::new("shop", "web"));
        assert!(id.len() <= 63, "{id} has {}", id.len());
        assert!(id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'-')));
    }

    #[test]
    fn attributes_from_annotations_go_with_them_and_others_stay() {
        let of = |keys: &[(&str, &str)]| -> Attributes {
            keys.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let present = of(&[("a", "1"), ("b", "2"), ("by-hand", "3"), (ANNOTATED, "a,b")]);
        let again = present.carry_over(&of(&[("b", "4"), (ANNOTATED, "b")]));
        let found = ["a", "b", "by-hand", ANNOTATED].map(|key| again.get(key));
        assert_eq!(found, [None, Some("4"), Some("3"), Some("b")]);
    }

    #[test]
    fn cloud_map_takes_30_attributes_beside_its_own_and_5000_characters() {
        let own = |index| (format!("key-{index:02}"), "x".to_owned());
        let with_own = |count| {
            let aws = ("AWS_INSTANCE_IPV4".to_owned(), "10.0.0.1".to_owned());
            (0..count).map(own).chain([aws]).collect::<Attributes>()
        };
        assert_eq!(with_own(30).beyond_limits(), None);
        let too_many = "31 attributes, and Cloud Map allows 30";
        assert_eq!(with_own(31).beyond_limits().as_deref(), Some(too_many));
        let of_size = |size: usize| Attributes::from([("key".to_owned(), "x".repeat(size - 3))]);
        assert_eq!(of_size(5000).beyond_limits(), None);
        let too_long = "5001 characters of attributes, and Cloud Map allows 5,000";
        assert_eq!(of_size(5001).beyond_limits().as_deref(), Some(too_long));
    }

    fn owner_of(cluster: &str) -> Owner {
        let arn = format!("arn:aws:eks:eu-central-1:111122223333:cluster/{cluster}");
        let cluster = ClusterArn::parse(&arn).expect("an ARN");
        Owner { id: "cloud-map-sync".into(), cluster, flow: Flow::Annotations }
    }

    #[test]
    fn foreign_instances_are_distinguished_for_the_reader() {
        let marks = Marks { service: ServiceRef::new("shop", "web"), pod: None };
        let exporter = Owner { flow: Flow::Exports, ..owner_of("blue") };
        let task = "0123456789abcdef0123456789abcdef";
        let uuid = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
        let capitals = uuid.to_uppercase();
        let longer = format!("{uuid}-1");
        let attributes = |key: &str| Attributes::from([(key.to_owned(), "x".to_owned())]);
        let place = Attributes::from([("AVAILABILITY_ZONE", "x"), ("REGION", "x")]);
        let mut adopted = marks.write(&owner_of("green"));
        adopted.extend(&place);
        let like_a_task = |owner: &Owner| {
            let mut attributes = marks.write(owner);
            attributes.extend(OF_TASK.map(|key| (key, "web")));
            attributes
        };
        let mcs = |it: &str| Attributes::from([("K8S_CONTROLLER".to_owned(), it.to_owned())]);
        let cases = [
            ("a", marks.write(&owner_of("blue")), None),
            ("a", marks.write(&owner_of("green")), Some(Foreign::OtherCluster)),
            ("a", like_a_task(&owner_of("blue")), None),
            ("a", like_a_task(&owner_of("green")), Some(Foreign::OtherCluster)),
            (task, like_a_task(&exporter), Some(Foreign::Export)),
            ("a", marks.write(&exporter), Some(Foreign::Export)),
            ("a", attributes("cloud-map-sync/schema"), Some(Foreign::OtherCluster)),
            ("a", attributes("ECS_SERVICE_NAME"), Some(Foreign::Ecs)),
            (task, attributes("AWS_INSTANCE_IPV4"), Some(Foreign::Ecs)),
            (uuid, place.clone(), Some(Foreign::Ecs)),
            (uuid, adopted, Some(Foreign::OtherCluster)),
            (uuid, attributes("REGION"), Some(Foreign::Unknown)),
            (&capitals, place.clone(), Some(Foreign::Unknown)),
            (&uuid[1..], place.clone(), Some(Foreign::Unknown)),
            (&longer, place.clone(), Some(Foreign::Unknown)),
            ("a", place, Some(Foreign::Unknown)),
            ("a", mcs("aws-cloud-map-mcs-controller-for-k8s 0.3.1"), Some(Foreign::McsController)),
            ("a", mcs("my-own"), Some(Foreign::Unknown)),
            ("a", attributes("appmesh.k8s.aws/mesh"), Some(Foreign::AppMesh)),
            ("a", attributes("AWS_INSTANCE_IPV4"), Some(Foreign::Unknown)),
        ];
        for (id, attributes, expected) in cases {
            let is_of_ecs = expected == Some(Foreign::Ecs);
            assert_eq!(attributes.is_of_ecs(id), is_of_ecs, "{id} {attributes:?}");
            let is_ours = owner_of("blue").owns(&attributes);
            let found = (!is_ours).then(|| attributes.likely_owner(id));
            assert_eq!(found, expected, "{id} {attributes:?}");
        }
    }
}
